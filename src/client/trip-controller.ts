import type { DispatchController } from './dispatch.js'

/**
 * The one controller that a handler is given for a request with all its tries. Before and between them there is no
 * connection behind it: aborting then ends the wait.
 */
export class TripController implements DispatchController {
  readonly #leave: (reason: Error) => void
  #target: DispatchController | undefined
  #paused = false
  #reason: Error | null = null

  constructor(leave: (reason: Error) => void) {
    this.#leave = leave
  }

  /** The connection of the current try; `undefined`: there is none. */
  set target(target: DispatchController | undefined) {
    this.#target = target
    if (this.#paused) target?.pause()
  }

  get aborted(): boolean {
    return this.#reason !== null || this.#target?.aborted === true
  }

  get reason(): Error | null {
    return this.#reason ?? this.#target?.reason ?? null
  }

  get paused(): boolean {
    return this.#paused || this.#target?.paused === true
  }

  get rawHeaders(): unknown {
    return this.#target?.rawHeaders
  }

  get rawTrailers(): unknown {
    return this.#target?.rawTrailers
  }

  abort(reason: Error): void {
    if (this.aborted) return
    this.#reason = reason
    if (this.#target === undefined) this.#leave(reason)
    else this.#target.abort(reason)
  }

  pause(): void {
    this.#paused = true
    this.#target?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#target?.resume()
  }
}
