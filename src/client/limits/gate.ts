import { backoff } from '../backoff.js'
import type { Spread } from '../backoff.js'
import { ASK } from './limit.js'
import type { Charge, Limit, Refusal } from './limit.js'
import { Strikes } from './strikes.js'

/**
 * A limit without numbers: of a server that has not answered yet, or has refused without saying what is left. While it
 * is shut, one request at a time asks; the first one that is served opens it.
 */
export class Gate implements Limit {
  readonly unit: string
  readonly #spread: Spread
  readonly #strikes = new Strikes()
  #open = false
  #until = -Infinity
  /** The request that asks. */
  #asking: number | undefined

  constructor(unit: string, spread: Spread) {
    this.unit = unit
    this.#spread = spread
  }

  earliest(_units: number, now: number): number {
    if (this.#open) return now
    if (now < this.#until) return this.#until
    return this.#asking === undefined ? now : ASK
  }

  charge(units: number, sequence: number): Charge {
    if (!this.#open) this.#asking = sequence
    this.#strikes.sent(sequence)
    return { units, sequence }
  }

  served(charge: Charge): void {
    this.#land(charge)
    if (this.#strikes.served(charge.sequence)) this.#open = true
  }

  ended(): void {}

  refused(charge: Charge, { wait, now }: Refusal): number {
    this.#land(charge)
    const strikes = this.#strikes.refused(charge.sequence)
    this.#open = false
    this.#until = Math.max(this.#until, now + backoff(wait, this.unit, strikes, this.#spread))
    return this.#until
  }

  returned(charge: Charge): void {
    this.#land(charge)
  }

  lost(charge: Charge): void {
    this.#land(charge)
  }

  #land({ sequence }: Charge): void {
    if (sequence === this.#asking) this.#asking = undefined
  }

  share(): number {
    return 0
  }
}
