import { EMPTY, NEVER, exactly } from '../algorithm.js'
import type { Algorithm, State } from '../algorithm.js'

/**
 * One counter per window. The window opens with a partition's first request, or on the clock with `align`. Cheapest of
 * all, and up to twice the quota in any window: bursts on both sides of an edge are counted apart.
 *
 * State: count, start of the window.
 */
export const fixedWindow: Algorithm = {
  name: 'fixed-window',

  params({ quota, window, align }) {
    exactly(quota * 2, 'twice the quota')
    return [quota, window, align ? 1 : 0]
  },

  step(state, [quota = 0, window = 0, align = 0], now, units) {
    const [count = 0, start = opened(window, align, now)] = living(state, window, now)
    const allowed = quota > 0 && (units === 0 || count + units <= quota)
    const spent = allowed ? count + units : count
    const left = start + window - now
    const fits = units <= quota && quota > 0
    return {
      allowed,
      state: spent === 0 ? EMPTY : [spent, start],
      remaining: Math.max(0, quota - spent),
      effectiveWindow: quota === 0 ? 0 : left,
      retryAfter: allowed ? 0 : fits ? left : NEVER,
      delay: 0,
      ttl: spent === 0 ? 0 : left
    }
  },

  settle(state, [quota = 0, window = 0, align = 0], now, charge, actual) {
    const [count = 0, start = opened(window, align, now)] = living(state, window, now)
    const more = Math.min(Math.max(0, actual - charge.units), Math.max(0, 2 * quota - count))
    const less = contains(state, window, charge.at) ? Math.max(0, charge.units - actual) : 0
    const spent = Math.max(0, count + more - less)
    return spent === 0 ? EMPTY : [spent, start]
  },

  room(state, [quota = 0, window = 0], now) {
    const [count = 0] = living(state, window, now)
    return Math.max(0, 2 * quota - count)
  },

  capacity([quota = 0]) {
    return quota
  },

  lua: twin()
}

const opened = (window: number, align: number, now: number): number =>
  align === 1 ? Math.floor(now / window) * window : now

/** The window that is still open. A start later than `now` is a clock that went back: it becomes `now`. */
function living(state: State, window: number, now: number): State {
  const [count, start] = state
  if (count === undefined || start === undefined) return EMPTY
  return start + window <= now ? EMPTY : [count, Math.min(start, now)]
}

function contains([, start]: State, window: number, at: number): boolean {
  return start !== undefined && start <= at && at < start + window
}

/** The functions above in Lua. */
function twin(): string {
  return `
  local NEVER = ${NEVER}

  local function opened(window, align, now)
    return align == 1 and math.floor(now / window) * window or now
  end

  local function living(state, window, now)
    local count, start = state[1], state[2]
    if count == nil or start == nil then return {} end
    return start + window <= now and {} or { count, math.min(start, now) }
  end

  local function step(state, params, now, units)
    local quota, window, align = params[1], params[2], params[3]
    local open = living(state, window, now)
    local count, start = open[1] or 0, open[2] or opened(window, align, now)
    local allowed = quota > 0 and (units == 0 or count + units <= quota)
    local spent = allowed and count + units or count
    local left = start + window - now
    local fits = units <= quota and quota > 0
    return
      allowed,
      spent == 0 and {} or { spent, start },
      math.max(0, quota - spent),
      quota == 0 and 0 or left,
      allowed and 0 or fits and left or NEVER,
      0,
      spent == 0 and 0 or left
  end

  if charging then return step end

  local function contains(state, window, at)
    local start = state[2]
    return start ~= nil and start <= at and at < start + window
  end

  local function settle(state, params, now, charge, actual)
    local quota, window, align = params[1], params[2], params[3]
    local open = living(state, window, now)
    local count, start = open[1] or 0, open[2] or opened(window, align, now)
    local more = math.min(math.max(0, actual - charge.units), math.max(0, 2 * quota - count))
    local less = contains(state, window, charge.at) and math.max(0, charge.units - actual) or 0
    local spent = math.max(0, count + more - less)
    return spent == 0 and {} or { spent, start }
  end

  local function room(state, params, now)
    local quota, window = params[1], params[2]
    local count = living(state, window, now)[1] or 0
    return math.max(0, 2 * quota - count)
  end

  return { step = step, settle = settle, room = room }
`
}
