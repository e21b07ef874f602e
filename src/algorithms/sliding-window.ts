import { EMPTY, NEVER, exactly } from '../algorithm.js'
import type { Algorithm, State } from '../algorithm.js'

/**
 * Never more than the quota in any window, wherever it starts.
 *
 * A log of admissions, compressed: an entry is (count, time of its first unit, time of its latest unit), oldest first. A
 * new entry starts when the current one's first unit is window / precision old, so there are at most precision + 2. An
 * entry counts in full until its latest unit is a window old. Counting it longer than the exact log does keeps the
 * promise and costs yield: somebody who presses without pause gets at least precision / (precision + 1) of the
 * quota; who spends it at once has all of it back one window later.
 *
 * With as many sub-windows as the window has milliseconds, only units of the same millisecond share an entry: then it is
 * the exact log.
 */
export const slidingWindow: Algorithm = {
  name: 'sliding-window',

  params({ quota, window, precision }) {
    exactly(quota * 2, 'twice the quota')
    exactly(quota * wholeSeconds(window), 'quota times window in seconds')
    if (precision < window) exactly(window * precision, 'window in milliseconds times precision')
    return [quota, window, precision]
  },

  step(state, params, now, units) {
    const quota = params[0]!
    const window = params[1]!
    const precision = params[2]!
    const entries = living(state, window, precision, now)
    const used = total(entries)
    const allowed = quota > 0 && (units === 0 || used + units <= quota)
    const next = allowed ? charged(entries, window, precision, now, units) : entries
    const spent = allowed ? used + units : used
    const remaining = Math.max(0, quota - spent)
    const fits = units <= quota && quota > 0
    const wait = allowed || !fits ? 0 : untilLeft(entries, window, now, used - quota + units)
    return {
      allowed,
      state: next,
      remaining,
      effectiveWindow: wait || effectiveWindow(next, quota, window, now, remaining, spent),
      retryAfter: allowed || fits ? wait : NEVER,
      delay: 0,
      ttl: next.length === 0 ? 0 : latestOf(next) + window - now
    }
  },

  settle(state, [quota = 0, window = 0, precision = 1], now, charge, actual) {
    const entries = living(state, window, precision, now)
    if (actual <= charge.units) return takenBack(entries, charge.at, charge.units - actual)
    const units = Math.min(actual - charge.units, room(entries, quota))
    return charged(entries, window, precision, now, units)
  },

  room(state, [quota = 0, window = 0, precision = 1], now) {
    return room(living(state, window, precision, now), quota)
  },

  capacity([quota = 0]) {
    return quota
  },

  lua: twin()
}

const wholeSeconds = (window: number): number => Math.ceil(window / 1000)

/**
 * The entries that still count. A time later than `now` is a clock that went back: it becomes `now`, and an entry that
 * starts too early by that joins the one before.
 */
function living(state: State, window: number, precision: number, now: number): State {
  if (state.length === 0 || (state[2]! + window > now && latestOf(state) <= now)) return state
  const entries: number[] = []
  for (let i = 0; i < state.length; i += 3) {
    const first = Math.min(state[i + 1]!, now)
    const latest = Math.min(state[i + 2]!, now)
    if (latest + window <= now) continue
    if (joinsLast(entries, window, precision, first)) {
      entries[entries.length - 3]! += state[i]!
      entries[entries.length - 1] = latest
    } else {
      entries.push(state[i]!, first, latest)
    }
  }
  return entries.length === 0 ? EMPTY : entries
}

/** Whether the current entry's first unit is less than a sub-window old at `time`. */
function joinsLast(entries: State, window: number, precision: number, time: number): boolean {
  return entries.length > 0 && (time - entries[entries.length - 2]!) * precision < window
}

function charged(entries: State, window: number, precision: number, now: number, units: number): State {
  if (units === 0) return entries
  if (!joinsLast(entries, window, precision, now)) return [...entries, units, now, now]
  const last = entries.length - 3
  const next = entries.slice()
  next[last]! += units
  next[last + 2] = now
  return next
}

/** Takes units back from the entry they were charged to, at most its count; from none if that entry is gone. */
function takenBack(entries: State, at: number, units: number): State {
  for (let i = 0; i < entries.length; i += 3) {
    if (entries[i + 1]! > at || at > entries[i + 2]!) continue
    return entries[i]! > units ? entries.with(i, entries[i]! - units) : entries.toSpliced(i, 3)
  }
  return entries
}

/** Milliseconds until `units` of what is counted have left. */
function untilLeft(entries: State, window: number, now: number, units: number): number {
  let left = units
  let i = 0
  for (; left > entries[i]!; i += 3) left -= entries[i]!
  return entries[i + 2]! + window - now
}

