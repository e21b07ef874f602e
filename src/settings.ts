import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caps, Telling } from './announced.js'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION } from './errors.js'
import type { Legacy } from './legacy.js'
import type { PartitionKey } from './partition-key.js'
import {
  alternatives,
  asBoolean,
  asDuration,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  refuser,
  outline,
  show,
  showDuration,
  suggestion
} from './options.js'
import type { Refuse } from './options.js'
import type { Duration, PolicyOptions, ShortPolicy } from './policy-options.js'
import type { QuotaPolicy } from './policy.js'
import type { Identify } from './registry.js'
import type { Store } from './store.js'
import { MemoryStore, memoryStore, monotonic } from './stores/memory.js'
import type { Warnings } from './warnings.js'

/** Under this key, options made of those of another limiter bring along what its routes need. */
export const adapt: unique symbol = Symbol('fastify-quota.adapt')

/** Options of the plugin. */
export interface QuotaOptions {
  /** Policies by name; a name is one policy and one counter everywhere in the server. */
  readonly policies: Readonly<Record<string, PolicyOptions | ShortPolicy>>
  /** What partitions can count by besides address and route: names and functions of the request, sync or async. */
  readonly identify?: Readonly<Record<string, Identify>> | undefined
  /** Where quota is counted; default `memoryStore()`, this process. */
  readonly store?: Store | undefined
  /** The fields of the draft, or none; default `'draft-11'`. */
  readonly fields?: 'draft-11' | false | undefined
  /**
   * An older form of the fields for the policy closest to exhaustion, beside the draft's fields or instead; `'draft-7'` only
   * instead, for it has their name. Default `false`.
   */
  readonly legacy?: Legacy | false | undefined
  /** Which policies `RateLimit` lists: all, the default, or the one closest to exhaustion of each quota unit. */
  readonly select?: 'all' | 'closest' | undefined
  /**
   * The most units per second that the fields invite to: of requests, or by quota unit; `false`: whatever there is. Default:
   * ten times the rate of the quota, for fixed windows of more than a minute without a shorter policy beside.
   */
  readonly cap?: number | Caps | false | undefined
  /** The longest time added to a wait, each client's always the same, so that they do not come back together; default `false`. */
  readonly jitter?: Duration | false | undefined
  /** What is sent as `pk` beside each limit; default `false`. */
  readonly partitionKey?: PartitionKey | undefined
  /** Adds `X-Should-Retry: false` to refusals, which keeps the SDKs of language models from retries of their own; default `false`. */
  readonly sdkHints?: boolean | undefined
  /** Bits of an IPv6 address that are one client, 1 to 128; default 64. */
  readonly ipv6Prefix?: number | undefined
  /** Makes the body of a refusal; `false`: Fastify's own error body; default: the draft's problem types (RFC 9457). */
  readonly problem?: (((decision: Decision, request: FastifyRequest) => object) | false) | undefined
  /** Told of every refusal of a request; what it throws is logged, and it is not waited for. */
  readonly onRefused?: ((decision: Decision, request: FastifyRequest) => void) | undefined
  /** How often each policy's refusals are a line in the request's log, or `false`: never; default `'1m'`. */
  readonly logRefusals?: Duration | false | undefined
  /** Milliseconds, for tests and simulation; memory store only; default: a monotonic clock on the epoch. */
  readonly clock?: (() => number) | undefined
  /** Told of the app before the plugin adds its hooks, and whom to give advice. @internal */
  readonly [adapt]?: (app: FastifyInstance, warnings: Warnings) => void
}

/** Options after they were checked. */
export interface Settings {
  readonly store: Store
  readonly fields: boolean
  readonly legacy: Legacy | false
  readonly select: Telling['select']
  readonly cap: Telling['cap']
  /** Milliseconds. */
  readonly jitter: number
  readonly partitionKey: PartitionKey
  readonly sdkHints: boolean
  readonly ipv6Prefix: number
  readonly problem: NonNullable<QuotaOptions['problem']> | undefined
  readonly onRefused: QuotaOptions['onRefused']
  /** Milliseconds; `false`: refusals are not logged. */
  readonly logRefusals: number | false
  readonly wallClock: () => number
  /** Milliseconds that no clock step disturbs, unless the operator has a clock of his own. */
  readonly clock: () => number
}

