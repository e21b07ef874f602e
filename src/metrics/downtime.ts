/** A clock that runs while something is down, in milliseconds of `now`. */
export class Downtime {
  readonly #now: () => number
  #before = 0
  #since: number | undefined

  constructor(now: () => number) {
    this.#now = now
  }

  /** Milliseconds so far. */
  get total(): number {
    return this.#since === undefined ? this.#before : this.#before + this.#now() - this.#since
  }

  start(): void {
    this.#since ??= this.#now()
  }

  stop(): void {
    this.#before = this.total
    this.#since = undefined
  }
}
