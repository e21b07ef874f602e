import { EMPTY } from '../algorithm.js'
import type { Algorithm, Params, State } from '../algorithm.js'
import type { Arrival } from './arrivals.js'
import type { Contender } from './contenders.js'
import type { Admission } from './measure.js'

/** What happened to all requests. */
export interface Trace {
  /** Times are those at which the requests start: a queue admits a request earlier than it starts. */
  readonly admissions: readonly Admission[]
  readonly waits: Waits
  /** Requests of a cost that the policy can never hold. */
  readonly refusedForEver: number
}

/** The waits that refusals named. */
export interface Waits {
  readonly given: number
  /** Those after which the same request is admitted, and a millisecond earlier is not. */
  readonly true: number
}

/**
 * Runs requests, in the order they come, through an algorithm on a clock that stands at each one's time. After a refusal
 * the same request is tried again at the named wait and a millisecond before, each in a fork of the state.
 */
export function run({ algorithm, params, drained }: Contender, arrivals: readonly Arrival[]): Trace {
  const admissions: Admission[] = []
  let state = drained ? spent(algorithm, params, arrivals) : EMPTY
  let given = 0
  let kept = 0
  let refusedForEver = 0
  for (const { at, units } of arrivals) {
    const step = algorithm.step(state, params, at, units)
    state = step.state
    if (step.allowed) {
      admissions.push({ at: at + step.delay, units })
    } else if (step.retryAfter > 0) {
      const { allowed } = algorithm.step(state, params, at + step.retryAfter, units)
      const early = algorithm.step(state, params, at + step.retryAfter - 1, units)
      given++
      if (allowed && !early.allowed) kept++
    } else {
      refusedForEver++
    }
  }
  return { admissions, waits: { given, true: kept }, refusedForEver }
}

/** The state of a partition that has spent all it can hold, in the millisecond of the first request and before it. */
function spent(algorithm: Algorithm, params: Params, [first]: readonly Arrival[]): State {
  return first === undefined
    ? EMPTY
    : algorithm.step(EMPTY, params, first.at, algorithm.capacity(params)).state
}
