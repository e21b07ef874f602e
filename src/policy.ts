import { isDeepStrictEqual } from 'node:util'
import type { FastifyRequest } from 'fastify'
import { TermsError } from './algorithm.js'
import type { Algorithm, Params, Terms } from './algorithm.js'
import { algorithms } from './algorithms/index.js'
import { FST_QUOTA_POLICY } from './errors.js'
import { limitPrefix } from './fields.js'
import {
  LARGEST_INTEGER,
  asBoolean,
  asDuration,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  refuser,
  show
} from './options.js'
import type { Refuse } from './options.js'
import { compilePartition } from './partition.js'
import type { Partition, PartitionRule } from './partition.js'
import { warnSmallBurst, warnSubSecond } from './warnings.js'

/** The hooks a decision can be made at, in the order Fastify runs them. */
export const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const
export type Hook = (typeof HOOKS)[number]

export type AlgorithmName = 'sliding-window' | 'fixed-window' | 'token-bucket'

/** Seconds as a positive integer, or text such as `'500ms'`, `'10s'`, `'1m'`, `'2h'`, `'1d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** Units a request costs, an integer of 0 or more. What throws, rejects or returns anything else costs all there is. */
export type Cost = number | ((request: FastifyRequest) => number | Promise<number>)

/** One quota policy, as an operator writes it. */
export interface PolicyOptions {
  /** Units per window and partition, an integer of 0 or more; 0 refuses everything. */
  readonly quota: number
  /** The time the quota is for: see {@link Duration}. */
  readonly window: Duration
  /** How units are counted; default `'sliding-window'`, the one that never admits more than `quota` in any window. */
  readonly algorithm?: AlgorithmName
  /** `sliding-window`: sub-windows, 1 to 1000, default 10. More is closer to an exact log and takes more memory. */
  readonly precision?: number
  /** `fixed-window`: windows start on the clock instead of with a partition's first request; default `false`. */
  readonly align?: boolean
  /** `token-bucket`: capacity in units, 1 or more; default `quota`. */
  readonly burst?: number
  /** What is counted: `'requests'`, the default, or a private unit that matches `^[a-z][a-z0-9-]{0,31}$`. */
  readonly unit?: string
  /** What one request spends; default 1. */
  readonly cost?: Cost
  /** Whose quota it is; default `'ip'`, the client's address. */
  readonly partition?: Partition
  /** Where in the request's life it is decided; default `'preParsing'`: after authentication, before the body. */
  readonly hook?: Hook
  /** Whether routes that name no policies have it; default `true`. */
  readonly default?: boolean
  /** Requests that are neither counted nor limited by it. Only `true` exempts. */
  readonly exempt?: (request: FastifyRequest) => boolean | undefined
  /** `'shadow'` counts and reports, never refuses and sends no field; default `'enforce'`. */
  readonly mode?: 'enforce' | 'shadow'
  /** `false`: an internal policy, never named to a client; default `true`. */
  readonly advertise?: boolean
  /** What happens when a store cannot answer; default: what the store says. The memory store always answers. */
  readonly onStoreFailure?: 'open' | 'closed' | 'local'
  /** The status of its refusals; default 429. */
  readonly status?: 429 | 503
}

