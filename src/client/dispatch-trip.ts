import { headersOf } from './dispatch.js'
import type {
  Dispatch,
  DispatchController,
  DispatchHandler,
  DispatchOptions,
  ResponseHeaders
} from './dispatch.js'
import type { Keys } from './options.js'
import type { OutgoingRequest } from './outgoing.js'
import type { Reading } from './reading.js'
import { TripController } from './trip-controller.js'
import type { Head } from './told.js'
import type { Trip } from './trip.js'
import { LONGEST_PROBLEM, isProblem, violatedPolicies } from './violations.js'

interface Plan {
  readonly trip: Trip
  readonly request: OutgoingRequest
  readonly given: DispatchOptions
  readonly handler: DispatchHandler
  readonly dispatch: Dispatch
  readonly keys: Keys | undefined
}

/** The head of a refusal, and so much of its body as has come. */
interface HeldRefusal {
  readonly reading: Reading
  readonly headers: ResponseHeaders
  readonly statusMessage: string | undefined
  readonly chunks: Uint8Array[]
}

/**
 * Where a try is: not answered yet; refused, and held back until the body has told which policies did that; dropped, for the
 * request is sent again; served, and still running; or passed on to its handler for good.
 */
type State = 'unanswered' | HeldRefusal | 'dropped' | 'served' | 'passed'

/** Takes a request of undici through all its tries, and shows its handler the last one alone. */
export class DispatchTrip implements DispatchHandler {
  readonly #plan: Plan
  readonly #controller: TripController
  readonly #context: object = {}
  #state: State = 'unanswered'

  constructor(plan: Plan) {
    this.#plan = plan
    this.#controller = new TripController(reason => plan.trip.leave(reason))
  }

  /** The handler learns of its request before it is sent, to be able to abort it while it waits. */
  async start(): Promise<void> {
    const { handler } = this.#plan
    try {
      handler.onRequestStart?.(this.#controller, this.#context)
    } catch (error) {
      return handler.onResponseError?.(this.#controller, error as Error)
    }
    await this.#try()
  }

  async #try(): Promise<void> {
    const { trip, dispatch, handler } = this.#plan
    this.#state = 'unanswered'
    this.#controller.target = undefined
    try {
      if (this.#controller.reason !== null) throw this.#controller.reason
      const key = await trip.turn(undefined)
      try {
        dispatch(this.#withKey(key), this)
      } catch (error) {
        trip.failed()
        throw error
      }
    } catch (error) {
      handler.onResponseError?.(this.#controller, error as Error)
    }
  }

  #withKey(key: string | undefined): DispatchOptions {
    const { given, keys, request } = this.#plan
    if (key === undefined) return given
    const fields = Object.entries(keys!.apply(key, request))
    const replaced = new Set(fields.map(([name]) => name.toLowerCase()))
    const kept = [...headersOf(given.headers)].filter(([name]) => !replaced.has(name.toLowerCase()))
    return { ...given, headers: [...kept, ...fields].flat() }
  }

  onRequestStart(controller: DispatchController, context: object): void {
    this.#controller.target = controller
    Object.assign(this.#context, context)
    if (this.#controller.reason !== null) controller.abort(this.#controller.reason)
  }

  onRequestUpgrade(
    _controller: DispatchController,
    statusCode: number,
    headers: ResponseHeaders,
    socket: unknown
  ): void {
    const { trip, handler } = this.#plan
    trip.served(trip.read(headOf(statusCode, headers)))
    trip.ended()
    this.#state = 'passed'
    handler.onRequestUpgrade?.(this.#controller, statusCode, headers, socket)
  }

  onResponseStart(
    _controller: DispatchController,
    statusCode: number,
    headers: ResponseHeaders,
    statusMessage?: string
  ): void {
    const { trip, handler } = this.#plan
    if (statusCode < 200)
      return handler.onResponseStart?.(this.#controller, statusCode, headers, statusMessage)
    const head = headOf(statusCode, headers)
    const reading = trip.read(head)
    if (reading.refused) {
      this.#state = { reading, headers, statusMessage, chunks: [] }
      if (!isProblem(head.field('content-type'))) this.#judge(this.#state, undefined)
      return
    }
    this.#state = 'served'
    trip.served(reading)
    handler.onResponseStart?.(this.#controller, statusCode, headers, statusMessage)
  }

  onResponseData(_controller: DispatchController, chunk: Uint8Array): void {
    if (this.#state === 'dropped') return
    if (typeof this.#state === 'string') return this.#plan.handler.onResponseData?.(this.#controller, chunk)
    this.#state.chunks.push(chunk)
    if (lengthOf(this.#state.chunks) > LONGEST_PROBLEM) this.#judge(this.#state, undefined)
  }

  onResponseEnd(_controller: DispatchController, trailers: ResponseHeaders): void {
    if (typeof this.#state === 'object')
      this.#judge(this.#state, violatedPolicies(textOf(this.#state.chunks)))
    if (this.#state === 'dropped') return void this.#try()
    if (this.#state === 'served') this.#plan.trip.ended()
    this.#plan.handler.onResponseEnd?.(this.#controller, trailers)
  }

  onResponseError(_controller: DispatchController, error: Error): void {
    const { trip, handler } = this.#plan
    if (this.#state === 'dropped' && !this.#controller.aborted) return void this.#try()
    if (this.#state === 'served') trip.ended()
    if (this.#state === 'unanswered' || typeof this.#state === 'object') trip.failed()
    this.#state = 'passed'
    handler.onResponseError?.(this.#controller, error)
  }

  /** Drops a refusal, or passes on what has come of it. */
  #judge(
    { reading, headers, statusMessage, chunks }: HeldRefusal,
    violated: readonly string[] | undefined
  ): void {
    const { trip, handler } = this.#plan
    if (trip.refused(reading, violated)) {
      this.#state = 'dropped'
      return
    }
    this.#state = 'passed'
    handler.onResponseStart?.(this.#controller, reading.status, headers, statusMessage)
    for (const chunk of chunks) handler.onResponseData?.(this.#controller, chunk)
  }
}

function headOf(status: number, headers: ResponseHeaders): Head {
  return {
    status,
    field(name) {
      const value = headers[name]
      return typeof value === 'object' ? value.join(', ') : value
    }
  }
}

const lengthOf = (chunks: readonly Uint8Array[]): number =>
  chunks.reduce((length, chunk) => length + chunk.byteLength, 0)

function textOf(chunks: readonly Uint8Array[]): string {
  const decoder = new TextDecoder()
  return chunks.map(chunk => decoder.decode(chunk, { stream: true })).join('')
}
