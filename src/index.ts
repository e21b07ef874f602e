import { NEVER, UNKNOWN } from './algorithm.js'
import { exposedHeaders } from './exposed-headers.js'
import { allOf, firstOf } from './partition.js'
import { quota as plugin } from './plugin.js'
import { memoryStore } from './stores/memory.js'
import { redisStore } from './stores/redis.js'

/** The plugin, with all other exports on it, which is what `require('fastify-quota')` returns. */
interface QuotaModule {
  readonly quota: typeof plugin
  readonly default: typeof plugin
  readonly NEVER: typeof NEVER
  readonly UNKNOWN: typeof UNKNOWN
  readonly allOf: typeof allOf
  readonly exposedHeaders: typeof exposedHeaders
  readonly firstOf: typeof firstOf
  readonly memoryStore: typeof memoryStore
  readonly redisStore: typeof redisStore
}

export const quota: typeof plugin & QuotaModule = Object.assign(plugin, {
  quota: plugin,
  default: plugin,
  NEVER,
  UNKNOWN,
  allOf,
  exposedHeaders,
  firstOf,
  memoryStore,
  redisStore
} as const)

export default quota
export { quota as 'module.exports' }
export { NEVER, UNKNOWN, allOf, exposedHeaders, firstOf, memoryStore, redisStore }

export type { Algorithm, Params, Receipt, State, Step, Terms } from './algorithm.js'
export type { Decision } from './decision.js'
export type { Caps } from './announced.js'
export type { Legacy, XRateLimit } from './legacy.js'
export type { OpenApiTransform } from './openapi.js'
export type { PartitionKey } from './partition-key.js'
export type { AllOf, FirstOf, Partition, PartitionRule, Parts } from './partition.js'
export type { AlgorithmName, Cost, Duration, Hook, PolicyOptions, ShortPolicy } from './policy-options.js'
export type { QuotaPolicy, Reduction } from './policy.js'
export type { Figures } from './terms.js'
export type { PolicyChange, QuotaReduction, ReduceOptions, UpdateOptions } from './live.js'
export type { Quota } from './quota.js'
export type { Identify, Identity } from './registry.js'
export type { RequestQuota } from './request-quota.js'
export type { Reservation } from './reserving.js'
export type { PolicyReference, RouteQuota, RouteQuotaOptions } from './route-quota.js'
export type { PolicyReport, PolicyTerms, RouteReport } from './routes.js'
export type { QuotaOptions } from './settings.js'
export type {
  Answer,
  Charge,
  Lease,
  MemoryUse,
  Place,
  ServiceLimit,
  Settled,
  Settlement,
  Source,
  Store,
  StoreCall,
  StoreChange
} from './store.js'
export type { Subject } from './subject.js'
export type { FailureMode } from './stores/failure-modes.js'
export type { MemoryStore, MemoryStoreOptions } from './stores/memory.js'
export type { RedisStore, RedisStoreOptions } from './stores/redis.js'
export type { RedisClient } from './stores/redis/client.js'
