import type { FastifyRequest } from 'fastify'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION } from './errors.js'
import type { XRateLimit } from './legacy.js'
import { asFunction, asInteger, asObject, asOneOf, knownKeys, refuser, outline, show } from './options.js'
import type { Refuse } from './options.js'
import type { PolicyOptions, ShortPolicy } from './policy-options.js'
import type { Identify } from './registry.js'
import type { Store } from './store.js'
import { MemoryStore, memoryStore } from './stores/memory.js'

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
  /** `X-RateLimit-*` for the policy closest to exhaustion, beside the draft's fields or instead; default `false`. */
  readonly legacy?: XRateLimit | false | undefined
  /** Bits of an IPv6 address that are one client, 1 to 128; default 64. */
  readonly ipv6Prefix?: number | undefined
  /** Makes the body of a refusal; `false`: Fastify's own error body; default: the draft's problem types (RFC 9457). */
  readonly problem?: (((decision: Decision, request: FastifyRequest) => object) | false) | undefined
  /** Told of every refusal of a request; what it throws is logged, and it is not waited for. */
  readonly onRefused?: ((decision: Decision, request: FastifyRequest) => void) | undefined
  /** Milliseconds, for tests and simulation; memory store only; default: a monotonic clock on the epoch. */
  readonly clock?: (() => number) | undefined
}

/** Options after they were checked. */
export interface Settings {
  readonly store: Store
  readonly fields: boolean
  readonly legacy: XRateLimit | false
  readonly ipv6Prefix: number
  readonly problem: NonNullable<QuotaOptions['problem']> | undefined
  readonly onRefused: QuotaOptions['onRefused']
  readonly wallClock: () => number
}

const OPTIONS = [
  'policies',
  'identify',
  'store',
  'fields',
  'legacy',
  'ipv6Prefix',
  'problem',
  'onRefused',
  'clock'
] as const satisfies readonly (keyof QuotaOptions)[]

/** Options that are agreed but not built, and the value that asks for nothing. */
const NOT_YET: Readonly<Record<string, unknown>> = {
  select: 'all',
  cap: undefined,
  jitter: false,
  partitionKey: false,
  sdkHints: false
}

const LEGACY_NOT_YET: readonly unknown[] = ['draft-6', 'draft-7', 'llm']

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
  ipv6Subnet: 'ipv6Prefix',
  errorResponseBuilder: 'problem',
  onExceeded: 'onRefused'
}

/** Fastify's own options of `register`. */
const OF_REGISTER = ['prefix', 'logLevel', 'logSerializers']

/**
 * Checks all options but `policies` and `identify`, which the registry reads.
 * @throws FST_QUOTA_OPTION naming the option, its value and what was expected.
 */
export function readSettings(written: unknown): Settings {
  const refuse = refuser(FST_QUOTA_OPTION, 'fastify-quota')
  const options = readKnown(refuse, written)
  const { fields = 'draft-11', legacy = false, ipv6Prefix = 64, problem, onRefused, clock } = options
  const wallClock = clock === undefined ? undefined : steady(refuse, clock)
  return {
    store: readStore(refuse, options['store'], wallClock),
    fields: asOneOf(refuse, 'fields', fields, ['draft-11', false]) !== false,
    legacy: readLegacy(refuse, legacy),
    ipv6Prefix: asInteger(refuse, 'ipv6Prefix', ipv6Prefix, 1, 128),
    problem: readProblem(refuse, problem),
    onRefused:
      onRefused === undefined
        ? undefined
        : asFunction(refuse, 'onRefused', onRefused as QuotaOptions['onRefused']),
    wallClock: wallClock ?? Date.now
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
  for (const option of Object.keys(NOT_YET)) {
    if (options[option] !== undefined && options[option] !== NOT_YET[option]) {
      refuse(`${option} is not supported yet, got ${show(options[option])}`)
    }
    delete options[option]
  }
  knownKeys(refuse, options, OPTIONS, HABITS)
  if (options['policies'] === undefined) refuse("policies is required, such as { default: '100/1m' }")
  return options
}

function readLegacy(refuse: Refuse, value: unknown): XRateLimit | false {
  if (value === false) return false
  if (LEGACY_NOT_YET.includes(value)) refuse(`legacy ${show(value)} is not supported yet`)
  if (typeof value !== 'object' || value === null) {
    refuse(`legacy must be false or { style: 'x-ratelimit', reset: 'delta' | 'epoch' }, got ${show(value)}`)
  }
  const legacy = asObject(refuse, 'legacy', value)
  knownKeys(message => refuse(`legacy: ${message}`), legacy, ['style', 'reset'])
  return {
    style: asOneOf(refuse, 'legacy.style', legacy['style'], ['x-ratelimit'] as const),
    reset: asOneOf(refuse, 'legacy.reset', legacy['reset'], ['delta', 'epoch'] as const)
  }
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
