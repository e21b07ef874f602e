import { backoff } from '../backoff.js'
import type { Spread } from '../backoff.js'
import type { Told } from '../told.js'
import { ASK } from './limit.js'
import type { Charge, Limit, Refusal } from './limit.js'
import { OwnUse } from './own-use.js'
import { Sharing } from './sharing.js'
import { Strikes } from './strikes.js'

/** How a client spends what it is told it may. */
export interface Pace {
  /** `spend`: at once, and then it waits; `even`: spread over the time it is for. */
  readonly pacing: 'spend' | 'even'
  /** The part of each quota that is used: more than 0, at most 1. */
  readonly headroom: number
}

/** Others are given so much more than they seem to need, for what is known of them is old. */
const OTHERS_MARGIN = 1.5

/** Requests on their way to a quota that is new; more with each response that tells of it. */
const FIRST_AT_ONCE = 4

/** How long what is left is for where neither the response nor the policy says so, in milliseconds. */
const UNTOLD_WINDOW = 1000

/**
 * A quota over time, as `RateLimit` and `RateLimit-Policy` tell it: no more than `r` units within `t` (draft §7). It knows
 * two numbers: the units that are certainly left, if nobody else spends them, and those that may be. They differ while
 * responses are on their way, and where some never came. What lies between them, and what comes back when `t` is over,
 * is asked for by one request at a time.
 */
export class SpendingLimit implements Limit {
  readonly unit: string
  readonly #pace: Pace
  readonly #spread: Spread
  readonly #strikes = new Strikes()
  readonly #sharing = new Sharing()
  #own: OwnUse | undefined
  #quota: number | undefined
  #window: number | undefined
  #certain = Infinity
  #possible = Infinity
  /** The end of the time that both are for. */
  #until = -Infinity
  /** Whose response told them, and when; `-Infinity` of a refusal, which tells the wait itself. */
  #toldBy = -1
  #toldAt = -Infinity
  /** With even pacing: when the next request may be sent. */
  #next = -Infinity
  #sent = 0
  #inFlight = 0
  #flying = 0
  /** The request that asks for what is not certain. */
  #asking: number | undefined
  /** The most requests on their way: who starts slowly sees who else is there. */
  #atOnce = FIRST_AT_ONCE

  constructor(unit: string, pace: Pace, spread: Spread) {
    this.unit = unit
    this.#pace = pace
    this.#spread = spread
  }

