import type { FastifyRequest } from 'fastify'
import { NO_ADDRESS, addressing } from '../address.js'
import type { Addressing } from '../address.js'
import type { Later } from '../later.js'
import {
  asBoolean,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  outline,
  refuser,
  show
} from '../options.js'
import type { Refuse } from '../options.js'
import { FST_QUOTA_OPTION } from '../errors.js'
import { HOOKS } from '../policy-options.js'
import type { Duration, Hook } from '../policy-options.js'
import type { RedisClient } from '../stores/redis/client.js'
import { millisecondsOf } from './duration.js'

type Key = string | number
/** The limit of a request and its key. */
export type Max = (request: FastifyRequest, key: string) => Later<number>
type AllowList = (request: FastifyRequest, key: string) => Later<boolean>

/** What `errorResponseBuilder` is told of a refusal. */
export interface RefusalContext {
  readonly statusCode: number
  readonly ban: boolean
  readonly max: number
  /** Milliseconds to wait. */
  readonly ttl: number
  /** The same in words. */
  readonly after: string
}

/** Options that `@fastify/rate-limit` takes on a route, in `config.rateLimit`. */
export interface RouteRateLimit {
  readonly max?: number | Max | undefined
  readonly timeWindow?:
    number | string | ((request: FastifyRequest, key: string) => Later<number>) | undefined
  readonly hook?: Hook | undefined
  readonly allowList?: readonly string[] | AllowList | null | undefined
  readonly keyGenerator?: ((request: FastifyRequest) => Later<Key>) | undefined
  readonly ipv6Subnet?: number | undefined
  readonly groupId?: string | undefined
  readonly skipOnError?: boolean | undefined
  readonly errorResponseBuilder?: ((request: FastifyRequest, context: RefusalContext) => object) | undefined
  readonly onExceeding?: ((request: FastifyRequest, key: string) => void) | undefined
  readonly onExceeded?: ((request: FastifyRequest, key: string) => void) | undefined
  readonly onBanReach?: ((request: FastifyRequest, key: string) => void) | undefined
  readonly ban?: number | undefined
  readonly continueExceeding?: boolean | undefined
  readonly exponentialBackoff?: boolean | undefined
  readonly cache?: number | undefined
  readonly addHeaders?: object | undefined
  readonly addHeadersOnExceeding?: object | undefined
  readonly enableDraftSpec?: boolean | undefined
  readonly store?: unknown
}

/** Options that `@fastify/rate-limit` is registered with. */
export interface FastifyRateLimitOptions extends RouteRateLimit {
  readonly global?: boolean | undefined
  readonly redis?: RedisClient | null | undefined
  readonly nameSpace?: string | undefined
}

const OF_ROUTES = [
  'max',
  'timeWindow',
  'hook',
  'allowList',
  'keyGenerator',
  'ipv6Subnet',
  'groupId',
  'skipOnError',
  'errorResponseBuilder',
  'onExceeding',
  'onExceeded',
  'onBanReach',
  'ban',
  'continueExceeding',
  'exponentialBackoff',
  'cache',
  'addHeaders',
  'addHeadersOnExceeding',
  'enableDraftSpec',
  'store'
] as const satisfies readonly (keyof RouteRateLimit)[]

const OF_THE_PLUGIN = [...OF_ROUTES, 'global', 'redis', 'nameSpace'] as const

/** A limit of theirs after it was checked. */
export interface Limit {
  readonly max: number | Max
  readonly window: Duration
  readonly hook: Hook
  /** Keys that are not limited, or a function that tells. */
  readonly allowList: readonly string[] | AllowList
  /** The addresses among these keys, each as a partition has it. */
  readonly addresses: ReadonlySet<string>
  readonly keyGenerator: RouteRateLimit['keyGenerator']
  readonly ipv6Subnet: number
  readonly addressing: Addressing
  readonly groupId: string | undefined
  readonly skipOnError: boolean
  readonly errorResponseBuilder: RouteRateLimit['errorResponseBuilder']
  readonly onExceeding: RouteRateLimit['onExceeding']
  readonly onExceeded: RouteRateLimit['onExceeded']
  /** Names of fields that are not sent when a request is served, and when it is refused. */
  readonly hidden: readonly string[]
  readonly hiddenOnRefusal: readonly string[]
}

const whole = addressing(128)

/** All of an address, as a partition has it. */
export const wholeAddress = (address: string): string => whole(address, undefined)

export const isAddress = (part: string): boolean => part !== NO_ADDRESS

/** What was written, without what was left undefined. */
export type Written = Readonly<Record<string, unknown>>

const refusePlugin = refuser(FST_QUOTA_OPTION, 'fromFastifyRateLimit')

/** @throws FST_QUOTA_OPTION for what `@fastify/rate-limit` does not know or would have replaced by a default. */
export function readPlugin(theirs: unknown): { readonly written: Written; readonly limit: Limit } {
  const written = known(refusePlugin, 'options', theirs, OF_THE_PLUGIN)
  return { written, limit: readLimit(refusePlugin, written) }
}

