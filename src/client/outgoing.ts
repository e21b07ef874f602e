import { ONE_REQUEST } from './costs.js'
import type { Costs } from './costs.js'

/** A request as the functions among the options see it. */
export interface OutgoingRequest {
  readonly url: URL
  /** In upper case. */
  readonly method: string
  readonly headers: Headers
  /** As it was given, if it was given beside the URL: a string, bytes, a form, a stream. */
  readonly body: unknown
}

/** The default of the option `route`: method and path, where HEAD is as GET. */
export function methodAndPath({ method, url }: OutgoingRequest): string {
  return `${method === 'HEAD' ? 'GET' : method} ${url.pathname}`
}

/** What a request costs unless the option `cost` says something else: one request, and the bytes of its body if known. */
export function plainCosts({ body }: OutgoingRequest): Costs {
  const bytes = lengthOf(body)
  return bytes === undefined ? ONE_REQUEST : { ...ONE_REQUEST, [CONTENT_BYTES]: bytes }
}

/** The draft's unit for the bytes of a body (§3.1.2). */
const CONTENT_BYTES = 'content-bytes'

function lengthOf(body: unknown): number | undefined {
  if (body === undefined || body === null) return 0
  if (typeof body === 'string') return new TextEncoder().encode(body).byteLength
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return body.byteLength
  return body instanceof Blob ? body.size : undefined
}

/** Whether a body can be sent a second time: a stream or an iterator is used up by the first. */
export function isReplayable(body: unknown): boolean {
  if (typeof body !== 'object' || body === null || ArrayBuffer.isView(body)) return true
  return [ArrayBuffer, Blob, FormData, URLSearchParams].some(kind => body instanceof kind)
}
