/** What an interceptor of undici is given and gives on, as far as it is used here. undici itself is never loaded. */
export interface DispatchOptions {
  readonly origin?: string | URL | undefined
  readonly path: string
  readonly method: string
  readonly headers?: unknown
  readonly body?: unknown
}

export type ResponseHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

export interface DispatchController {
  readonly aborted: boolean
  readonly paused: boolean
  readonly reason: Error | null
  rawHeaders?: unknown
  rawTrailers?: unknown
  abort(reason: Error): void
  pause(): void
  resume(): void
}

/** The handlers of undici 7 and later. */
export interface DispatchHandler {
  onRequestStart?(controller: DispatchController, context: object): void
  onRequestUpgrade?(
    controller: DispatchController,
    statusCode: number,
    headers: ResponseHeaders,
    socket: unknown
  ): void
  onResponseStart?(
    controller: DispatchController,
    statusCode: number,
    headers: ResponseHeaders,
    statusMessage?: string
  ): void
  onResponseData?(controller: DispatchController, chunk: Uint8Array): void
  onResponseEnd?(controller: DispatchController, trailers: ResponseHeaders): void
  onResponseError?(controller: DispatchController, error: Error): void
}

export type Dispatch = (options: DispatchOptions, handler: DispatchHandler) => boolean

/** Header fields in any of the forms that undici takes: an object, pairs, or names and values in turns. */
export function* headersOf(headers: unknown): Iterable<[name: string, value: string]> {
  for (const [name, value] of pairsOf(headers)) {
    for (const line of Array.isArray(value) ? value : [value]) {
      if (line !== undefined && line !== null) yield [String(name), String(line)]
    }
  }
}

function pairsOf(headers: unknown): Iterable<readonly [unknown, unknown]> {
  if (typeof headers !== 'object' || headers === null) return []
  if (!(Symbol.iterator in headers)) return Object.entries(headers)
  const items = [...(headers as Iterable<unknown>)]
  if (Array.isArray(items[0])) return items as (readonly [unknown, unknown])[]
  return items.flatMap((name, index) => (index % 2 === 0 ? [[name, items[index + 1]] as const] : []))
}
