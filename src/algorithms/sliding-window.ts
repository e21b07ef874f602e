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

  step(state, [quota = 0, window = 0, precision = 1], now, units) {
    const entries = living(state, window, precision, now)
    const used = total(entries)
    const allowed = quota > 0 && (units === 0 || used + units <= quota)
    const next = allowed ? charged(entries, window, precision, now, units) : entries
    const spent = allowed ? used + units : used
    const remaining = Math.max(0, quota - spent)
    const fits = units <= quota && quota > 0
    const wait = allowed || !fits ? 0 : untilLeft(entries, window, now, used + units - quota)
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
  }
}

const wholeSeconds = (window: number): number => Math.ceil(window / 1000)

/**
 * The entries that still count. A time later than `now` is a clock that went back: it becomes `now`, and an entry that
 * starts too early by that joins the one before.
 */
function living(state: State, window: number, precision: number, now: number): State {
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
  return entries.with(last, entries[last]! + units).with(last + 2, now)
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
