import { backoff } from '../backoff.js'
import type { Spread } from '../backoff.js'
import type { Told } from '../told.js'
import { ASK } from './limit.js'
import type { Charge, Limit, Refusal } from './limit.js'
import { OwnUse } from './own-use.js'
import { Sharing } from './sharing.js'
import { SlowStart } from './slow-start.js'
import { Strikes } from './strikes.js'

/** How a client spends what it is told it may. */
export interface Pace {
  /** `spend`: at once, and then it waits; `even`: spread over the time it is for. */
  readonly pacing: 'spend' | 'even'
  /** The part of each quota that is used: more than 0, at most 1. */
  readonly headroom: number
}

/** Who would have to wait so long does not wait for others who seem to have left, in milliseconds. */
const LONG_WAIT = 3000

/** How long what is left is for where neither the response nor the policy says so, in milliseconds. */
const UNTOLD_WINDOW = 1000

/**
 * A quota over time, as `RateLimit` and `RateLimit-Policy` tell it: no more than `r` units within `t` (draft §7). Units
 * on their way may be in what the last response told, or not, so they count as spent. What has come back when `t` is over
 * one request asks for.
 */
export class SpendingLimit implements Limit {
  readonly unit: string
  readonly #pace: Pace
  readonly #spread: Spread
  readonly #strikes = new Strikes()
  readonly #sharing = new Sharing()
  readonly #slowStart = new SlowStart()
  #own: OwnUse | undefined
  #quota: number | undefined
  #window: number | undefined
  /** Units left, as the server told; those on their way may be in it already, or not. */
  #left = Infinity
  /** The end of the time that they are for. */
  #until = -Infinity
  /** When that was told; `-Infinity` by a refusal, which tells the wait itself. */
  #toldAt = -Infinity
  /** The last request sent before it was told, and the last one before what was told before. */
  #lastBefore = -1
  #lastBeforeThat = -1
  /** With even pacing: when the next request may be sent. */
  #next = -Infinity
  #lastSent = -1
  #inFlight = 0
  #flying = 0
  /** The request that asks for what is not certain. */
  #asking: number | undefined

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
    const mustWait = this.#left < Infinity && this.#flying > 0 && this.#slowStart.waits
    return at <= now && mustWait ? ASK : at
  }

  #leftAt(units: number, now: number): number {
    if (this.#hasRoom(units, now)) return now
    const isToldOf = now < this.#until
    if (!isToldOf && this.#asking !== undefined) return ASK
    if (isToldOf && this.#flying > 0 && units + this.#kept() <= this.#left) return ASK
    return Math.max(now, this.#until, this.#ownBackAt(), this.#refilledAt(units))
  }

  /** Units left of which no request on its way can have spent any. */
  get #certain(): number {
    return this.#left - this.#inFlight
  }

  /** Whether so many units are certainly left, and with them those that others will spend. */
  #hasRoom(units: number, now: number): boolean {
    const patience = this.#flying === 0 && this.#until - now >= LONG_WAIT ? 'little' : 'usual'
    return this.#sharing.needed(units, this.#inFlight, patience) + this.#kept() <= this.#certain
  }

  /** What comes back is for who has spent it: where others are, this client waits until some of its own is back. */
  #ownBackAt(): number {
    return (this.#sharing.shared ? this.#own?.freedAt(1, this.#toldAt) : undefined) ?? -Infinity
  }

  /** When so many more units are there at the rate of the quota, as `t` is about one of them. */
  #refilledAt(units: number): number {
    const missing = units + this.#kept() - Math.max(0, this.#left)
    if (missing <= 1 || !this.#quota || this.#window === undefined) return -Infinity
    return this.#toldAt + Math.ceil((missing * this.#window) / this.#quota)
  }

  /** When own use leaves room in the part of the quota that may be used. One request always fits. */
  #headroomAt(units: number, now: number): number {
    if (this.#pace.headroom === 1 || this.#window === undefined || this.#quota === undefined) return now
    const used = this.#own!.units(now)
    const over = used + this.#inFlight + units - Math.floor(this.#pace.headroom * this.#quota)
    if (over <= 0 || used + this.#inFlight === 0) return now
    return used === 0 ? ASK : this.#own!.freedAt(Math.min(over, used), now)!
  }

  /** Units left alone for the sake of headroom where no window is known to measure own use in. */
  #kept(): number {
    if (this.#window !== undefined || this.#quota === undefined) return 0
    return this.#quota - Math.floor(this.#pace.headroom * this.#quota)
  }

  charge(units: number, sequence: number, now: number): Charge {
    const counted = this.exceededBy(units) ? 0 : units
    if (counted > 0 && !this.#hasRoom(counted, now)) this.#asking = sequence
    this.#next = now + this.#gap(counted, now)
    this.#inFlight += counted
    this.#lastSent = Math.max(this.#lastSent, sequence)
    this.#sharing.spent(counted)
    if (counted > 0) {
      this.#flying++
      this.#slowStart.sent()
    }
    this.#strikes.sent(sequence)
    return { units: counted, sequence }
  }

  /** The time that so many units take at the rate of what is left, or of the quota if that is faster. */
  #gap(units: number, now: number): number {
    const told = now < this.#until ? (this.#until - now) / Math.max(this.#certain, 1) : Infinity
    const steady = this.#quota && this.#window !== undefined ? this.#window / this.#quota : Infinity
    const each = Math.min(told, steady)
    const ratio = this.#sharing.ratio
    return each === Infinity ? 0 : (units * each * (1 + ratio)) / this.#pace.headroom
  }

  served(charge: Charge, told: Told | undefined, now: number): void {
    this.#land(charge)
    this.#own?.add(charge.units, now)
    this.#strikes.served(charge.sequence)
    if (told?.available === undefined) this.#untold(charge, now)
    else this.#learn(charge.sequence, told.available, told.effectiveWindow, now)
  }

  /** What the server does not mention any more is not near its end (draft §6.2). */
  #untold({ units }: Charge, now: number): void {
    this.#left = now < this.#until ? this.#left - units : Infinity
  }

  /**
   * One sent after the last was told knows more; those that were on their way together each know a part, and who knows of
   * the least left knows the most. Older ones know nothing new.
   */
  #learn(sequence: number, available: number, effectiveWindow: number | undefined, now: number): void {
    if (sequence <= this.#lastBeforeThat) return
    const until = now + (effectiveWindow ?? this.#window ?? UNTOLD_WINDOW)
    if (sequence > this.#lastBefore) this.#tell(available, now, until)
    else if (available < this.#left) {
      this.#left = available
      this.#toldAt = now
      this.#until = until
    }
    if (this.#flying === 0) this.#sharing.settled(this.#left)
  }

  #tell(left: number, toldAt: number, until: number): void {
    this.#left = left
    this.#toldAt = toldAt
    this.#until = until
    this.#lastBeforeThat = this.#lastBefore
    this.#lastBefore = this.#lastSent
  }

  ended(): void {}

  /**
   * Whatever was left, it was less than this request costs: only cheaper ones may go on, and none if nothing is known to
   * be left.
   */
  refused(charge: Charge, { available = 0, wait, now }: Refusal): number {
    this.#land(charge)
    const strikes = this.#strikes.refused(charge.sequence)
    const left = Math.max(0, Math.min(available, charge.units - 1))
    this.#tell(left, -Infinity, now + backoff(wait, this.unit, strikes, this.#spread))
    this.#slowStart.refused()
    return this.#until
  }

  returned(charge: Charge): void {
    this.#land(charge)
    this.#sharing.spent(-charge.units)
  }

  lost(charge: Charge, now: number): void {
    this.#land(charge)
    this.#left -= charge.units
    this.#own?.add(charge.units, now)
  }

  #land({ units, sequence }: Charge): void {
    this.#inFlight -= units
    if (sequence === this.#asking) this.#asking = undefined
    if (units === 0) return
    this.#flying--
    if (this.#flying === 0) this.#slowStart.settled()
  }

  share(): number {
    if (!this.#quota) return 0
    return 1 - Math.max(0, Math.min(this.#quota, this.#certain)) / this.#quota
  }
}
