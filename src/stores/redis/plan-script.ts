import type { Algorithm } from '../../algorithm.js'
import type { QuotaPolicy } from '../../policy.js'
import { EXPIRY, LIVING, SERVER_TIME, lean } from './fragments.js'

/** A policy of a plan. */
export interface PlanPart {
  /** The place of its partition's key, from 1. */
  readonly key: number
  readonly policy: QuotaPolicy
  /** Whether its parameters are told with each call, for they are not always the same. */
  readonly told: boolean
}

/**
 * Decides charges of a plan as the script for everything does, in half the time: no word of it has to be found out or looked
 * up, for the plan is a part of its text. Each policy has its own variables, which end with its number, and no function is
 * made that a charge does not call. It takes the fence, or the time by the caller's clock, and of each policy the units, and
 * the parameters if they are told.
 */
export function planScript(parts: readonly PlanPart[], clock: 'server' | 'caller', shebang: boolean): string {
  const twins = [...new Set(parts.map(({ policy }) => policy.algorithm))]
  const keys = [...new Set(parts.map(({ key }) => key))]
  const numbered = numberedParts(parts, twins)
  const text = [
    'local charging = true',
    ...twins.map((algorithm, i) => twin(algorithm, i + 1)),
    clock === 'server' ? FENCED : 'local now = tonumber(ARGV[1])',
    LIVING,
    EXPIRY,
    ...keys.map(key => read(key, numbered)),
    ...numbered.map(decide),
    refuse(numbered),
    ...keys.map(key => write(key, numbered)),
    ...numbered.map(drop),
    answer(numbered)
  ]
  // A local name is found in half the time of a global one.
  const quick = text.join('\n').replaceAll(/\bmath\.(ceil|floor|max|min)\b/g, '$1')
  return lean(`local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min\n${quick}`, shebang)
}

/** A part with its numbers: its own, that of its twin, and that of its first argument. */
interface Numbered extends PlanPart {
  readonly i: number
  readonly twin: number
  readonly arg: number
}

function numberedParts(parts: readonly PlanPart[], twins: readonly Algorithm[]): readonly Numbered[] {
  let next = 2
  return parts.map((part, at) => {
    const arg = next
    next += wordsOf(part)
    return { ...part, i: at + 1, twin: twins.indexOf(part.policy.algorithm) + 1, arg }
  })
}

const wordsOf = ({ policy, told }: PlanPart): number => 1 + (told ? policy.params.length : 0)

const twin = ({ lua }: Algorithm, i: number): string =>
  `local step${i}, receiptAt${i} = (function()${lua}end)()`

const FENCED = `
local now
${SERVER_TIME}
local fence = tonumber(ARGV[1])
if fence > 0 and now > fence then return struct.pack('<dd', 1, now) end
`

function read(key: number, parts: readonly Numbered[]): string {
  const own = parts.filter(part => part.key === key)
  const fields = own.map(({ policy }) => `'${policy.field}'`)
  const texts = own.map((_, i) => `texts[${i + 1}]`)
  return `
local texts = redis.call('HMGET', KEYS[${key}], ${fields.join(', ')})
local ${own.map(({ i }) => `text${i}`).join(', ')} = ${texts.join(', ')}`
}

function decide({ i, twin, arg, policy, told }: Numbered): string {
  const params = policy.params.map((param, at) => (told ? `tonumber(ARGV[${arg + 1 + at}])` : String(param)))
  return `
local units${i}, params${i} = tonumber(ARGV[${arg}]), { ${params.join(', ')} }
local allowed${i}, state${i}, remaining${i}, window${i}, retry${i}, delay${i}, ttl${i} =
  step${twin}(living(text${i}), params${i}, now, units${i})
local charged${i} = allowed${i} and units${i} or 0`
}

/** What is refused charges nobody: the others are asked again, for nothing. */
function refuse(parts: readonly Numbered[]): string {
  const refusing = parts.filter(({ policy }) => !policy.shadow)
  if (refusing.length === 0) return ''
  const again = ({ i, twin }: Numbered): string => `
if allowed${i} then
  charged${i} = 0
  allowed${i}, state${i}, remaining${i}, window${i}, retry${i}, delay${i}, ttl${i} =
    step${twin}(living(text${i}), params${i}, now, 0)
end`
  return `
if not (${refusing.map(({ i }) => `allowed${i}`).join(' and ')}) then${parts.map(again).join('')}
end`
}

function write(key: number, parts: readonly Numbered[]): string {
  const set = ({ i, policy }: Numbered): string => `
if #state${i} > 0 then
  local text = cmsgpack.pack(now + ttl${i}, state${i})
  if text ~= text${i} then
    count = count + 2
    sets[count - 1], sets[count] = '${policy.field}', text
  end
  ttl = math.max(ttl, ttl${i})
end`
  return `
do
local sets, count, ttl = {}, 0, 0${parts
    .filter(part => part.key === key)
    .map(set)
    .join('')}
local left = redis.call('PTTL', KEYS[${key}])
if count > 0 then redis.call('HSET', KEYS[${key}], unpack(sets)) end
if ttl > 0 then expire(KEYS[${key}], left, ttl) end
end`
}

const drop = ({ i, key, policy }: Numbered): string => `
if text${i} and #state${i} == 0 then redis.call('HDEL', KEYS[${key}], '${policy.field}') end`

function answer(parts: readonly Numbered[]): string {
  const numbers = parts.map(({ i, twin, policy }) => {
    const at = policy.algorithm.receiptAt === undefined ? 'now' : `receiptAt${twin}(params${i}, now)`
    return `allowed${i} and 1 or 0, remaining${i}, window${i}, retry${i}, delay${i}, ${at}, charged${i}`
  })
  return `
return struct.pack('<dd${'ddddddd'.repeat(parts.length)}', 0, now,
${numbers.join(',\n')})`
}
