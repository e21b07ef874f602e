import { asFunction, refuser } from '../options.js'
import { QuotaOptionError } from './errors.js'
import { heldResponse } from './held-response.js'
import type { ResponseLike } from './held-response.js'
import { readSettings } from './options.js'
import type { PacedOptions } from './options.js'
import { isReplayable } from './outgoing.js'
import type { OutgoingRequest } from './outgoing.js'
import { Pacer } from './pacer.js'
import type { Repeatable } from './pacer.js'
import type { Head } from './told.js'
import type { Trip } from './trip.js'
import { LONGEST_PROBLEM, isProblem, violatedPolicies } from './violations.js'

/** A `fetch`: the global one of browsers, Node.js, Deno or Bun, that of undici, or another one with the same parameters. */
export type Fetch = (input: never, init?: never) => Promise<ResponseLike>

/** What requests are made of, as far as it is read here. */
type Input = string | { readonly href: string } | Given

/** A `Request`, of whatever realm. */
interface Given {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body?: unknown
  readonly signal: AbortSignal
}

interface Init {
  readonly method?: string | undefined
  readonly headers?: ConstructorParameters<typeof Headers>[0]
  readonly body?: unknown
  readonly signal?: AbortSignal | null | undefined
}

type Send = (input: Input, init: Init | undefined) => Promise<ResponseLike>

/**
 * A `fetch` that paces itself by what servers tell in `RateLimit` and `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers-11) or in the forms that came before them: requests wait until their quota has
 * room for them, and what is refused all the same is sent again once `Retry-After` is over. It is called like the `fetch`
 * it was made of, and resolves and rejects as that does. A refusal that is not sent again is a response like any other.
 *
 * Besides it rejects with {@link QuotaWaitError} when the quota has no room within `maxWait`, with {@link QuotaQueueError}
 * when the queue is full, and with the reason of the request's signal when that is aborted first.
 *
 * @throws {QuotaOptionError} when an option is not what it has to be.
 */
export function paced<F extends Fetch>(fetch: F, options: PacedOptions = {}): F {
  asFunction(refuser(QuotaOptionError, 'paced'), 'fetch', fetch)
  const settings = readSettings('paced', options)
  const pacer = new Pacer(settings)
  const send = fetch as unknown as Send
  const pacedFetch: Send = async (input, init) => {
    const given = isRequest(input) ? input : undefined
    const request = outgoing(input, given, init)
    const trip = pacer.trip(request, repeatable(request, given))
    const signal = (init?.signal === undefined ? given?.signal : init.signal) ?? undefined
    for (;;) {
      const key = await trip.turn(signal)
      const response = await sent(trip, () => {
        const fields = key === undefined ? undefined : settings.keys!.apply(key, request)
        return send(input, withFields(init, given, fields))
      })
      const answer = await judged(trip, request, response)
      if (answer !== undefined) return answer
    }
  }
  return pacedFetch as unknown as F
}

const isRequest = (input: Input): input is Given => typeof input === 'object' && 'url' in input

function outgoing(input: Input, given: Given | undefined, init: Init | undefined): OutgoingRequest {
  const address = typeof input === 'string' ? input : 'url' in input ? input.url : input.href
  // In a page, addresses are relative to it.
  const { location } = globalThis as { readonly location?: { readonly href: string } }
  return {
    url: new URL(address, location?.href),
    method: (init?.method ?? given?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? given?.headers),
    body: init?.body ?? undefined
  }
}

function repeatable({ body }: OutgoingRequest, given: Given | undefined): Repeatable {
  const isRepeatable = body === undefined ? given === undefined || isEmpty(given) : isReplayable(body)
  return isRepeatable ? 'repeatable' : 'once'
}

/** The body of a `Request` is a stream. Not every browser shows it: then the method tells whether there may be one. */
const isEmpty = ({ body, method }: Given): boolean =>
  body === null || (body === undefined && (method === 'GET' || method === 'HEAD'))

function withFields(
  init: Init | undefined,
  given: Given | undefined,
  fields: Readonly<Record<string, string>> | undefined
): Init | undefined {
  if (fields === undefined) return init
  const headers = new Headers(init?.headers ?? given?.headers)
  for (const [name, value] of Object.entries(fields)) headers.set(name, value)
  return { ...init, headers }
}

async function sent(trip: Trip, send: () => Promise<ResponseLike>): Promise<ResponseLike> {
  try {
    return await send()
  } catch (error) {
    trip.failed()
    throw error
  }
}

/** The response to give to the caller; `undefined`: the request has to be sent again. */
async function judged(
  trip: Trip,
  request: OutgoingRequest,
  response: ResponseLike
): Promise<ResponseLike | undefined> {
  const reading = trip.read(headOf(request, response))
  if (!reading.refused) {
    trip.served(reading)
    if (trip.holds) return heldResponse(response, () => trip.ended())
    trip.ended()
    return response
  }
  const again = trip.refused(reading, await violated(response))
  if (!again) return response
  await response.body?.cancel().catch(() => {})
  return undefined
}

/** After a redirect to another server the fields are that one's, and say nothing of this one. */
function headOf({ url }: OutgoingRequest, response: ResponseLike): Head {
  const { status, headers } = response
  const isElsewhere = response.redirected && new URL(response.url).origin !== url.origin
  return { status, field: name => (isElsewhere ? undefined : (headers.get(name) ?? undefined)) }
}

async function violated(response: ResponseLike): Promise<readonly string[] | undefined> {
  if (!isProblem(response.headers.get('content-type'))) return undefined
  try {
    return violatedPolicies(await textOf(response.clone().body))
  } catch {
    return undefined // it broke off; its caller will see that
  }
}

async function textOf(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const decoder = new TextDecoder()
  const reader = body?.getReader()
  let text = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done) return text
    text += decoder.decode(value, { stream: true })
    if (text.length > LONGEST_PROBLEM) {
      void reader?.cancel().catch(() => {})
      return ''
    }
  }
}