const OPTIONS = [
  'policies',
  'identify',
  'store',
  'fields',
  'legacy',
  'select',
  'cap',
  'jitter',
  'partitionKey',
  'sdkHints',
  'ipv6Prefix',
  'problem',
  'onRefused',
  'logRefusals',
  'clock'
] as const satisfies readonly (keyof QuotaOptions)[]

/** What people bring from other limiters, and the name it has here. */
const HABITS: Readonly<Record<string, string>> = {
  policy: 'policies',
  quota: 'policies',
  limit: "policies, such as { default: '100/1m' }",
  max: "policies, such as { default: '100/1m' }",
  limits: 'policies',
  timeWindow: "policies, such as { default: '100/1m' }",
  windowMs: "policies, such as { default: '100/1m' }",
  window: "policies, such as { default: '100/1m' }",
  keyGenerator: 'identify',
  enableDraftSpec: 'fields',
  keys: 'identify',
  redis: 'store, such as redisStore(client, { onFailure, secret })',
  headers: 'fields',
  standardHeaders: 'fields',
  legacyHeaders: "legacy, such as { style: 'x-ratelimit', reset: 'epoch' }",
  ipv6Subnet: 'ipv6Prefix',
  errorResponseBuilder: 'problem',
  onExceeded: 'onRefused'
}

/** Milliseconds. */
const LONGEST_JITTER = 3_600_000

/** Fastify's own options of `register`. */
const OF_REGISTER = ['prefix', 'logLevel', 'logSerializers']

/**
 * Checks all options but `policies` and `identify`, which the registry reads.
 * @throws FST_QUOTA_OPTION naming the option, its value and what was expected.
 */
export function readSettings(written: unknown): Settings {
  const refuse = refuser(FST_QUOTA_OPTION, 'fastify-quota')
  const options = readKnown(refuse, written)
  const { fields = 'draft-11', legacy = false, select = 'all', cap, jitter = false } = options
  const { partitionKey = false, sdkHints = false, ipv6Prefix = 64, problem, onRefused, clock } = options
  const { logRefusals = '1m' } = options
  const wallClock = clock === undefined ? undefined : steady(refuse, clock)
  return {
    store: readStore(refuse, options['store'], wallClock),
    fields: asOneOf(refuse, 'fields', fields, ['draft-11', false]) !== false,
    legacy: readLegacy(refuse, legacy, fields),
    select: asOneOf(refuse, 'select', select, ['all', 'closest'] as const),
    cap: readCap(refuse, cap),
    jitter: jitter === false ? 0 : readJitter(refuse, jitter),
    partitionKey: readPartitionKey(refuse, partitionKey),
    sdkHints: asBoolean(refuse, 'sdkHints', sdkHints),
    ipv6Prefix: asInteger(refuse, 'ipv6Prefix', ipv6Prefix, 1, 128),
    problem: readProblem(refuse, problem),
    onRefused:
      onRefused === undefined
        ? undefined
        : asFunction(refuse, 'onRefused', onRefused as QuotaOptions['onRefused']),
    logRefusals: logRefusals === false ? false : asDuration(refuse, 'logRefusals', logRefusals),
    wallClock: wallClock ?? Date.now,
    clock: wallClock ?? monotonic
  }
}

/**
 * Checks the options of a further registration, which adds to the first one and changes nothing about it.
 * @throws FST_QUOTA_OPTION for anything but `policies` and `identify`.
 */
export function checkFurtherSettings(written: unknown): void {
  const refuse = refuser(FST_QUOTA_OPTION, 'fastify-quota')
  const options = readKnown(refuse, written)
  for (const option of Object.keys(options)) {
    if (option === 'policies' || option === 'identify' || options[option] === undefined) continue
    refuse(
      `${option} belongs to the first registration; a further one has policies and identify, got ${outline(options[option])}`
    )
  }
}

function readKnown(refuse: Refuse, written: unknown): Readonly<Record<string, unknown>> {
  const options: Record<string, unknown> = asObject(refuse, 'options', written)
  for (const option of OF_REGISTER) delete options[option]
  knownKeys(refuse, options, OPTIONS, HABITS)
  if (options['policies'] === undefined) refuse("policies is required, such as { default: '100/1m' }")
  return options
}