  /** Learns what the policy says of itself; what is left out stays as it was. */
  declare({ quota, window }: Pick<Told, 'quota' | 'window'>): void {
    this.#quota = quota ?? this.#quota
    if (window === undefined || window === this.#window) return
    this.#window = window
    this.#own = new OwnUse(window)
  }

  /** Whether so many units are more than the whole quota. No wait helps then, and the server may say so. */
  exceededBy(units: number): boolean {
    return units > (this.#quota ?? Infinity)
  }

  earliest(units: number, now: number): number {
    if (units === 0 || this.exceededBy(units)) return now
    return Math.max(
      this.#roomAt(units, now),
      this.#headroomAt(units, now),
      this.#pace.pacing === 'even' ? this.#next : now
    )
  }

  #roomAt(units: number, now: number): number {
    const at = this.#leftAt(units, now)
    return at <= now && this.#flying >= this.#atOnce ? ASK : at
  }

  #leftAt(units: number, now: number): number {
    if (this.#isWithin(this.#certain, units)) return now
    const isToldOf = now < this.#until
    if (isToldOf && this.#isWithin(this.#possible, units)) return this.#flying === 0 ? now : ASK
    if (!isToldOf && this.#asking !== undefined) return ASK
    return Math.max(now, this.#until, this.#refilledAt(units + this.#kept() - Math.max(0, this.#possible)))
  }

  /** Whether so many units are left, and with them those that others are likely to spend meanwhile. */
  #isWithin(left: number, units: number): boolean {
    const others = OTHERS_MARGIN * this.#sharing.ratio * (this.#inFlight + units)
    return units + this.#kept() + others <= left
  }

  /** When so many more units are there at the rate of the quota, as `t` is about one of them. */
  #refilledAt(units: number): number {
    if (units <= 1 || !this.#quota || this.#window === undefined) return -Infinity
    return this.#toldAt + Math.ceil((units * this.#window) / this.#quota)
  }

  /** When own use leaves room in the part of the quota that may be used. One request always fits. */
  #headroomAt(units: number, now: number): number {
    if (this.#pace.headroom === 1 || this.#own === undefined || this.#quota === undefined) return now
    const used = this.#own.units(now)
    const over = used + this.#inFlight + units - Math.floor(this.#pace.headroom * this.#quota)
    if (over <= 0 || used + this.#inFlight === 0) return now
    return used === 0 ? ASK : this.#own.freedAt(Math.min(over, used))!
  }

  /** Units left alone for the sake of headroom where no window is known to measure own use in. */
  #kept(): number {
    if (this.#own !== undefined || this.#quota === undefined) return 0
    return this.#quota - Math.floor(this.#pace.headroom * this.#quota)
  }

  charge(units: number, sequence: number, now: number): Charge {
    const counted = this.exceededBy(units) ? 0 : units
    const inFlight = this.#inFlight
    const asks = counted > 0 && !this.#isWithin(this.#certain, counted)
    this.#next = now + this.#gap(counted, now)
    this.#certain -= counted
    this.#possible -= counted
    this.#sent += counted
    this.#inFlight += counted
    if (counted > 0) this.#flying++
    if (asks) this.#asking = sequence
    this.#strikes.sent(sequence)
    return { units: counted, sequence, inFlight, sent: this.#sent }
  }

  /** The time that so many units take at the rate of what is left, or of the quota if that is faster. */
  #gap(units: number, now: number): number {
    const told = now < this.#until ? (this.#until - now) / Math.max(this.#certain, 1) : Infinity
    const steady = this.#quota && this.#window !== undefined ? this.#window / this.#quota : Infinity
    const each = Math.min(told, steady)
    return each === Infinity ? 0 : (units * each * (1 + this.#sharing.ratio)) / this.#pace.headroom
  }

  served(charge: Charge, told: Told | undefined, now: number): void {
    this.#land(charge)
    this.#own?.add(charge.units, now)
    this.#strikes.served(charge.sequence)
    if (told?.available === undefined) return this.#untold(now)
    if (charge.sequence >= this.#toldBy) this.#learn(charge, told.available, told.effectiveWindow, now)
  }

  /** What the server does not mention any more is not near its end (draft §6.2). */
  #untold(now: number): void {
    if (now < this.#until) return
    this.#certain = Infinity
    this.#possible = Infinity
  }

  /** Units of others that were on their way with this request may not be in what it was told. */
  #learn(charge: Charge, available: number, effectiveWindow: number | undefined, now: number): void {
    this.#atOnce++
    const unseen = charge.inFlight + (this.#sent - charge.sent)
    const known = this.#certain === Infinity ? 0 : this.#certain
    if (this.#certain !== Infinity) this.#sharing.observe(Math.max(0, known - available), charge.units)
    const surely = Math.max(0, available - unseen)
    this.#certain = known > available ? surely : Math.max(known, surely)
    this.#possible = unseen === 0 ? available : Math.max(surely, Math.min(this.#possible, available))
    this.#until = now + (effectiveWindow ?? this.#window ?? UNTOLD_WINDOW)
    this.#toldBy = charge.sequence
    this.#toldAt = now
  }

  ended(): void {}

  /**
   * Whatever was left, it was less than this request costs: only cheaper ones may go on, and none if nothing is known to
   * be left.
   */
  refused(charge: Charge, { available = 0, wait, now }: Refusal): number {
    this.#land(charge)
    const strikes = this.#strikes.refused(charge.sequence)
    this.#certain = Math.max(0, Math.min(available, charge.units - 1))
    this.#possible = this.#certain
    this.#until = now + backoff(wait, this.unit, strikes, this.#spread)
    this.#toldBy = Math.max(this.#toldBy, charge.sequence)
    this.#toldAt = -Infinity
    this.#atOnce = Math.max(1, this.#atOnce / 2)
    return this.#until
  }

  returned(charge: Charge): void {
    this.#land(charge)
    this.#certain += charge.units
    this.#possible += charge.units
  }

  lost(charge: Charge, now: number): void {
    this.#land(charge)
    this.#own?.add(charge.units, now)
  }

  #land({ units, sequence }: Charge): void {
    this.#inFlight -= units
    if (sequence === this.#asking) this.#asking = undefined
    if (units > 0) this.#flying--
  }

  share(): number {
    if (!this.#quota) return 0
    return 1 - Math.max(0, Math.min(this.#quota, this.#certain)) / this.#quota
  }
}
