import type { Test } from 'tap'
import { paced } from '../../src/client/index.js'
import type { PacedOptions, RefusedEvent, WaitEvent } from '../../src/client/index.js'
import { VirtualTime } from './virtual-time.js'

/** A request as it came. */
export interface Call {
  /** Milliseconds since the start. */
  readonly at: number
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: unknown
}

/** What is answered to it; 200 and nothing else where nothing else is said. */
export interface Reply {
  readonly status?: number
  readonly fields?: Readonly<Record<string, string>>
  readonly body?: string | ReadableStream<Uint8Array> | null
  /** Milliseconds until it comes. */
  readonly after?: number
}

export interface World {
  readonly time: VirtualTime
  readonly calls: readonly Call[]
  readonly waits: readonly WaitEvent[]
  readonly refusals: readonly RefusedEvent[]
  readonly api: typeof fetch
  /** When each request came, in seconds since the start. */
  readonly seconds: () => readonly number[]
}

/** A client in a time of its own, and a server that answers as a test says: a reply each, and then the last one always. */
export function world(
  replies: readonly Reply[] | ((call: Call, index: number) => Reply),
  options: PacedOptions = {}
): World {
  const time = new VirtualTime()
  const calls: Call[] = []
  const waits: WaitEvent[] = []
  const refusals: RefusedEvent[] = []
  const reply =
    typeof replies === 'function'
      ? replies
      : (_call: Call, index: number) => replies[index] ?? replies.at(-1)!
  const server: typeof fetch = async (input, init) => {
    const request = input instanceof Request ? input : undefined
    const call = {
      at: time.passed,
      method: init?.method ?? request?.method ?? 'GET',
      path: new URL(input instanceof Request ? input.url : input).pathname,
      headers: new Headers(init?.headers ?? request?.headers),
      body: init?.body
    }
    calls.push(call)
    const { status = 200, fields = {}, body = 'served', after = 0 } = reply(call, calls.length - 1)
    if (after > 0) await unlessAborted(time.sleep(after), init?.signal ?? undefined)
    init?.signal?.throwIfAborted()
    return new Response(body, { status, headers: fields })
  }
  const api = paced(server, {
    timing: time,
    onWait: event => waits.push(event),
    onRefused: event => refusals.push(event),
    ...options
  })
  return { time, calls, waits, refusals, api, seconds: () => calls.map(({ at }) => at / 1000) }
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  const aborted = new Promise<void>(resolve =>
    signal?.addEventListener('abort', () => resolve(), { once: true })
  )
  await Promise.race([work, aborted])
}

/** Fields of a policy of 10 requests per 10 seconds, of which `available` are left for `seconds`. */
export function told(available: number, seconds: number, more: Readonly<Record<string, string>> = {}): Reply {
  return {
    fields: { 'ratelimit-policy': '"p";q=10;w=10', ratelimit: `"p";r=${available};t=${seconds}`, ...more }
  }
}

/** A refusal with these fields and, if any are named, these policies. */
export function refused(
  fields: Readonly<Record<string, string>> = {},
  violated?: readonly string[],
  status = 429
): Reply {
  if (violated === undefined) return { status, fields, body: 'no' }
  return {
    status,
    fields: { 'content-type': 'application/problem+json', ...fields },
    body: JSON.stringify({ status, 'violated-policies': violated })
  }
}

export const URL_OF_ALL = 'http://api.test/'

/** The statuses of so many requests sent at once. */
export async function all(
  { time, api }: World,
  count: number,
  url: string = URL_OF_ALL
): Promise<readonly number[]> {
  return time.run(Promise.all(Array.from({ length: count }, async () => (await api(url)).status)))
}

/** The statuses of so many requests, sent one after the other. */
export async function oneByOne(
  { time, api }: World,
  count: number,
  url: string = URL_OF_ALL
): Promise<readonly number[]> {
  const send = async (): Promise<readonly number[]> => {
    const statuses: number[] = []
    for (let i = 0; i < count; i++) statuses.push((await api(url)).status)
    return statuses
  }
  return time.run(send())
}

/** Whether a promise is settled by now. */
export async function isSettled(time: VirtualTime, promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  const settle = (): void => void (settled = true)
  promise.then(settle, settle)
  await time.pass(0)
  return settled
}

/** That a number lies within two others. */
export function within(t: Test, value: number | undefined, least: number, most: number, name: string): void {
  t.ok(
    value !== undefined && value >= least && value <= most,
    `${name}: ${value} is within ${least} and ${most}`
  )
}
