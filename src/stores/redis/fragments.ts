/** What the scripts have in common. They have `now`, the time in milliseconds. */

/** Milliseconds that a partition may be kept beyond its end, and how many of these may pass before that is renewed. */
const MARGIN = 1000
const SPARE = 500

/** Sets `now` to the server's time. */
export const SERVER_TIME = `
local time = redis.call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** The state of a field, or of none. */
export const LIVING = `
-- A state counts as empty from its end on, however long Redis keeps it.
local function living(text)
  if not text then return {} end
  local ends, state = cmsgpack.unpack(text)
  return ends > now and state or {}
end
`

/** The end of a partition, which is written after its fields; `left` is the time that it had before. */
export const EXPIRY: string = `
-- How long the longest of all policies counts, of those that this call is not about, too.
local function longest(key)
  local all, ends = redis.call('HGETALL', key), 0
  for i = 2, #all, 2 do ends = math.max(ends, (cmsgpack.unpack(all[i]))) end
  return ends - now
end

-- The expiry of a partition only moves later. It is moved ahead of need, so that a busy one is not told each time. One that
-- has none has lost it: somebody has taken it away.
local function expire(key, left, ttl)
  if left == -1 then ttl = math.max(ttl, longest(key)) end
  if left < ttl + ${SPARE} then redis.call('PEXPIRE', key, string.format('%.0f', ttl + ${MARGIN})) end
end
`

/** A script as it is sent: without what is for readers, and with a first line for servers that know it. */
export function lean(text: string, shebang: boolean): string {
  const lines = text.replaceAll(/^ +/gm, '').replaceAll(/^--.*\n|^\n/gm, '')
  return shebang ? `#!lua\n${lines}` : lines
}
