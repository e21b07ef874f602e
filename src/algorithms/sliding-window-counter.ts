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
  },

  lua: twin()
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

/** The functions above in Lua; there, a list that `living` has made is changed in place. */
function twin(): string {
  return `
  local NEVER = ${NEVER}

  local function place(params, time)
    local parts, precision, tick = params[2], params[3], params[4]
    local position = math.floor(time / tick) * precision
    local index = math.floor(position / parts)
    return index, position - index * parts
  end

  local function living(state, params, index)
    local newest, precision = state[1] or 0, params[3]
    local passed = index - newest
    local counts = {}
    if passed > precision or #state < 2 then return counts end
    for age = 0, passed - 1 do counts[age + 1] = 0 end
    for i = 2, #state do
      local age = math.max(0, passed + i - 2)
      if age <= precision then counts[age + 1] = (counts[age + 1] or 0) + state[i] end
    end
    return counts
  end

  local function stored(counts, index)
    local newest, oldest = 1, #counts
    while counts[newest] == 0 do newest = newest + 1 end
    if newest > oldest then return {} end
    while counts[oldest] == 0 do oldest = oldest - 1 end
    local state = { index - newest + 1 }
    for i = newest, oldest do state[i - newest + 2] = counts[i] end
    return state
  end

  local function charged(counts, units)
    counts[1] = (counts[1] or 0) + units
    return counts
  end

  local function sum(counts, first)
    local total = 0
    for i = 1, math.min(first, #counts) do total = total + counts[i] end
    return total
  end

  local function estimate(counts, params, offset)
    local parts, precision = params[2], params[3]
    return sum(counts, precision) * parts + (counts[precision + 1] or 0) * (parts - offset)
  end

  local function fitsFrom(count, slack, parts)
    if slack <= 0 then return parts end
    return count == 0 and 0 or math.max(0, parts - math.ceil((slack * parts) / count) + 1)
  end

  local function untilFits(counts, params, now, units)
    local quota, parts, precision, tick = params[1], params[2], params[3], params[4]
    local oldest = precision
    local start = place(params, now) * parts
    local slack = quota - units + 1 - sum(counts, precision)
    local function earliest()
      local offset = fitsFrom(counts[oldest + 1] or 0, slack, parts)
      return math.max(math.floor(now / tick), math.ceil((start + offset) / precision))
    end
    local at = earliest()
    while at * precision >= start + parts do
      oldest = oldest - 1
      start = start + parts
      slack = slack + (counts[oldest + 1] or 0)
      at = earliest()
    end
    return at * tick - now
  end

  local function effectiveWindow(counts, params, now, remaining, spent)
    local quota, parts, tick = params[1], params[2], params[4]
    if quota == 0 then return 0 end
    if remaining == 0 then return untilFits(counts, params, now, 1) end
    return math.ceil((quota * parts - spent) / quota) * tick
  end

  local function ttl(counts, params, now)
    local parts, precision, tick = params[2], params[3], params[4]
    local newest = 1
    while counts[newest] == 0 do newest = newest + 1 end
    if newest > #counts then return 0 end
    local index = place(params, now)
    return math.ceil(((index - newest + 1 + precision + 1) * parts) / precision) * tick - now
  end

  local function step(state, params, now, units)
    local quota, parts = params[1], params[2]
    local index, offset = place(params, now)
    local counts = living(state, params, index)
    local before = estimate(counts, params, offset)
    local allowed = quota > 0 and (units == 0 or math.floor(before / parts) + units <= quota)
    local next = allowed and charged(counts, units) or counts
    local after = allowed and before + units * parts or before
    local remaining = math.max(0, quota - math.floor(after / parts))
    local fits = units <= quota and quota > 0
    local wait = (allowed or not fits) and 0 or untilFits(counts, params, now, units)
    return
      allowed,
      stored(next, index),
      remaining,
      wait > 0 and wait or effectiveWindow(next, params, now, remaining, after),
      (allowed or fits) and wait or NEVER,
      0,
      ttl(next, params, now)
  end

  if charging then return step end

  local function room(counts, params, offset)
    local quota, parts = params[1], params[2]
    return math.max(0, 2 * quota - math.floor(estimate(counts, params, offset) / parts))
  end

  local function takenBack(counts, age, units)
    local count = counts[age + 1]
    if count ~= nil then counts[age + 1] = math.max(0, count - units) end
    return counts
  end

  local function settle(state, params, now, charge, actual)
    local index, offset = place(params, now)
    local counts = living(state, params, index)
    if actual <= charge.units then
      local age = index - place(params, charge.at)
      return stored(takenBack(counts, age, charge.units - actual), index)
    end
    local units = math.min(actual - charge.units, room(counts, params, offset))
    return stored(charged(counts, units), index)
  end

  return {
    step = step,
    settle = settle,
    room = function(state, params, now)
      local index, offset = place(params, now)
      return room(living(state, params, index), params, offset)
    end
  }
`
}