/**
 * The limit of a route, whose options win over the plugin's.
 * @throws by `refuse`
 */
export function readRoute(
  refuse: Refuse,
  plugin: Written,
  theirs: unknown
): { readonly written: Written; readonly limit: Limit } {
  const written = known(refuse, 'rateLimit', theirs, OF_ROUTES)
  if (written['enableDraftSpec'] !== undefined && written['enableDraftSpec'] !== plugin['enableDraftSpec']) {
    refuse(`enableDraftSpec belongs to the plugin, got ${show(written['enableDraftSpec'])}`)
  }
  return { written, limit: readLimit(refuse, { ...plugin, ...written }) }
}

function known(refuse: Refuse, option: string, theirs: unknown, names: readonly string[]): Written {
  const options = Object.entries(asObject(refuse, option, theirs)).filter(([, value]) => value !== undefined)
  const written = Object.fromEntries(options)
  knownKeys(refuse, written, names)
  return written
}

function readLimit(refuse: Refuse, written: Written): Limit {
  const { max = 1000, hook = 'onRequest', ipv6Subnet = 64, skipOnError = false, groupId } = written
  if (written['store'] !== undefined) refuseStore(refuse, written['store'])
  if (groupId !== undefined && typeof groupId !== 'string')
    refuse(`groupId must be a string, got ${show(groupId)}`)
  const allowList = readAllowList(refuse, written['allowList'] ?? [])
  const prefix = asInteger(refuse, 'ipv6Subnet', ipv6Subnet, 1, 128)
  return {
    max: readMax(refuse, max),
    window: readWindow(refuse, written['timeWindow'] ?? 60_000),
    hook: asOneOf(refuse, 'hook', hook, HOOKS),
    allowList,
    addresses: new Set(typeof allowList === 'function' ? [] : allowList.map(wholeAddress).filter(isAddress)),
    keyGenerator: readFunction(refuse, 'keyGenerator', written),
    ipv6Subnet: prefix,
    addressing: addressing(prefix),
    groupId,
    skipOnError: asBoolean(refuse, 'skipOnError', skipOnError),
    errorResponseBuilder: readFunction(refuse, 'errorResponseBuilder', written),
    onExceeding: readFunction(refuse, 'onExceeding', written),
    onExceeded: readFunction(refuse, 'onExceeded', written),
    hidden: readHidden(refuse, 'addHeadersOnExceeding', written),
    hiddenOnRefusal: readHidden(refuse, 'addHeaders', written)
  }
}

function refuseStore(refuse: Refuse, store: unknown): never {
  return refuse(
    'store cannot be carried over, and without it each process would count by itself: take it out, and give the plugin ' +
      `a store of its own, { ...fromFastifyRateLimit(options), store }, got ${outline(store)}`
  )
}

function readMax(refuse: Refuse, max: unknown): Limit['max'] {
  if (typeof max === 'function') return max as Max
  const most = wholeOf(max)
  if (most !== undefined && most >= 0) return most
  return refuse(`max must be a number of 0 or more, or a function of the request, got ${show(max)}`)
}

function readWindow(refuse: Refuse, timeWindow: unknown): Duration {
  if (typeof timeWindow === 'function') {
    return refuse(
      'timeWindow cannot be a function, for a policy has one window: write a policy for each window, and `exempt` from ' +
        `it whom it is not for, got ${show(timeWindow)}`
    )
  }
  const milliseconds = typeof timeWindow === 'string' ? millisecondsOf(timeWindow) : wholeOf(timeWindow)
  if (milliseconds === undefined || milliseconds <= 0) {
    return refuse(
      `timeWindow must be milliseconds above 0 or a text such as '1 minute', got ${show(timeWindow)}`
    )
  }
  return milliseconds % 1000 === 0 ? milliseconds / 1000 : `${milliseconds}ms`
}

const wholeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? Math.trunc(value) : undefined

function readAllowList(refuse: Refuse, allowList: unknown): Limit['allowList'] {
  if (typeof allowList === 'function') return allowList as AllowList
  if (Array.isArray(allowList) && allowList.every(entry => typeof entry === 'string')) return allowList
  return refuse(`allowList must be a list of keys or a function of the request, got ${show(allowList)}`)
}

function readFunction<K extends 'keyGenerator' | 'errorResponseBuilder' | 'onExceeding' | 'onExceeded'>(
  refuse: Refuse,
  option: K,
  written: Written
): Limit[K] {
  const value = written[option] as Limit[K]
  return value === undefined ? undefined : (asFunction(refuse, option, value) as Limit[K])
}

/** Fields that are switched off. */
function readHidden(
  refuse: Refuse,
  option: 'addHeaders' | 'addHeadersOnExceeding',
  written: Written
): readonly string[] {
  if (written[option] === undefined) return []
  const switches = Object.entries(asObject(refuse, option, written[option]))
  return switches.flatMap(([name, on]) => (asBoolean(refuse, `${option}[${show(name)}]`, on) ? [] : name))
}
