import type { Timing } from './timing.js'

/** One decision's time: all its calls to the store share it. */
export class Attempt {
  /** When it is over, in milliseconds of {@link Timing}. */
  readonly due: number
  readonly #left: () => void
  #over = false
  #waiting: Set<() => void> | undefined

  /** `left` is called when the last who waited for it has called off. */
  constructor(due: number, left: () => void) {
    this.due = due
    this.#left = left
  }

  get over(): boolean {
    return this.#over
  }

  /** Whether somebody has something to do then. */
  get awaited(): boolean {
    return this.#waiting !== undefined && this.#waiting.size > 0
  }

  /** Does `work` when the time is over, unless the function it returns is called before. */
  whenOver(work: () => void): () => void {
    const waiting = (this.#waiting ??= new Set())
    waiting.add(work)
    return () => {
      if (waiting.delete(work) && waiting.size === 0) this.#left()
    }
  }

  end(): void {
    this.#over = true
    for (const work of this.#waiting ?? []) work()
  }
}

/**
 * The deadlines of all decisions. Each has the same time, so they are over in the order in which they began, and one timer
 * does for all.
 *
 * When the time is over, replies that have arrived already are read first: a process that stood still must not take that
 * for a store that is slow.
 */
export class Deadlines {
  readonly #length: number
  readonly #timing: Timing
  #queue: Attempt[] = []
  /** Ends the timer, while there is one. */
  #cancel: (() => void) | undefined
  #closing = false

  /** `length` in milliseconds. */
  constructor(length: number, timing: Timing) {
    this.#length = length
    this.#timing = timing
  }

  begin(): Attempt {
    const attempt = new Attempt(this.#timing.now() + this.#length, this.#left)
    this.#queue.push(attempt)
    this.#closing = false
    if (this.#cancel === undefined) this.#tick(this.#length)
    return attempt
  }

  /** Ends the timer, as soon as nobody waits for it. */
  close(): void {
    this.#closing = true
    if (this.#queue.some(attempt => attempt.awaited)) return
    this.#queue = []
    this.#cancel?.()
    this.#cancel = undefined
  }

  readonly #left = (): void => {
    if (this.#closing) this.close()
  }

  #tick(wait: number): void {
    let turn: NodeJS.Immediate | undefined
    const cancel = this.#timing.after(Math.max(1, Math.ceil(wait)), () => {
      turn = setImmediate(() => this.#expire())
    })
    this.#cancel = () => {
      cancel()
      clearImmediate(turn)
    }
  }

  #expire(): void {
    const now = this.#timing.now()
    let first = 0
    for (; first < this.#queue.length; first++) {
      const attempt = this.#queue[first]!
      if (attempt.due > now) break
      attempt.end()
    }
    this.#queue = this.#queue.slice(first)
    this.#cancel = undefined
    if (this.#queue[0] !== undefined) this.#tick(this.#queue[0].due - now)
  }
}