/** A policy in short: quota, slash, window, such as `'100/1m'`. */
export type ShortPolicy = `${number}/${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** A policy after it was checked: everything a request needs, computed once. */
export interface QuotaPolicy {
  readonly name: string
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
  readonly unit: string
  readonly algorithm: Algorithm
  readonly params: Params
  /** The name its state is stored under: the policy's, and what its state depends on. Never the quota. */
  readonly field: string
  /** The most units it can hold at once; more than that is refused for ever. */
  readonly capacity: number
  /** Window as the fields announce it, in whole seconds; the quota they announce is `capacity`. */
  readonly announcedWindow: number
  /** Its item in `RateLimit` up to the number of units left. */
  readonly prefix: string
  readonly cost: Cost
  readonly rule: PartitionRule
  readonly hook: Hook
  readonly default: boolean
  readonly exempt: ((request: FastifyRequest) => unknown) | undefined
  readonly shadow: boolean
  readonly advertise: boolean
  readonly status: 429 | 503
  readonly onStoreFailure: 'open' | 'closed' | 'local' | undefined
  /** A copy of what the operator wrote, to tell whether a second definition of the name is the same. */
  readonly written: unknown
}

const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/
const UNIT = /^[a-z][a-z0-9-]{0,31}$/
const SHORT = /^(\d{1,15})\/(\d{1,9}(?:ms|s|m|h|d))$/

const OPTIONS = [
  'quota',
  'window',
  'algorithm',
  'precision',
  'align',
  'burst',
  'unit',
  'cost',
  'partition',
  'hook',
  'default',
  'exempt',
  'mode',
  'advertise',
  'onStoreFailure',
  'status'
] as const satisfies readonly (keyof PolicyOptions)[]

/** What people bring from other limiters, and the name it has here. */
const HABITS: Readonly<Record<string, string>> = {
  limit: 'quota',
  max: 'quota',
  points: 'quota',
  rate: 'quota',
  tokens: 'quota',
  timeWindow: "window, in seconds or text like '1m'",
  windowMs: "window, in seconds or text like '1m'",
  duration: "window, in seconds or text like '1m'",
  interval: "window, in seconds or text like '1m'",
  period: "window, in seconds or text like '1m'",
  per: "window, in seconds or text like '1m'",
  ttl: "window, in seconds or text like '1m'",
  key: 'partition',
  keyGenerator: 'partition',
  keyGen: 'partition',
  by: 'partition',
  capacity: 'burst',
  weight: 'cost',
  skip: 'exempt',
  allowList: 'exempt',
  whitelist: 'exempt',
  statusCode: 'status',
  strategy: 'algorithm',
  type: 'algorithm',
  dryRun: 'mode',
  skipOnError: 'onStoreFailure'
}

/** Options and values that are agreed but not built: refused, never ignored. */
const NOT_YET = {
  options: ['maxDelay', 'holdFor', 'maxHold', 'refund', 'batch', 'largeLog'],
  algorithms: ['sliding-window-log', 'sliding-window-counter', 'leaky-bucket', 'concurrency'],
  units: ['content-bytes', 'concurrent-requests']
}

/**
 * Checks a policy and computes everything about it that no request changes.
 * @param name The policy's name, `^[A-Za-z][A-Za-z0-9._-]{0,63}$`.
 * @param written {@link PolicyOptions} or {@link ShortPolicy}.
 * @param identities Names of the plugin's `identify` option, in order.
 * @throws FST_QUOTA_POLICY naming the option, its value and what was expected.
 */
export function compilePolicy(name: string, written: unknown, identities: readonly string[]): QuotaPolicy {
  const refuse = refuser(FST_QUOTA_POLICY, `policy ${show(name)}`)
  if (!NAME.test(name)) {
    const [stranger] = /^[^A-Za-z]|[^\w.-]/u.exec(name) ?? []
    const found = stranger === undefined ? `${name.length} characters` : show(stranger)
    refuse(`a name must start with a letter, then have up to 63 of A-Z a-z 0-9 . _ -, got ${found}`)
  }
  const options = readOptions(refuse, written)
  const {
    algorithm: algorithmName = 'sliding-window',
    unit = 'requests',
    cost = 1,
    partition = 'ip',
    hook = 'preParsing',
    default: isDefault = true,
    exempt,
    mode = 'enforce',
    advertise = true,
    onStoreFailure,
    status = 429
  } = options
  const algorithm = readAlgorithm(refuse, algorithmName)
  const terms = readTerms(refuse, options, algorithm.name)
  const { quota, window } = terms
  const capacity = algorithm.name === 'token-bucket' && quota > 0 ? terms.burst : quota
  const params = exactParams(refuse, algorithm, terms)
  return {
    name,
    quota,
    window,
    unit: readUnit(refuse, unit),
    algorithm,
    params,
    field: `${name}/${algorithm.name}/${window}`,
    capacity,
    announcedWindow: announce(name, algorithm.name, terms),
    prefix: limitPrefix(name),
    cost: readCost(refuse, 'cost', cost),
    rule: readPartition(refuse, partition, identities),
    hook: asOneOf(refuse, 'hook', hook, HOOKS),
    default: asBoolean(refuse, 'default', isDefault),
    exempt: exempt === undefined ? undefined : asFunction(refuse, 'exempt', exempt as never),
    shadow: asOneOf(refuse, 'mode', mode, ['enforce', 'shadow']) === 'shadow',
    advertise: asBoolean(refuse, 'advertise', advertise),
    status: asOneOf(refuse, 'status', status, [429, 503]),
    onStoreFailure: readFailureMode(refuse, onStoreFailure),
    written: options
  }
}

/**
 * Whether a second definition of a name says the same as the first.
 * @throws FST_QUOTA_POLICY if it is no policy at all.
 */
export function sameDefinition(policy: QuotaPolicy, written: unknown): boolean {
  const refuse = refuser(FST_QUOTA_POLICY, `policy ${show(policy.name)}`)
  return isDeepStrictEqual(policy.written, readOptions(refuse, written))
}

/** @throws by `refuse` unless it is an integer of 0 or more, or a function. */
export function readCost(refuse: Refuse, option: string, value: unknown): Cost {
  if (typeof value === 'function') return value as Cost
  if (isUnits(value)) return value + 0
  return refuse(
    `${option} must be an integer from 0 to ${LARGEST_INTEGER} or a function of the request, got ${show(value)}`
  )
}

/** Whether a number can be charged: an integer of 0 or more that a structured field can carry. */
export function isUnits(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= LARGEST_INTEGER
}

function readOptions(refuse: Refuse, written: unknown): Readonly<Record<string, unknown>> {
  if (typeof written === 'string') {
    const [, quota, window] = SHORT.exec(written) ?? []
    if (quota === undefined) refuse(`a short policy is written like '100/1m', got ${show(written)}`)
    return Object.assign(Object.create(null) as Record<string, unknown>, { quota: Number(quota), window })
  }
  const options = asObject(refuse, 'a policy', written)
  for (const option of NOT_YET.options) {
    if (options[option] !== undefined) refuse(`${option} is not supported yet, got ${show(options[option])}`)
  }
  knownKeys(refuse, options, OPTIONS, HABITS)
  return options
}

function readAlgorithm(refuse: Refuse, value: unknown): Algorithm {
  if (NOT_YET.algorithms.includes(value as string)) refuse(`algorithm ${show(value)} is not supported yet`)
  return algorithms.get(asOneOf(refuse, 'algorithm', value, [...algorithms.keys()])) as Algorithm
}

function readTerms(refuse: Refuse, options: Readonly<Record<string, unknown>>, algorithm: string): Terms {
  only(refuse, options, 'precision', algorithm, 'sliding-window')
  only(refuse, options, 'align', algorithm, 'fixed-window')
  only(refuse, options, 'burst', algorithm, 'token-bucket')
  const { precision = 10, align = false } = options
  if (options['quota'] === undefined) refuse('quota is required: an integer of 0 or more')
  if (options['window'] === undefined) refuse("window is required: seconds or a duration like '10s'")
  if (typeof options['quota'] === 'function')
    refuse('quota as a function of the request is not supported yet')
  if (precision === 'exact') refuse("precision 'exact' is not supported yet")
  const quota = asInteger(refuse, 'quota', options['quota'], 0, LARGEST_INTEGER)
  return {
    quota,
    window: asDuration(refuse, 'window', options['window']),
    precision: asInteger(refuse, 'precision', precision, 1, 1000),
    align: asBoolean(refuse, 'align', align),
    burst:
      options['burst'] === undefined
        ? quota
        : asInteger(refuse, 'burst', options['burst'], 1, LARGEST_INTEGER)
  }
}

/** An option that means nothing to the chosen algorithm is a mistake, not a wish to ignore. */
function only(
  refuse: Refuse,
  options: Readonly<Record<string, unknown>>,
  option: string,
  algorithm: string,
  owner: string
): void {
  if (options[option] === undefined || algorithm === owner) return
  refuse(`${option} belongs to algorithm "${owner}", got ${show(options[option])} with "${algorithm}"`)
}

function exactParams(refuse: Refuse, algorithm: Algorithm, terms: Terms): Params {
  try {
    return algorithm.params(terms)
  } catch (error) {
    if (error instanceof TermsError) return refuse(`it cannot be counted exactly: ${error.message}`)
    throw error
  }
}

/**
 * The window the fields announce, in whole seconds: rounded up, so that the announced rate may be too low but never too
 * high. A bucket announces its capacity and the time that capacity takes to refill.
 */
function announce(name: string, algorithm: string, { quota, window, burst }: Terms): number {
  if (algorithm !== 'token-bucket' || quota === 0) {
    if (window % 1000 !== 0) warnSubSecond(name, window)
    return Math.ceil(window / 1000)
  }
  const [parts, drain] =
    window % 1000 === 0 ? [burst * (window / 1000), quota] : [burst * window, quota * 1000]
  if (parts < drain) warnSmallBurst(name, burst)
  return Math.ceil(parts / drain)
}

function readFailureMode(refuse: Refuse, value: unknown): QuotaPolicy['onStoreFailure'] {
  if (value === undefined) return undefined
  return asOneOf(refuse, 'onStoreFailure', value, ['open', 'closed', 'local'] as const)
}

function readUnit(refuse: Refuse, value: unknown): string {
  if (NOT_YET.units.includes(value as string)) refuse(`unit ${show(value)} is not supported yet`)
  if (typeof value === 'string' && UNIT.test(value)) return value
  return refuse(`unit must be 'requests' or match ^[a-z][a-z0-9-]{0,31}$, got ${show(value)}`)
}

function readPartition(refuse: Refuse, value: unknown, identities: readonly string[]): PartitionRule {
  try {
    return compilePartition(value, identities)
  } catch (error) {
    return refuse((error as Error).message)
  }
}
