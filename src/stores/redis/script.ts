import { algorithms } from '../../algorithms/index.js'
import { EXPIRY, LIVING, SERVER_TIME, lean } from './fragments.js'

/**
 * What is asked of Redis: one call decides all charges, whatever their algorithms and partitions. The script reads all,
 * decides all, and then writes all or nothing. Its text is always the same; everything else is an argument. It answers in
 * doubles, for Redis cuts numbers to integers of 64 bits: whether it came too late, the time, and what it found.
 *
 * A partition is one hash with a field for each policy: when the state ends, in milliseconds of the epoch, and the state, in
 * MessagePack, which keeps integers exact and takes a tenth of the time of text.
 */
const HARNESS = `
local operation, now, fence, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if now == 0 then${SERVER_TIME}end
if fence > 0 and now > fence then return struct.pack('<dd', 1, now) end
local answer = { struct.pack('<dd', 0, now) }

-- Partitions in the order of KEYS, and in each the slots of the policies that this call is about.
local partitions = {}
for i, key in ipairs(KEYS) do
  partitions[i] = { key = key, slots = {}, names = {} }
end

local cursor, last = 5, #ARGV
local entries, built = {}, {}

local function number()
  cursor = cursor + 1
  return tonumber(ARGV[cursor - 1])
end

local function slot(partition, name)
  local found = partition.slots[name]
  if not found then
    found = { text = false, state = false, ttl = 0 }
    partition.slots[name] = found
    partition.names[#partition.names + 1] = name
  end
  return found
end

-- A policy is its field, its algorithm and its parameters, always five.
local function policy()
  local at, name = cursor, ARGV[cursor + 2]
  local algorithm = built[name] or algorithms[name]()
  built[name] = algorithm
  cursor = at + 8
  local entry = {
    slot = slot(partitions[tonumber(ARGV[at])], ARGV[at + 1]),
    algorithm = algorithm,
    params = {
      tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]),
      tonumber(ARGV[at + 7])
    },
    units = 0, shadow = false, ahead = 0, share = 1, step = false
  }
  entries[#entries + 1] = entry
  return entry
end

${LIVING}

local function read()
  for _, partition in ipairs(partitions) do
    if #partition.names > 0 then
      local texts = redis.call('HMGET', partition.key, unpack(partition.names))
      for i, name in ipairs(partition.names) do
        local found = partition.slots[name]
        found.text = texts[i]
        found.state = living(texts[i])
      end
    end
  end
end

-- A twin may change the state that it is given.
local function step(entry, state, units)
  local allowed, after, remaining, effectiveWindow, retryAfter, delay, ttl =
    entry.algorithm.step(state, entry.params, now, units)
  return {
    allowed = allowed, state = after, remaining = remaining, effectiveWindow = effectiveWindow,
    retryAfter = retryAfter, delay = delay, ttl = ttl
  }
end

local function keep(entry, step)
  entry.slot.state, entry.slot.ttl = step.state, step.ttl
end

-- What nobody has touched for longer than it counts, of policies that are no longer in use.
local function sweep(key)
  if redis.call('HLEN', key) <= fields then return end
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if #living(all[i + 1]) == 0 then redis.call('HDEL', key, all[i]) end
  end
end

${EXPIRY}
-- What grows comes first: Redis refuses that when it is out of memory, and then nothing is written.
local function write()
  for _, partition in ipairs(partitions) do
    local sets, ttl = {}, 0
    for _, name in ipairs(partition.names) do
      local found = partition.slots[name]
      if #found.state > 0 then
        local text = cmsgpack.pack(now + found.ttl, found.state)
        if text ~= found.text then sets[#sets + 1], sets[#sets + 2] = name, text end
        ttl = math.max(ttl, found.ttl)
      end
    end
    local left = redis.call('PTTL', partition.key)
    if #sets > 0 then redis.call('HSET', partition.key, unpack(sets)) end
    if ttl > 0 then expire(partition.key, left, ttl) end
  end
  for _, partition in ipairs(partitions) do
    for _, name in ipairs(partition.names) do
      local found = partition.slots[name]
      if found.text and #found.state == 0 then redis.call('HDEL', partition.key, name) end
    end
    if fields > 0 then sweep(partition.key) end
  end
end

local function tell(entry, step, charged)
  local receiptAt = entry.algorithm.receiptAt
  answer[#answer + 1] = struct.pack(
    '<ddddddd', step.allowed and 1 or 0, step.remaining, step.effectiveWindow, step.retryAfter, step.delay,
    receiptAt and receiptAt(entry.params, now) or now, charged
  )
end

local function receipts()
  local charges = {}
  for i = 1, number() do charges[i] = { at = number(), units = number() } end
  return charges
end

-- A surplus is taken back from the latest receipt first, at most its units; a shortfall is charged at once.
local function settled(entry, surplus)
  local state, settle = entry.slot.state, entry.algorithm.settle
  if surplus < 0 then return settle(state, entry.params, now, { at = now, units = 0 }, -surplus) end
  for i = #entry.charges, 1, -1 do
    if surplus <= 0 then break end
    local charge = entry.charges[i]
    local back = math.min(surplus, charge.units)
    state = settle(state, entry.params, now, charge, charge.units - back)
    surplus = surplus - back
  end
  return state
end

if operation == 'charge' or operation == 'try' then
  while cursor <= last do
    local entry = policy()
    entry.units, entry.shadow, entry.ahead, entry.share = number(), number() == 1, number(), number()
  end
  read()
  local refused = operation == 'try'
  for _, entry in ipairs(entries) do
    entry.step = step(entry, living(entry.slot.text), entry.units)
    if not entry.step.allowed and not entry.shadow then refused = true end
  end
  for _, entry in ipairs(entries) do
    local found, charged = entry.step, 0
    if refused and found.allowed then
      found = step(entry, living(entry.slot.text), 0)
    elseif found.allowed then
      charged = entry.units
      local ahead = math.min(entry.ahead, math.floor(found.remaining / entry.share))
      if ahead > 0 then
        found = step(entry, found.state, ahead)
        charged = charged + ahead
      end
    end
    keep(entry, found)
    tell(entry, found, charged)
  end
  if operation == 'charge' then write() end
elseif operation == 'settle' then
  while cursor <= last do
    local entry = policy()
    entry.actual, entry.charges = number(), receipts()
  end
  read()
  for _, entry in ipairs(entries) do
    local surplus, more = -entry.actual, 0
    for _, charge in ipairs(entry.charges) do surplus = surplus + charge.units end
    -- A receipt of units that were dropped would take back those of others.
    if surplus < 0 then
      more = math.min(-surplus, entry.algorithm.room(entry.slot.state, entry.params, now))
      surplus = -more
    end
    local found = step(entry, settled(entry, surplus), 0)
    keep(entry, found)
    tell(entry, found, more)
  end
  write()
elseif operation == 'renew' then
  while cursor <= last do
    local entry = policy()
    entry.charges = receipts()
  end
  read()
  for _, entry in ipairs(entries) do
    for _, charge in ipairs(entry.charges) do
      local renewed = entry.algorithm.renew(entry.slot.state, entry.params, now, charge)
      entry.slot.state = renewed.state
      answer[#answer + 1] = struct.pack('<dd', renewed.charge.at, renewed.charge.units)
    end
  end
  for _, entry in ipairs(entries) do
    keep(entry, step(entry, entry.slot.state, 0))
  end
  write()
elseif operation == 'reset' then
  for i = cursor, last, 2 do redis.call('HDEL', partitions[tonumber(ARGV[i])].key, ARGV[i + 1]) end
else
  -- A probe: that it can be written to is part of a server's being well.
  for _, key in ipairs(KEYS) do redis.call('SET', key, 1, 'PX', 1000) end
end
return table.concat(answer)
`

/** The script; `shebang` for servers that know it, which then refuse it before its first line if they cannot write. */
export function script(shebang: boolean): string {
  const twins = [...algorithms.values()].map(({ name, lua }) => `['${name}'] = function ()\n${lua}\nend`)
  return lean(`local charging = false\nlocal algorithms = {\n${twins.join(',\n')}\n}\n${HARNESS}`, shebang)
}
