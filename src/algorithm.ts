/**
 * What every algorithm is: a pure function from a state, a time and a number of units to a verdict and the next state.
 *
 * An algorithm knows no clock, no store and no HTTP. All numbers are integers below 2^53, so that the same formulas give
 * the same results in any language that computes in IEEE doubles.
 */
export interface Algorithm {
  /** The name a policy is written with, and a part of the name its state is stored under. */
  readonly name: string
  /**
   * Turns a policy's terms into the integers `step` computes with.
   * @throws {TermsError} when the terms cannot be computed exactly.
   */
  params(terms: Terms): Params
  /**
   * Decides `units` at `now` and returns the state after it. Nothing is changed in place. `units` 0 charges nothing and
   * is allowed unless the quota is 0, which refuses everything. A refusal returns the state unchanged but for what time
   * alone has done to it.
   */
  step(state: State, params: Params, now: number, units: number): Step
  /**
   * Corrects a charge made earlier to `actual` units; 0 gives the whole charge back, as far as that is no gift.
   * More than was charged is charged at `now`, beyond the quota if need be, up to one quota of debt.
   */
  settle(state: State, params: Params, now: number, charge: Receipt, actual: number): State
  /** The units that `settle` can charge at `now`, down to one quota of debt: what exceeds them is dropped. */
  room(state: State, params: Params, now: number): number
  /** The most units that can be held at once: a charge of more is refused for ever. The fields announce it as `q`. */
  capacity(params: Params): number
  /** The `at` of the receipt of a charge made at `now`; left out: `now`. */
  receiptAt?(params: Params, now: number): number
  /** Prolongs a charge that ends by itself. `charge.units` is 0 if it has ended already. */
  renew?(
    state: State,
    params: Params,
    now: number,
    charge: Receipt
  ): { readonly state: State; readonly charge: Receipt }
  /**
   * The same functions in Lua 5.1, line by line, for a store that decides where its data is: a chunk that returns a table
   * with `step`, `settle`, `room` and, where there are any, `receiptAt` and `renew`; where `charging` is true, just `step` and
   * `receiptAt`. There, `step` returns what it tells as values, in the order of {@link Step}, and a state that is passed may
   * be changed in place. Lists are tables that start at 1; an empty one is the state of who has spent nothing.
   */
  readonly lua: string
}

/** What a policy says about its numbers, before an algorithm makes integers of them. */
export interface Terms {
  /** Units per window, an integer of 0 or more. */
  readonly quota: number
  /** Milliseconds, a positive integer. */
  readonly window: number
  /** Sub-windows of a counting window. */
  readonly precision: number
  /** Capacity of a bucket in units, 1 or more. */
  readonly burst: number
  /** Whether a fixed window starts on the clock instead of with its first request. */
  readonly align: boolean
  /** The longest time in a bucket's queue in milliseconds; 0: it refuses instead of queueing. */
  readonly maxDelay: number
  /** How long a lease lasts unless it is released or renewed, in milliseconds. */
  readonly holdFor: number
}

/** Integers chosen by an algorithm's `params`; nobody else reads them. */
export type Params = readonly number[]

/** Integers written by an algorithm; `[]` is the state of a partition that has spent nothing. */
export type State = readonly number[]

/**
 * The state of a partition that has spent nothing. It is not frozen: V8 keeps frozen lists apart, and whatever met both kinds
 * would be slower.
 */
export const EMPTY: State = []

export interface Step {
  readonly allowed: boolean
  /** The state to store. */
  readonly state: State
  /** Units still available after this step, 0 or more. */
  readonly remaining: number
  /**
   * Milliseconds within which no more than `remaining` may be spent; 0: no such time is known. After a refusal it is
   * the time until the refused units fit, or one unit where they never do.
   */
  readonly effectiveWindow: number
  /** Milliseconds until the refused units are admitted, {@link NEVER} or {@link UNKNOWN}; 0 when allowed. */
  readonly retryAfter: number
  /** Milliseconds an admitted request has to wait before it starts. */
  readonly delay: number
  /** Milliseconds after which the state says nothing that {@link EMPTY} does not say; 0: drop it. */
  readonly ttl: number
}

/** No wait helps: the units exceed what the policy can ever hold. */
export const NEVER = -1

/** A wait may help, but nobody can tell how long. */
export const UNKNOWN = -2

/** Proof of a charge, kept by whoever may have to correct it. */
export interface Receipt {
  /** The store's time of the charge, in milliseconds; of a lease, the time it ends. */
  readonly at: number
  readonly units: number
}

/** Terms that cannot be computed with exact integers; the message says which and why. */
export class TermsError extends Error {}

/**
 * The tick that a window is counted in, in milliseconds, and how many of them it has: a millisecond, or from an hour on a
 * second, or the products of counts and windows would soon pass 2^53.
 * @throws {TermsError} when the window is no whole ticks; `rule` says who wants them.
 */
export function ticks(window: number, rule: string): readonly [tick: number, count: number] {
  const tick = window >= HOUR ? 1000 : 1
  if (window % tick === 0) return [tick, window / tick]
  throw new TermsError(`${rule} whole seconds, got ${window} ms`)
}

const HOUR = 3_600_000

/**
 * Passes a computed bound of an algorithm's arithmetic on, if doubles hold it exactly.
 * @throws {TermsError} with `explanation` when it is 2^53 or more.
 */
export function exactly(bound: number, explanation: string): number {
  if (bound <= Number.MAX_SAFE_INTEGER) return bound
  throw new TermsError(`${explanation} must stay below 2^53, got about ${bound.toExponential(1)}`)
}