/**
 * With units left: until the oldest entry leaves, but never so short that r / t exceeds quota / window. With none left:
 * until one unit fits.
 */
function effectiveWindow(
  entries: State,
  quota: number,
  window: number,
  now: number,
  remaining: number,
  spent: number
): number {
  if (quota === 0) return 0
  if (remaining === 0) return untilLeft(entries, window, now, spent + 1 - quota)
  const oldestLeaves = entries.length === 0 ? 0 : entries[2]! + window - now
  return Math.max(oldestLeaves, Math.ceil((remaining * wholeSeconds(window)) / quota) * 1000)
}

const room = (entries: State, quota: number): number => Math.max(0, 2 * quota - total(entries))

const latestOf = (entries: State): number => entries[entries.length - 1]!

function total(entries: State): number {
  let count = 0
  for (let i = 0; i < entries.length; i += 3) count += entries[i]!
  return count
}

/** The functions above in Lua; there, a list that `living` has made is changed in place. */
function twin(): string {
  return `
  local NEVER = ${NEVER}

  local function wholeSeconds(window)
    return math.ceil(window / 1000)
  end

  local function joinsLast(entries, window, precision, time)
    return #entries > 0 and (time - entries[#entries - 1]) * precision < window
  end

  local function living(state, window, precision, now)
    if #state == 0 or (state[3] + window > now and state[#state] <= now) then return state end
    local entries, length = {}, 0
    for i = 1, #state, 3 do
      local first = math.min(state[i + 1], now)
      local latest = math.min(state[i + 2], now)
      if latest + window > now then
        if joinsLast(entries, window, precision, first) then
          entries[length - 2] = entries[length - 2] + state[i]
          entries[length] = latest
        else
          entries[length + 1], entries[length + 2], entries[length + 3] = state[i], first, latest
          length = length + 3
        end
      end
    end
    return entries
  end

  local function charged(entries, window, precision, now, units)
    if units == 0 then return entries end
    local last = #entries - 2
    if joinsLast(entries, window, precision, now) then
      entries[last] = entries[last] + units
      entries[last + 2] = now
    else
      entries[last + 3], entries[last + 4], entries[last + 5] = units, now, now
    end
    return entries
  end

  local function untilLeft(entries, window, now, units)
    local left = units
    local i = 1
    while left > entries[i] do
      left = left - entries[i]
      i = i + 3
    end
    return entries[i + 2] + window - now
  end

  local function effectiveWindow(entries, quota, window, now, remaining, spent)
    if quota == 0 then return 0 end
    if remaining == 0 then return untilLeft(entries, window, now, spent + 1 - quota) end
    local oldestLeaves = #entries == 0 and 0 or entries[3] + window - now
    return math.max(oldestLeaves, math.ceil((remaining * wholeSeconds(window)) / quota) * 1000)
  end

  local function latestOf(entries)
    return entries[#entries]
  end

  local function total(entries)
    local count = 0
    for i = 1, #entries, 3 do count = count + entries[i] end
    return count
  end

  local function step(state, params, now, units)
    local quota, window, precision = params[1], params[2], params[3]
    local entries = living(state, window, precision, now)
    local used = total(entries)
    local allowed = quota > 0 and (units == 0 or used + units <= quota)
    local next = allowed and charged(entries, window, precision, now, units) or entries
    local spent = allowed and used + units or used
    local remaining = math.max(0, quota - spent)
    local fits = units <= quota and quota > 0
    local wait = (allowed or not fits) and 0 or untilLeft(entries, window, now, used - quota + units)
    return
      allowed,
      next,
      remaining,
      wait > 0 and wait or effectiveWindow(next, quota, window, now, remaining, spent),
      (allowed or fits) and wait or NEVER,
      0,
      #next == 0 and 0 or latestOf(next) + window - now
  end

  if charging then return step end

  local function takenBack(entries, at, units)
    for i = 1, #entries, 3 do
      if entries[i + 1] <= at and at <= entries[i + 2] then
        if entries[i] > units then
          entries[i] = entries[i] - units
        else
          for j = i, #entries do entries[j] = entries[j + 3] end
        end
        return entries
      end
    end
    return entries
  end

  local function room(entries, quota)
    return math.max(0, 2 * quota - total(entries))
  end

  local function settle(state, params, now, charge, actual)
    local quota, window, precision = params[1], params[2], params[3]
    local entries = living(state, window, precision, now)
    if actual <= charge.units then return takenBack(entries, charge.at, charge.units - actual) end
    local units = math.min(actual - charge.units, room(entries, quota))
    return charged(entries, window, precision, now, units)
  end

  return {
    step = step,
    settle = settle,
    room = function(state, params, now)
      local quota, window, precision = params[1], params[2], params[3]
      return room(living(state, window, precision, now), quota)
    end
  }
`
}
