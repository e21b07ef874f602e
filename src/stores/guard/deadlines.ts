import type { Timing } from './timing.js'

/** One decision's time: all its calls to the store share it. */
export class Attempt {
  /** When it is over, in milliseconds of {@link Timing}. */
  readonly due: number
  #over = false
  #waiting: Set<() => void> | undefined

  constructor(due: number) {
    this.due = due
  }

  get over(): boolean {
    return this.#over
  }

  /** Does `work` when the time is over, unless the function it returns is called before. */
  whenOver(work: () => void): () => void {
    const waiting = (this.#waiting ??= new Set())
    waiting.add(work)
    return () => void waiting.delete(work)
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
  #ticking = false

  /** `length` in milliseconds. */
  constructor(length: number, timing: Timing) {
    this.#length = length
    this.#timing = timing
  }

  begin(): Attempt {
    const attempt = new Attempt(this.#timing.now() + this.#length)
    this.#queue.push(attempt)
    if (!this.#ticking) this.#tick(this.#length)
    return attempt
  }

  #tick(wait: number): void {
    this.#ticking = true
    this.#timing.after(Math.max(1, Math.ceil(wait)), () => setImmediate(() => this.#expire()))
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
    this.#ticking = false
    if (this.#queue[0] !== undefined) this.#tick(this.#queue[0].due - now)
  }
}
