import { backoff } from '../backoff.js'
import type { Spread } from '../backoff.js'
import type { Told } from '../told.js'
import { ASK } from './limit.js'
import type { Charge, Limit, Refusal } from './limit.js'
import { Strikes } from './strikes.js'

/**
 * How many requests run at once (`concurrent-requests`, draft §3.1.2). A place is held until the response is over, and
 * free for the next request then.
 */
export class HoldingLimit implements Limit {
  readonly unit = 'concurrent-requests'
  readonly #spread: Spread
  readonly #strikes = new Strikes()
  #places = Infinity
  #held = 0
  #until = -Infinity

  constructor(spread: Spread) {
    this.#spread = spread
  }

  earliest(units: number, now: number): number {
    const isFull = this.#held > 0 && this.#held + units > this.#places
    return isFull ? ASK : Math.max(now, this.#until)
  }

  charge(units: number, sequence: number): Charge {
    this.#held += units
    this.#strikes.sent(sequence)
    return { units, sequence }
  }

  /** The places that are left come on top of those held here. Where nothing is told, one more is tried each time round. */
  served({ sequence }: Charge, told: Told | undefined): void {
    this.#strikes.served(sequence)
    const places =
      told?.available === undefined ? this.#places + 1 / this.#places : this.#held + told.available
    this.#places = Math.max(1, Math.min(told?.quota ?? Infinity, places))
  }

  ended({ units }: Charge): void {
    this.#held -= units
  }

  /** While places are held here the next one comes free with them; if others hold all, only time helps. */
  refused({ units, sequence }: Charge, { wait, now }: Refusal): number {
    this.#held -= units
    const strikes = this.#strikes.refused(sequence)
    this.#places = Math.max(1, this.#held)
    if (wait === undefined && this.#held > 0) return now
    this.#until = now + backoff(wait, this.unit, strikes, this.#spread)
    return this.#until
  }

  returned({ units }: Charge): void {
    this.#held -= units
  }

  lost({ units }: Charge): void {
    this.#held -= units
  }

  share(): number {
    return this.#places === Infinity ? 0 : Math.min(1, this.#held / this.#places)
  }
}
