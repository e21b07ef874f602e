import type { Spread } from '../../../src/client/backoff.js'
import { SpendingLimit } from '../../../src/client/limits/spending.js'
import type { Pace } from '../../../src/client/limits/spending.js'
import type { Charge, Limit } from '../../../src/client/limits/limit.js'
import { nothingTold } from '../../../src/client/told.js'
import type { Told } from '../../../src/client/told.js'

/** Waits are what they are. */
export const exact: Spread = { jitter: 0, random: () => 0 }

export const spend: Pace = { pacing: 'spend', headroom: 1 }

export const say = (said: Partial<Told>): Told => ({ ...nothingTold('p'), ...said })

/** A limit of 10 in 10 s that is known from the start, and one request after the other sent to it. */
export class Conversation<L extends Limit> {
  readonly limit: L
  now = 0
  #sequence = 0

  constructor(limit: L) {
    this.limit = limit
  }

  /** Milliseconds until so many units may be spent. */
  wait(units: number = 1): number {
    return this.limit.earliest(units, this.now) - this.now
  }

  send(units: number = 1): Charge {
    return this.limit.charge(units, this.#sequence++, this.now)
  }

  serve(charge: Charge, available?: number, seconds?: number): void {
    const told = { available, effectiveWindow: seconds === undefined ? undefined : seconds * 1000 }
    this.limit.served(charge, say(told), this.now)
    this.limit.ended(charge)
  }

  /** Sends a request that is served. */
  exchange(available?: number, seconds?: number, units: number = 1): void {
    this.serve(this.send(units), available, seconds)
  }

  /** Sends a request that is refused. Returns for how long. */
  refuse(wait?: number, available?: number, units: number = 1): number {
    return this.limit.refused(this.send(units), { available, wait, now: this.now }) - this.now
  }
}

export function spending(
  pace: Partial<Pace> = {},
  policy: { readonly quota?: number; readonly window?: number } = { quota: 10, window: 10_000 },
  spread: Spread = exact
): Conversation<SpendingLimit> {
  const limit = new SpendingLimit('requests', { ...spend, ...pace }, spread)
  limit.declare(say(policy))
  return new Conversation(limit)
}
