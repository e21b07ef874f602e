import { EMPTY, NEVER, TermsError, exactly, ticks } from '../algorithm.js'
import type { Algorithm, Params, State } from '../algorithm.js'

/**
 * The well-known approximation: counts by sub-windows on the clock, the oldest weighted by how much of it the window still
 * covers. Good on even traffic; a burst at the end of a sub-window and one a window later are both admitted, so up to
 * twice the quota in any window, at any precision.
 *
 * A window has as many parts as ticks and a tick moves `precision` parts, so every sub-window has whole parts. The tick is
 * a millisecond, or a second for windows of an hour and more.
 *
 * State: number of the newest sub-window, then counts from the newest to the oldest, at most precision + 1.
 */
export const slidingWindowCounter: Algorithm = {
  name: 'sliding-window-counter',

  params({ quota, window, precision }) {
    const [tick, parts] = ticks(window, 'a weighted window of an hour or more must be')
    if (precision > parts)
      throw new TermsError(`${precision} sub-windows need a window of as many ms, got ${window} ms`)
    exactly(3 * quota * parts, `three times quota times window in ${tick === 1 ? 'milliseconds' : 'seconds'}`)
    return [quota, parts, precision, tick]
  },

  step(state, params, now, units) {
    const [quota = 0, parts = 1] = params
    const { index, offset } = place(params, now)
    const counts = living(state, params, index)
    const before = estimate(counts, params, offset)
    const allowed = quota > 0 && (units === 0 || Math.floor(before / parts) + units <= quota)
    const next = allowed ? charged(counts, units) : counts
    const after = allowed ? before + units * parts : before
    const remaining = Math.max(0, quota - Math.floor(after / parts))
    const fits = units <= quota && quota > 0
    const wait = allowed || !fits ? 0 : untilFits(counts, params, now, units)
    return {
      allowed,
      state: stored(next, index),
      remaining,
      effectiveWindow: wait || effectiveWindow(next, params, now, remaining, after),
      retryAfter: allowed || fits ? wait : NEVER,
      delay: 0,
      ttl: ttl(next, params, now)
    }
  },

  settle(state, params, now, charge, actual) {
    const { index, offset } = place(params, now)
    const counts = living(state, params, index)
    if (actual <= charge.units) {
      const age = index - place(params, charge.at).index
      return stored(takenBack(counts, age, charge.units - actual), index)
    }
    const units = Math.min(actual - charge.units, room(counts, params, offset))
    return stored(charged(counts, units), index)
  },

  room(state, params, now) {
    const { index, offset } = place(params, now)
    return room(living(state, params, index), params, offset)
  },

  capacity([quota = 0]) {
    return quota
  }
}

/** Counts of the sub-windows that the window still covers, by age: the current one, the one before it, … */
type Counts = readonly number[]

/** The sub-window that a time is in, and how many of its parts have passed. */
function place(
  [, parts = 1, precision = 1, tick = 1]: Params,
  time: number
): { index: number; offset: number } {
  const position = Math.floor(time / tick) * precision
  const index = Math.floor(position / parts)
  return { index, offset: position - index * parts }
}

/** Sub-windows later than the current one are a clock that went back: they count as the current one. */
function living([newest = 0, ...counts]: State, [, , precision = 1]: Params, index: number): Counts {
  const passed = index - newest
  if (passed > precision || counts.length === 0) return EMPTY
  if (passed < 0) return [sum(counts, 1 - passed), ...counts.slice(1 - passed)]
  return [...Array.from({ length: passed }, () => 0), ...counts].slice(0, precision + 1)
}

function room(counts: Counts, params: Params, offset: number): number {
  const [quota = 0, parts = 1] = params
  return Math.max(0, 2 * quota - Math.floor(estimate(counts, params, offset) / parts))
}

/** Without the empty sub-windows at both ends. */
function stored(counts: Counts, index: number): State {
  const newest = counts.findIndex(count => count > 0)
  if (newest < 0) return EMPTY
  const oldest = counts.findLastIndex(count => count > 0)
  return [index - newest, ...counts.slice(newest, oldest + 1)]
}

const charged = (counts: Counts, units: number): Counts => [(counts[0] ?? 0) + units, ...counts.slice(1)]

function takenBack(counts: Counts, age: number, units: number): Counts {
  const count = counts[age]
  return count === undefined ? counts : counts.with(age, Math.max(0, count - units))
}

/** Units counted, times the parts of a window. */
function estimate(counts: Counts, [, parts = 1, precision = 1]: Params, offset: number): number {
  return sum(counts, precision) * parts + (counts[precision] ?? 0) * (parts - offset)
}

function sum(counts: Counts, first: number): number {
  return counts.slice(0, Math.max(0, first)).reduce((total, count) => total + count, 0)
}

/**
 * Milliseconds until `units` fit, to the first tick at which they do, if nothing else is charged: in this sub-window or a
 * later one, each of which has one less that counts in full, and the next newer one as its oldest.
 */
function untilFits(counts: Counts, params: Params, now: number, units: number): number {
  const [quota = 0, parts = 1, precision = 1, tick = 1] = params
  let oldest = precision
  let start = place(params, now).index * parts
  let slack = quota - units + 1 - sum(counts, precision)
  const earliest = (): number => {
    const offset = fitsFrom(counts[oldest] ?? 0, slack, parts)
    return Math.max(Math.floor(now / tick), Math.ceil((start + offset) / precision))
  }
  let at = earliest()
  while (at * precision >= start + parts) {
    oldest--
    start += parts
    slack += counts[oldest] ?? 0
    at = earliest()
  }
  return at * tick - now
}

/** The parts of a sub-window that have to pass until what is left of its oldest count is below `slack`; its end: never. */
function fitsFrom(count: number, slack: number, parts: number): number {
  if (slack <= 0) return parts
  return count === 0 ? 0 : Math.max(0, parts - Math.ceil((slack * parts) / count) + 1)
}

/** With units left, the time in which the quota's own rate allows them; with none, until one unit fits. */
function effectiveWindow(
  counts: Counts,
  params: Params,
  now: number,
  remaining: number,
  spent: number
): number {
  const [quota = 0, parts = 1, , tick = 1] = params
  if (quota === 0) return 0
  if (remaining === 0) return untilFits(counts, params, now, 1)
  return Math.ceil((quota * parts - spent) / quota) * tick
}

/** Milliseconds until the newest sub-window with a count has left. */
function ttl(counts: Counts, params: Params, now: number): number {
  const [, parts = 1, precision = 1, tick = 1] = params
  const newest = counts.findIndex(count => count > 0)
  if (newest < 0) return 0
  const { index } = place(params, now)
  return Math.ceil(((index - newest + precision + 1) * parts) / precision) * tick - now
}
