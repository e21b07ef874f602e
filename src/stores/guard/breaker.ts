import type { Timing } from './timing.js'

/** Told when it opens (`down`, with the code of what failed) and when it closes (`up`). */
export type Told = (state: 'up' | 'down', code: string) => void

/** Failures in a row, or this many calls within a second of which half failed, open it. */
const IN_A_ROW = 5
const ENOUGH = 20
const PERIOD = 1000

/** Milliseconds to the first probe and the longest time between two, each give or take a quarter. */
const FIRST = 250
const LONGEST = 1000

/**
 * A circuit breaker. While it is up, calls go through and report what came of them; when too many have failed it goes down,
 * and nobody calls. A probe in the background, never a user's request, finds out when it is up again.
 *
 * Each call carries the generation in which it began: what a call of an earlier one reports says nothing of this one, or
 * the stragglers of one outage would open it again and again.
 */
export class Breaker {
  readonly #probe: () => Promise<string | undefined>
  readonly #told: Told
  readonly #timing: Timing
  #generation = 0
  #down = false
  #inARow = 0
  #calls = 0
  #failures = 0
  #since = 0
  #probes = 0
  #probing = false
  #probeAt = 0
  #cancel: (() => void) | undefined
  #closed = false

  /** `probe` resolves to the code of what failed, or to `undefined` if all is well. It never rejects. */
  constructor(probe: () => Promise<string | undefined>, told: Told, timing: Timing) {
    this.#probe = probe
    this.#told = told
    this.#timing = timing
  }

  get down(): boolean {
    return this.#down
  }

  get generation(): number {
    return this.#generation
  }

  /** Milliseconds to the next probe; 0 while it is up. */
  get retryAfter(): number {
    return this.#down ? Math.max(0, this.#probeAt - this.#timing.now()) : 0
  }

  succeeded(generation: number): void {
    if (generation !== this.#generation || this.#down) return
    this.#count()
    this.#inARow = 0
  }

  failed(generation: number, code: string): void {
    if (generation !== this.#generation || this.#down) return
    this.#count()
    this.#failures++
    this.#inARow++
    const half = this.#calls >= ENOUGH && this.#failures * 2 >= this.#calls
    if (half || this.#inARow >= IN_A_ROW) this.trip(code)
  }

  /** Goes down at once. */
  trip(code: string): void {
    if (this.#down || this.#closed) return
    this.#down = true
    this.#generation++
    this.#probes = 0
    this.#schedule()
    this.#told('down', code)
  }

  /** Probes now, if it is down: there is reason to believe that it is over. */
  hasten(): void {
    if (this.#down && !this.#probing) this.#ask()
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  #count(): void {
    const now = this.#timing.now()
    if (now - this.#since >= PERIOD) {
      this.#since = now
      this.#calls = 0
      this.#failures = 0
    }
    this.#calls++
  }

  #schedule(): void {
    const wait = Math.min(FIRST * 2 ** this.#probes, LONGEST) * (0.75 + this.#timing.random() / 2)
    this.#probes++
    this.#probeAt = this.#timing.now() + wait
    this.#cancel?.()
    this.#cancel = this.#timing.after(wait, () => this.#ask())
  }

  #ask(): void {
    this.#cancel?.()
    this.#probing = true
    void this.#probe().then(code => {
      this.#probing = false
      if (this.#closed) return
      if (code === undefined) this.#recover()
      else this.#schedule()
    })
  }

  #recover(): void {
    this.#down = false
    this.#generation++
    this.#inARow = 0
    this.#since = -Infinity
    this.#told('up', 'OK')
  }
}
