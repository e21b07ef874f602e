import type { Told } from '../told.js'

/** Nobody can say when: a response has to come first. */
export const ASK: number = Infinity

/** A request's part in a limit, from when it is sent. */
export interface Charge {
  /** Units, 0 or more. */
  readonly units: number
  /** Requests are numbered in the order in which they are sent. */
  readonly sequence: number
}

/** What a refusal says about one limit. */
export interface Refusal {
  /** Units left; `undefined`: nothing was said. */
  readonly available: number | undefined
  /** Milliseconds that the server asks to wait; `undefined`: it does not say. */
  readonly wait: number | undefined
  /** Milliseconds of the epoch. */
  readonly now: number
}

/**
 * One limit as a client knows it. It says when the next request may be sent, and learns from what comes of it: each
 * charge ends with `refused`, `returned` or `lost`, or with `served` and then `ended`. Times are milliseconds of the epoch.
 */
export interface Limit {
  /** What it counts. */
  readonly unit: string
  /** When so many units may be spent: `now` if that is possible at once, {@link ASK} if a response has to come first. */
  earliest(units: number, now: number): number
  /** A request is sent. */
  charge(units: number, sequence: number, now: number): Charge
  /** It is served; `told` is what the response says of this limit, if anything. */
  served(charge: Charge, told: Told | undefined, now: number): void
  /** The response of a request that was served is over. */
  ended(charge: Charge): void
  /** It is refused by this limit. Returns until when. */
  refused(charge: Charge, refusal: Refusal): number
  /** It was not counted: another limit refused it, or it does not fall under this one. */
  returned(charge: Charge): void
  /** It failed, and nobody knows whether it was counted. */
  lost(charge: Charge, now: number): void
  /** How much of the quota is spent, from 0 to 1. */
  share(): number
}
