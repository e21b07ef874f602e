import type { Answer, Outgoing, World } from './world.js'

/** A clock that a test moves: hand `() => clock.now` to the plugin, and the clock to the audit. */
export interface AuditClock {
  /** Milliseconds. */
  now: number
}

/** What an audit needs of an app of Fastify to ask it without a socket. */
export interface InjectableApp {
  inject(request: {
    readonly method: never
    readonly url: string
    readonly headers: Record<string, string>
    readonly payload?: string
  }): PromiseLike<InjectedResponse>
}

export interface InjectedResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, number | string | string[] | undefined>>
  readonly payload: string
}

/** An app in this process, and a clock that stands still while it answers: no time is lost, and none is uncertain. */
export function virtualWorld(app: InjectableApp, clock: AuditClock, signal: AbortSignal | undefined): World {
  const inFlight = new Set<Promise<Answer>>()
  return {
    now: () => clock.now,
    until: async time => {
      await Promise.all(inFlight)
      signal?.throwIfAborted()
      clock.now = Math.max(clock.now, Math.round(time))
    },
    warm: async () => undefined,
    send: async request => {
      const answer = injected(app, request, clock.now)
      inFlight.add(answer)
      return answer.finally(() => inFlight.delete(answer))
    },
    precision: 1,
    tolerance: () => 0,
    close: async () => undefined
  }
}

async function injected(app: InjectableApp, request: Outgoing, at: number): Promise<Answer> {
  const { method, path: url, headers, body } = request
  const answer = { sent: at, arrived: at, status: undefined, fields: {}, body: '' }
  try {
    const response = await app.inject({
      method: method as never,
      url,
      headers: { ...headers },
      ...(body === undefined ? {} : { payload: body })
    })
    return {
      ...answer,
      status: response.statusCode,
      fields: Object.fromEntries(
        Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(', ')])
      ),
      body: response.payload,
      failure: undefined
    }
  } catch (error) {
    return { ...answer, failure: (error as Error).message }
  }
}
