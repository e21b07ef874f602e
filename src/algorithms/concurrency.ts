import { EMPTY, NEVER, UNKNOWN } from '../algorithm.js'
import type { Algorithm, Params, State } from '../algorithm.js'

/**
 * At most the quota at once. Who is admitted holds a lease until it is released; the lease of a holder that died ends by
 * itself after `holdFor`, unless it is renewed. When a place becomes free is nobody's to know, so there is no `t`.
 *
 * State: (units, expiry) of the leases, first to expire first; leases that expire together are one.
 */
export const concurrency: Algorithm = {
  name: 'concurrency',

  params({ quota, holdFor }) {
    return [quota, holdFor]
  },

  step(state, params, now, units) {
    const [quota = 0, holdFor = 0] = params
    const leases = living(state, params, now)
    const held = total(leases)
    const allowed = quota > 0 && (units === 0 || held + units <= quota)
    const next = allowed ? leased(leases, units, now + holdFor) : leases
    return {
      allowed,
      state: next,
      remaining: Math.max(0, quota - (allowed ? held + units : held)),
      effectiveWindow: 0,
      retryAfter: allowed ? 0 : units <= quota && quota > 0 ? UNKNOWN : NEVER,
      delay: 0,
      ttl: next.length === 0 ? 0 : next[next.length - 1]! - now
    }
  },

  settle(state, params, now, charge, actual) {
    const [quota = 0, holdFor = 0] = params
    const leases = living(state, params, now)
    if (actual <= charge.units) return released(leases, charge.at, charge.units - actual)
    return leased(leases, Math.min(actual - charge.units, room(leases, quota)), now + holdFor)
  },

  room(state, params, now) {
    const [quota = 0] = params
    return room(living(state, params, now), quota)
  },

  capacity([quota = 0]) {
    return quota
  },

  receiptAt([, holdFor = 0], now) {
    return now + holdFor
  },

  renew(state, params, now, charge) {
    const [, holdFor = 0] = params
    const leases = living(state, params, now)
    const held = total(leases)
    const rest = released(leases, charge.at, charge.units)
    const found = held - total(rest)
    return { state: leased(rest, found, now + holdFor), charge: { at: now + holdFor, units: found } }
  },

  lua: twin()
}

/** The leases that have not ended. An expiry later than a new lease's is a clock that went back: it becomes that. */
function living(state: State, [, holdFor = 0]: Params, now: number): State {
  const leases: number[] = []
  for (let i = 0; i < state.length; i += 2) {
    if (state[i + 1]! <= now) continue
    const expiry = Math.min(state[i + 1]!, now + holdFor)
    if (leases.at(-1) === expiry) leases[leases.length - 2]! += state[i]!
    else leases.push(state[i]!, expiry)
  }
  return leases.length === 0 ? EMPTY : leases
}

/** Adds a lease that expires no earlier than all others. */
function leased(leases: State, units: number, expiry: number): State {
  if (units === 0) return leases
  const last = leases.length - 2
  return leases[last + 1] === expiry ? leases.with(last, leases[last]! + units) : [...leases, units, expiry]
}

/**
 * Ends `units` of the lease with this expiry. If its time has come, all that live end later, and none is ended. If it has
 * not, and the lease is not there, a step of the clock has brought it forward: then it is the last one that ends earlier.
 */
function released(leases: State, expiry: number, units: number): State {
  let i = leases.length - 2
  while (i >= 0 && leases[i + 1]! > expiry) i -= 2
  if (i < 0) return leases
  return leases[i]! > units ? leases.with(i, leases[i]! - units) : leases.toSpliced(i, 2)
}

const room = (leases: State, quota: number): number => Math.max(0, 2 * quota - total(leases))

function total(leases: State): number {
  let units = 0
  for (let i = 0; i < leases.length; i += 2) units += leases[i]!
  return units
}

/** The functions above in Lua; there, a list that `living` has made is changed in place. */
function twin(): string {
  return `
  local NEVER, UNKNOWN = ${NEVER}, ${UNKNOWN}

  local function living(state, params, now)
    local holdFor = params[2]
    local leases, length = {}, 0
    for i = 1, #state, 2 do
      if state[i + 1] > now then
        local expiry = math.min(state[i + 1], now + holdFor)
        if leases[length] == expiry then
          leases[length - 1] = leases[length - 1] + state[i]
        else
          leases[length + 1], leases[length + 2] = state[i], expiry
          length = length + 2
        end
      end
    end
    return leases
  end

  local function leased(leases, units, expiry)
    if units == 0 then return leases end
    local last = #leases - 1
    if leases[last + 1] == expiry then
      leases[last] = leases[last] + units
    else
      leases[last + 2], leases[last + 3] = units, expiry
    end
    return leases
  end

  local function total(leases)
    local units = 0
    for i = 1, #leases, 2 do units = units + leases[i] end
    return units
  end

  local function step(state, params, now, units)
    local quota, holdFor = params[1], params[2]
    local leases = living(state, params, now)
    local held = total(leases)
    local allowed = quota > 0 and (units == 0 or held + units <= quota)
    local next = allowed and leased(leases, units, now + holdFor) or leases
    return
      allowed,
      next,
      math.max(0, quota - (allowed and held + units or held)),
      0,
      allowed and 0 or (units <= quota and quota > 0) and UNKNOWN or NEVER,
      0,
      #next == 0 and 0 or next[#next] - now
  end

  local function receiptAt(params, now)
    local holdFor = params[2]
    return now + holdFor
  end

  if charging then return step, receiptAt end

  local function released(leases, expiry, units)
    local i = #leases - 1
    while i >= 1 and leases[i + 1] > expiry do i = i - 2 end
    if i < 1 then return leases end
    if leases[i] > units then
      leases[i] = leases[i] - units
    else
      for j = i, #leases do leases[j] = leases[j + 2] end
    end
    return leases
  end

  local function room(leases, quota)
    return math.max(0, 2 * quota - total(leases))
  end

  local function settle(state, params, now, charge, actual)
    local quota, holdFor = params[1], params[2]
    local leases = living(state, params, now)
    if actual <= charge.units then return released(leases, charge.at, charge.units - actual) end
    return leased(leases, math.min(actual - charge.units, room(leases, quota)), now + holdFor)
  end

  local function renew(state, params, now, charge)
    local holdFor = params[2]
    local leases = living(state, params, now)
    local held = total(leases)
    local rest = released(leases, charge.at, charge.units)
    local found = held - total(rest)
    return { state = leased(rest, found, now + holdFor), charge = { at = now + holdFor, units = found } }
  end

  return {
    step = step,
    settle = settle,
    room = function(state, params, now) return room(living(state, params, now), params[1]) end,
    receiptAt = receiptAt,
    renew = renew
  }
`
}
