import type { Timing } from './timing.js'

/** One decision's time: all its calls to the store share it. */
export class Attempt {
  /** When it is over, in milliseconds of {@link Timing}. */
  readonly due: number
  /** Those that began just before and after it, and are not over; {@link Deadlines} sees to them. */
  before: Attempt | undefined
  after: Attempt | undefined
  readonly #deadlines: Deadlines
  readonly #waiting: (() => void)[] = []
  #over = false

  constructor(due: number, deadlines: Deadlines) {
    this.due = due
    this.#deadlines = deadlines
  }

  get over(): boolean {
    return this.#over
  }

  /** Whether somebody has something to do then. */
  get awaited(): boolean {
    return this.#waiting.length > 0
  }

  /** Does `work` when the time is over, unless the function it returns is called before. */
  whenOver(work: () => void): () => void {
    this.#waiting.push(work)
    return () => {
      const i = this.#waiting.indexOf(work)
      if (i < 0) return
      this.#waiting.splice(i, 1)
      if (this.#waiting.length === 0) this.#deadlines.left()
    }
  }

  /** There is nothing more to do in its time: it is forgotten, and never over. */
  done(): void {
    if (!this.#over) this.#deadlines.drop(this)
  }

  end(): void {
    this.#over = true
    for (const work of this.#waiting.slice()) work()
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
  /** Of the attempts that are not over, in a list, for most are done long before they would be. */
  #first: Attempt | undefined
  #last: Attempt | undefined
  /** Ends the timer, while there is one. */
  #cancel: (() => void) | undefined
  #closing = false

  /** `length` in milliseconds. */
  constructor(length: number, timing: Timing) {
    this.#length = length
    this.#timing = timing
  }

  begin(): Attempt {
    const attempt = new Attempt(this.#timing.now() + this.#length, this)
    attempt.before = this.#last
    if (this.#last === undefined) this.#first = attempt
    else this.#last.after = attempt
    this.#last = attempt
    this.#closing = false
    if (this.#cancel === undefined) this.#tick(this.#length)
    return attempt
  }

  /** An attempt is done, or over. */
  drop(attempt: Attempt): void {
    const { before, after } = attempt
    if (before !== undefined) before.after = after
    else if (this.#first === attempt) this.#first = after
    if (after !== undefined) after.before = before
    else if (this.#last === attempt) this.#last = before
    attempt.before = undefined
    attempt.after = undefined
  }

  /** The last who waited for an attempt has called off. */
  left(): void {
    if (this.#closing) this.close()
  }

  /** Ends the timer, as soon as nobody waits for it. */
  close(): void {
    this.#closing = true
    for (let attempt = this.#first; attempt !== undefined; attempt = attempt.after)
      if (attempt.awaited) return
    this.#first = undefined
    this.#last = undefined
    this.#cancel?.()
    this.#cancel = undefined
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
    while (this.#first !== undefined && this.#first.due <= now) {
      const attempt = this.#first
      this.drop(attempt)
      attempt.end()
    }
    this.#cancel = undefined
    if (this.#first !== undefined) this.#tick(this.#first.due - now)
  }
}
