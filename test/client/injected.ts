import type { FastifyInstance } from 'fastify'
import type { VirtualTime } from './virtual-time.js'

/** What happened to one request. */
export interface Sent {
  /** Milliseconds since the start, when it reached the server. */
  readonly at: number
  readonly status: number
}

/** A `fetch` that reaches an app without a network, over which requests and responses take their time. */
export function injected(
  app: FastifyInstance,
  time: VirtualTime,
  latency: () => number,
  sent: Sent[] = []
): typeof fetch {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    await time.sleep(latency())
    init?.signal?.throwIfAborted()
    const at = time.passed
    const response = await time.whileBusy(async () =>
      app.inject({
        url: url.pathname + url.search,
        method: (init?.method ?? 'GET') as 'GET',
        headers: Object.fromEntries(new Headers(init?.headers)),
        ...(init?.body === undefined ? {} : { payload: init.body as string })
      })
    )
    sent.push({ at, status: response.statusCode })
    await time.sleep(latency())
    const { headers, statusCode, statusMessage } = response
    const fields = Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string])
    return new Response(response.body === '' ? null : response.body, {
      status: statusCode,
      statusText: statusMessage,
      headers: fields
    })
  }
}
