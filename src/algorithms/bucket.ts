import { EMPTY, NEVER, TermsError, exactly } from '../algorithm.js'
import type { Algorithm, Params, State } from '../algorithm.js'

/**
 * A bucket of `burst` units that refills at quota per window: at most burst + quota in any window.
 *
 * It is kept as debt, in integers: a unit weighs one window in ticks, and every tick drains as many parts as the quota has
 * units, so nothing is ever rounded. The tick is a millisecond, or a second for windows of an hour and more.
 *
 * State: debt, tick of that debt.
 */
export const tokenBucket: Algorithm = {
  name: 'token-bucket',

  params({ quota, window, burst }) {
    const tick = window >= HOUR ? 1000 : 1
    if (window % tick !== 0) {
      throw new TermsError(`a bucket's window of an hour or more must be whole seconds, got ${window} ms`)
    }
    const period = window / tick
    exactly(
      3 * burst * period,
      `three times burst times window in ${tick === 1 ? 'milliseconds' : 'seconds'}`
    )
    exactly((3 * burst * window) / (quota || 1), 'the milliseconds that three times burst take to refill')
    return [quota, period, burst, tick]
  },

  step(state, params, now, units) {
    const [quota = 0, period = 0, burst = 0, tick = 1] = params
    const at = Math.floor(now / tick)
    const level = drained(state, quota, at)
    const capacity = quota > 0 ? burst * period : 0
    const over = level + units * period - capacity
    const allowed = quota > 0 && (units === 0 || over <= 0)
    const debt = allowed ? level + units * period : level
    const free = capacity - debt
    const remaining = Math.max(0, Math.floor(free / period))
    const fits = units <= burst && quota > 0
    const parts = allowed || !fits ? (remaining > 0 ? free : period - free) : over
    return {
      allowed,
      state: debt === 0 ? EMPTY : [debt, at],
      remaining,
      effectiveWindow: quota > 0 ? until(parts, params, now) : 0,
      retryAfter: allowed ? 0 : fits ? until(over, params, now) : NEVER,
      delay: 0,
      ttl: until(debt, params, now)
    }
  },

  settle(state, [quota = 0, period = 0, burst = 0, tick = 1], now, charge, actual) {
    const at = Math.floor(now / tick)
    const level = drained(state, quota, at)
    const more = Math.min(
      Math.max(0, actual - charge.units) * period,
      Math.max(0, 2 * burst * period - level)
    )
    const drainedSince = (at - Math.floor(charge.at / tick)) * quota
    const mostBack = Math.max(0, charge.units * period - drainedSince)
    const less = Math.min(Math.max(0, charge.units - actual) * period, mostBack)
    const debt = Math.max(0, level + more - less)
    return debt === 0 ? EMPTY : [debt, at]
  }
}

const HOUR = 3_600_000

/**
 * What is left of the debt at `at`. A tick later than that is a clock that went back: nothing has drained. The product may
 * pass 2^53 after years of idleness, but then it is larger than any debt and its last digits do not matter.
 */
function drained([debt = 0, last = 0]: State, quota: number, at: number): number {
  return Math.max(0, debt - Math.max(0, at - last) * quota)
}

/**
 * Milliseconds until `parts` have drained, to the first tick at which they have. Without a quota nothing ever does; what was
 * spent is then kept as long as a quota of 1 would keep it.
 */
function until(parts: number, [quota = 0, , , tick = 1]: Params, now: number): number {
  if (parts === 0) return 0
  return (Math.floor(now / tick) + Math.ceil(parts / (quota || 1))) * tick - now
}
