import { EMPTY, NEVER, exactly, ticks } from '../algorithm.js'
import type { Algorithm, Params, State, Terms } from '../algorithm.js'

/**
 * A bucket of `burst` units that refills at quota per window: at most burst + quota in any window.
 *
 * It is kept as debt, in integers: a unit weighs one window in ticks, and every tick drains as many parts as the quota has
 * units, so nothing is ever rounded. The tick is a millisecond, or a second for windows of an hour and more; of a queue it
 * is always a millisecond.
 *
 * State: debt, tick of that debt.
 */
export const tokenBucket: Algorithm = bucket('token-bucket')

/**
 * As a meter, the same as the token bucket, seen from the other side. As a queue, with `maxDelay`, it delays what it would
 * refuse, so that no more than the quota starts in any window: a request starts when all before it have drained, and is
 * refused only if it would start later than `maxDelay`. It is charged when it is queued.
 */
export const leakyBucket: Algorithm = bucket('leaky-bucket')

function bucket(name: string): Algorithm {
  return {
    name,

    params(terms) {
      const { quota, window, maxDelay } = terms
      // Started to the millisecond, or the requests on both sides of a tick could come closer than their pace.
      const [tick, period] = maxDelay === 0 ? ticks(window, RULE) : [1, window]
      const capacity = maxDelay === 0 ? terms.burst * period : maxDelay * quota + period
      exactly(3 * capacity, `three times ${capacityIn(terms)} in ${tick === 1 ? 'milliseconds' : 'seconds'}`)
      exactly((3 * capacity * tick) / (quota || 1), `the milliseconds in which that drains`)
      return [quota, period, quota === 0 ? 0 : capacity, tick, maxDelay === 0 ? 0 : 1]
    },

    step(state, params, now, units) {
      const [quota = 0, period = 1, capacity = 0, tick = 1, queue = 0] = params
      const at = Math.floor(now / tick)
      const level = drained(state, quota, at)
      const over = level + units * period - capacity
      const allowed = quota > 0 && (units === 0 || over <= 0)
      const debt = allowed ? level + units * period : level
      const free = capacity - debt
      const remaining = Math.max(0, Math.floor(free / period))
      const fits = units * period <= capacity && quota > 0
      const parts = allowed || !fits ? (remaining > 0 ? free : period - free) : over
      const delays = queue === 1 && allowed && units > 0
      return {
        allowed,
        state: debt === 0 ? EMPTY : [debt, at],
        remaining,
        effectiveWindow: quota > 0 ? untilDrained(parts, params, now) : 0,
        retryAfter: allowed ? 0 : fits ? untilDrained(over, params, now) : NEVER,
        delay: delays ? untilDrained(level + (units - 1) * period, params, now) : 0,
        ttl: untilDrained(debt, params, now)
      }
    },

    settle(state, [quota = 0, period = 1, capacity = 0, tick = 1, queue = 0], now, charge, actual) {
      const at = Math.floor(now / tick)
      const level = drained(state, quota, at)
      const more = Math.min(Math.max(0, actual - charge.units) * period, Math.max(0, 2 * capacity - level))
      const drainedSince = (at - Math.floor(charge.at / tick)) * quota
      // A place in the queue is not given back: those behind it have been told when they start.
      const mostBack = queue === 1 ? 0 : Math.max(0, charge.units * period - drainedSince)
      const less = Math.min(Math.max(0, charge.units - actual) * period, mostBack)
      const debt = Math.max(0, level + more - less)
      return debt === 0 ? EMPTY : [debt, at]
    },

    room(state, [quota = 0, period = 1, capacity = 0, tick = 1], now) {
      const level = drained(state, quota, Math.floor(now / tick))
      return Math.max(0, Math.floor((2 * capacity - level) / period))
    },

    capacity([, period = 1, capacity = 0]) {
      return Math.floor(capacity / period)
    },

    lua: twin()
  }
}

const RULE = 'a bucket with a window of an hour or more counts'

const capacityIn = ({ maxDelay }: Terms): string =>
  maxDelay === 0 ? 'burst times window' : 'quota times maxDelay'

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
function untilDrained(parts: number, [quota = 0, , , tick = 1]: Params, now: number): number {
  if (parts === 0) return 0
  return (Math.floor(now / tick) + Math.ceil(parts / (quota || 1))) * tick - now
}

/** The functions above in Lua. */
function twin(): string {
  return `
  local NEVER = ${NEVER}

  local function drained(state, quota, at)
    local debt, last = state[1] or 0, state[2] or 0
    return math.max(0, debt - math.max(0, at - last) * quota)
  end

  local function untilDrained(parts, params, now)
    local quota, tick = params[1], params[4]
    if parts == 0 then return 0 end
    return (math.floor(now / tick) + math.ceil(parts / (quota == 0 and 1 or quota))) * tick - now
  end

  local function step(state, params, now, units)
    local quota, period, capacity, tick, queue = params[1], params[2], params[3], params[4], params[5]
    local at = math.floor(now / tick)
    local level = drained(state, quota, at)
    local over = level + units * period - capacity
    local allowed = quota > 0 and (units == 0 or over <= 0)
    local debt = allowed and level + units * period or level
    local free = capacity - debt
    local remaining = math.max(0, math.floor(free / period))
    local fits = units * period <= capacity and quota > 0
    local parts = (allowed or not fits) and (remaining > 0 and free or period - free) or over
    local delays = queue == 1 and allowed and units > 0
    return
      allowed,
      debt == 0 and {} or { debt, at },
      remaining,
      quota > 0 and untilDrained(parts, params, now) or 0,
      allowed and 0 or fits and untilDrained(over, params, now) or NEVER,
      delays and untilDrained(level + (units - 1) * period, params, now) or 0,
      untilDrained(debt, params, now)
  end

  if charging then return step end

  local function settle(state, params, now, charge, actual)
    local quota, period, capacity, tick, queue = params[1], params[2], params[3], params[4], params[5]
    local at = math.floor(now / tick)
    local level = drained(state, quota, at)
    local more = math.min(math.max(0, actual - charge.units) * period, math.max(0, 2 * capacity - level))
    local drainedSince = (at - math.floor(charge.at / tick)) * quota
    local mostBack = queue == 1 and 0 or math.max(0, charge.units * period - drainedSince)
    local less = math.min(math.max(0, charge.units - actual) * period, mostBack)
    local debt = math.max(0, level + more - less)
    return debt == 0 and {} or { debt, at }
  end

  local function room(state, params, now)
    local quota, period, capacity, tick = params[1], params[2], params[3], params[4]
    local level = drained(state, quota, math.floor(now / tick))
    return math.max(0, math.floor((2 * capacity - level) / period))
  end

  return { step = step, settle = settle, room = room }
`
}