function readLegacy(refuse: Refuse, value: unknown, fields: unknown): Legacy | false {
  if (value === false || value === 'draft-6' || value === 'llm') return value
  if (value === 'draft-7') {
    if (fields === false) return value
    refuse(
      "legacy 'draft-7' has the names of the draft's fields and cannot stand beside them: add fields: false"
    )
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    refuse(
      `legacy must be false, 'draft-6', 'draft-7', 'llm' or { style: 'x-ratelimit', reset: 'delta' | 'epoch' }, got ${show(value)}`
    )
  }
  const legacy = asObject(refuse, 'legacy', value)
  knownKeys(message => refuse(`legacy: ${message}`), legacy, ['style', 'reset'])
  return {
    style: asOneOf(refuse, 'legacy.style', legacy['style'], ['x-ratelimit'] as const),
    reset: asOneOf(refuse, 'legacy.reset', legacy['reset'], ['delta', 'epoch'] as const)
  }
}

function readCap(refuse: Refuse, value: unknown): Telling['cap'] {
  if (value === undefined) return 'long windows'
  if (value === false) return false
  const caps =
    typeof value === 'object' && value !== null ? asObject(refuse, 'cap', value) : { requests: value }
  const rates = Object.values(caps)
  if (rates.length > 0 && rates.every(isRate)) return caps as Caps
  return refuse(
    `cap must be false, or units per second: a number above 0 or { [unit]: number }, got ${show(value)}`
  )
}

const isRate = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value) && value > 0

/**
 * Checks `cap` against the policies, once all are known: a misspelt unit would cap nothing.
 * @throws FST_QUOTA_OPTION for a unit that none of them counts in.
 */
export function checkCap(cap: Settings['cap'], policies: Iterable<QuotaPolicy>): void {
  if (typeof cap !== 'object') return
  const units = [...new Set([...policies].map(({ unit }) => unit))]
  const stranger = Object.keys(cap).find(unit => !units.includes(unit))
  if (stranger === undefined) return
  const hint = suggestion(stranger, units) || `; expected ${alternatives(units)}`
  refuser(FST_QUOTA_OPTION, 'fastify-quota')(`cap names ${show(stranger)}, which no policy counts${hint}`)
}

function readJitter(refuse: Refuse, value: unknown): number {
  const jitter = asDuration(refuse, 'jitter', value)
  return jitter <= LONGEST_JITTER ? jitter : refuse(`jitter must be at most 1h, got ${showDuration(value)}`)
}

function readPartitionKey(refuse: Refuse, value: unknown): PartitionKey {
  if (value === false || value === 'hash' || typeof value === 'function') return value as PartitionKey
  return refuse(`partitionKey must be false, 'hash' or a function of the request, got ${show(value)}`)
}

function readProblem(refuse: Refuse, value: unknown): Settings['problem'] {
  if (value === undefined || value === false || typeof value === 'function')
    return value as Settings['problem']
  return refuse(`problem must be false or a function of the decision, got ${show(value)}`)
}

const STORE_METHODS = [
  'consume',
  'settle',
  'renew',
  'peek',
  'reset',
  'close'
] as const satisfies readonly (keyof Store)[]

const STORES = 'store must be memoryStore(…), redisStore(…) or another Store'

/** A client of Redis is not the store, but the store is made of it. */
function hint(value: object): string {
  return 'defineCommand' in value ? '; write redisStore(client, { onFailure, secret })' : ''
}

function readStore(refuse: Refuse, value: unknown, clock: (() => number) | undefined): Store {
  const store = value === undefined ? memoryStore() : (value as Store)
  if (typeof store !== 'object' || store === null) {
    refuse(`${STORES}, got ${show(value)}`)
  }
  const missing = STORE_METHODS.filter(name => typeof store[name] !== 'function')
  if (missing.length > 0) {
    refuse(`${STORES}, got ${outline(value)} without the method ${missing.join(', ')}${hint(store)}`)
  }
  if (clock === undefined) return store
  if (!(store instanceof MemoryStore))
    return refuse(`clock goes with memoryStore(…) only, got the store ${outline(store)}`)
  store.useClock(clock)
  return store
}

/** A clock that fails later, or returns what cannot be counted with, stands still: nothing is given back for it. */
function steady(refuse: Refuse, value: unknown): () => number {
  const clock = asFunction(refuse, 'clock', value as QuotaOptions['clock'])
  const read = (): number | undefined => {
    try {
      const now: unknown = clock()
      return typeof now === 'number' && now >= 0 && now <= Number.MAX_SAFE_INTEGER
        ? Math.floor(now)
        : undefined
    } catch {
      return undefined
    }
  }
  let last = read() ?? refuse('clock must return milliseconds, 0 or more, and does not')
  return () => (last = read() ?? last)
}
