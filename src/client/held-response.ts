/** Bytes that are read ahead of whoever reads the body, so that a small body that nobody reads is over all the same. */
const READ_AHEAD = 65_536

/** A response as far as it is needed here; those of any `fetch` have it. */
export type ResponseLike = Pick<
  Response,
  'status' | 'statusText' | 'headers' | 'body' | 'url' | 'redirected' | 'type' | 'clone'
>

/**
 * The same response, whose end is told: `over` is called once, when its body has been read, has failed or was cancelled.
 * A large body that nobody reads or cancels is not over, for the server neither.
 */
export function heldResponse<R extends ResponseLike>(response: R, over: () => void): R {
  const { body, url, redirected, type } = response
  if (!body) {
    over()
    return response
  }
  const Made = response.constructor as new (body: unknown, init: unknown) => R
  const copy = new Made(watched(body, once(over)), response)
  // A response that is made by hand has none of these.
  return Object.defineProperties(copy, {
    url: { value: url },
    redirected: { value: redirected },
    type: { value: type }
  })
}

function watched(body: ReadableStream<Uint8Array>, over: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          over()
          throw error
        })
        if (!done) return controller.enqueue(value)
        over()
        controller.close()
      },
      cancel(reason) {
        over()
        return reader.cancel(reason)
      }
    },
    { highWaterMark: READ_AHEAD, size: chunk => chunk.byteLength }
  )
}

function once(work: () => void): () => void {
  let done = false
  return () => {
    if (!done) work()
    done = true
  }
}
