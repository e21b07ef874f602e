import type { FastifyReply, FastifyRequest } from 'fastify'
import { LARGEST_INTEGER, asObject, knownKeys, show } from './options.js'
import type { Refuse } from './options.js'
import type { Partition } from './partition.js'

/** The hooks a decision can be made at, in the order Fastify runs them. */
export const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const
export type Hook = (typeof HOOKS)[number]

/** Those that come before the body does. */
export const BEFORE_BODY: readonly Hook[] = ['onRequest', 'preParsing']

export type AlgorithmName =
  | 'sliding-window'
  | 'sliding-window-log'
  | 'sliding-window-counter'
  | 'fixed-window'
  | 'token-bucket'
  | 'leaky-bucket'
  | 'concurrency'

/** Seconds as a positive integer, or text such as `'500ms'`, `'10s'`, `'1m'`, `'2h'`, `'1d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** Units a request costs, an integer of 0 or more. What throws, rejects or returns anything else costs all there is. */
export type Cost = number | ((request: FastifyRequest) => number | Promise<number>)

/** One quota policy, as an operator writes it. */
export interface PolicyOptions {
  /**
   * Units per window and partition, an integer of 0 or more; 0 refuses everything. As a function of the request it is a
   * plan: the partition's counter is the same whatever its quota. What it does wrong is answered as `onStoreFailure`
   * says, by default `'closed'`.
   */
  readonly quota: number | ((request: FastifyRequest) => number | Promise<number>)
  /** The time the quota is for: see {@link Duration}. Required, but for `concurrency`, which has none. */
  readonly window?: Duration | undefined
  /** How units are counted; default `'sliding-window'`, the one that never admits more than `quota` in any window. */
  readonly algorithm?: AlgorithmName | undefined
  /**
   * `sliding-window` and `sliding-window-counter`: sub-windows, 1 to 1000, default 10. More is closer to an exact log and
   * takes more memory. `'exact'`, with `sliding-window`, is the log, for quotas of up to 1000.
   */
  readonly precision?: number | 'exact' | undefined
  /** With `precision: 'exact'`: allows a log of more than 1000 units, a number in memory for each. */
  readonly largeLog?: boolean | undefined
  /** `fixed-window`: windows start on the clock instead of with a partition's first request; default `false`. */
  readonly align?: boolean | undefined
  /** Buckets: capacity in units, 1 or more; default `quota`. */
  readonly burst?: number | undefined
  /**
   * `leaky-bucket`: queue what would be refused, and start it at the rate of the quota, after up to this wait, of at most
   * 24 days. Not with `burst`, whose place it takes.
   */
  readonly maxDelay?: Duration | undefined
  /** `concurrency`: how long a place is kept for a holder that died; renewed while the request lives; default `'30s'`. */
  readonly holdFor?: Duration | undefined
  /** `concurrency`: the longest hold, of at most 24 days; then the connection is ended. */
  readonly maxHold?: Duration | undefined
  /**
   * What is counted: `'requests'`, the default; `'content-bytes'`, the bytes of request bodies; `'concurrent-requests'`,
   * the default of `concurrency`; or a private unit that matches `^[a-z][a-z0-9-]{0,31}$`.
   */
  readonly unit?: string | undefined
  /** What one request spends; default 1, for `'content-bytes'` the length of its body. */
  readonly cost?: Cost | undefined
  /**
   * Told when a response is over: `true` gives back all the request was charged, a number so many units. What was settled
   * stays as it is. Not with `concurrency` or `maxDelay`.
   */
  readonly refund?: ((request: FastifyRequest, reply: FastifyReply) => boolean | number) | undefined
  /** Whose quota it is; default `'ip'`, the client's address. */
  readonly partition?: Partition | undefined
  /**
   * Where in the request's life it is decided; default `'preParsing'`: after authentication, before the body. What counts
   * bodies as they arrive can be no later.
   */
  readonly hook?: Hook | undefined
  /** Whether routes that name no policies have it; default `true`. */
  readonly default?: boolean | undefined
  /** Requests that are neither counted nor limited by it. Only `true` exempts. */
  readonly exempt?: ((request: FastifyRequest) => boolean | undefined) | undefined
  /** `'shadow'` counts and reports, never refuses and sends no field; default `'enforce'`. */
  readonly mode?: 'enforce' | 'shadow' | undefined
  /** `false`: an internal policy, never named to a client; default `true`. */
  readonly advertise?: boolean | undefined
  /** What happens when a store cannot answer; default: what the store says. The memory store always answers. */
  readonly onStoreFailure?: 'open' | 'closed' | 'local' | undefined
  /**
   * Spend in batches of up to `max` units, 2 to 1 000 000, that this process buys ahead; with `redisStore` only. Most
   * requests of a busy partition then ask nobody; the quota may be exceeded by one batch for each process. Not with plans,
   * `concurrency`, `maxDelay`, `refund` or `precision: 'exact'`.
   */
  readonly batch?: { readonly max: number } | undefined
  /** The status of its refusals; default 429. */
  readonly status?: 429 | 503 | undefined
}

/** A policy in short: quota, slash, window, such as `'100/1m'`. */
export type ShortPolicy = `${number}/${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** Options that were checked for their names only. */
export type Written = Readonly<Record<string, unknown>>

const SHORT = /^(\d{1,15})\/(\d{1,9}(?:ms|s|m|h|d))$/

const OPTIONS = [
  'quota',
  'window',
  'algorithm',
  'precision',
  'largeLog',
  'align',
  'burst',
  'maxDelay',
  'holdFor',
  'maxHold',
  'unit',
  'cost',
  'refund',
  'partition',
  'hook',
  'default',
  'exempt',
  'mode',
  'advertise',
  'onStoreFailure',
  'batch',
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

/**
 * The options of a policy, by name. `'100/1m'` is written out.
 * @throws by `refuse` for unknown names, and for anything but an object or a short policy.
 */
export function readPolicyOptions(refuse: Refuse, written: unknown): Written {
  if (typeof written === 'string') {
    const [, quota, window] = SHORT.exec(written) ?? []
    if (quota === undefined)
      refuse(`a short policy is written like '100/1m', with ms, s, m, h or d, got ${show(written)}`)
    return Object.assign(Object.create(null) as Record<string, unknown>, { quota: Number(quota), window })
  }
  if (typeof written !== 'object') {
    refuse(`a policy must be an object, or text like '100/1m', got ${show(written)}`)
  }
  const options = asObject(refuse, 'a policy', written)
  knownKeys(refuse, options, OPTIONS, HABITS)
  return options
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
