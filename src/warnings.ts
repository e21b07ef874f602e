import processWarning from 'process-warning'
import type { WarningItem } from 'process-warning'

const warning = (code: string, message: string): WarningItem =>
  processWarning.createWarning({ name: 'FastifyQuotaWarning', code, message })

export interface Warnings {
  readonly earlyRoutes: WarningItem
  readonly stages: WarningItem
  readonly untrustedForwarding: WarningItem
  readonly chosenAddress: WarningItem
  readonly noAddress: WarningItem
  readonly longWindow: WarningItem
  readonly lateIdentity: WarningItem
  readonly redundant: WarningItem
  readonly newcomers: WarningItem
  readonly noRoutes: WarningItem
}

/** The codes of what was warned of. */
export const emittedCodes = (warnings: Warnings): readonly string[] =>
  (Object.values(warnings) as readonly WarningItem[]).filter(({ emitted }) => emitted).map(({ code }) => code)

/**
 * Advice that has to be heard although an app may have no logger: process warnings, each once for an app. They are made
 * per registration, so that a second app in the process gets its own.
 */
export function createWarnings(): Warnings {
  return {
    earlyRoutes: warning(
      'FST_QUOTA_EARLY_ROUTES',
      'routes were declared before fastify-quota was loaded (%s); they are limited, but their config.quota is only ' +
        'checked at their first request: write `await app.register(quota, …)` before the first route'
    ),
    stages: warning(
      'FST_QUOTA_STAGES',
      '%s is decided in several stages (%s): each is a decision of its own; give the route a `hook` to decide once'
    ),
    untrustedForwarding: warning(
      'FST_QUOTA_FORWARDED',
      'forwarded headers arrive untrusted: a request had %s, but request.ip is the address of its connection, so all ' +
        "clients behind that proxy count as one; set trustProxy to the proxy's addresses, such as '10.0.0.0/8'"
    ),
    chosenAddress: warning(
      'FST_QUOTA_SPOOFABLE',
      'clients may choose their address: the app believes a forwarded chain to its leftmost entry, which the client may have ' +
        "written; set trustProxy to the proxies' addresses, such as '10.0.0.0/8', instead of trusting everybody"
    ),
    noAddress: warning(
      'FST_QUOTA_NO_ADDRESS',
      'a request had no client address (a Unix socket has none); all such requests share one partition'
    ),
    longWindow: warning(
      'FST_QUOTA_LONG_WINDOW',
      'policy "%s" has a window of %s seconds and no shorter one beside it on %s: a client may spend all of it at once; add ' +
        'a policy of the same unit with a short window'
    ),
    lateIdentity: warning(
      'FST_QUOTA_LATE_IDENTITY',
      'the identity "%s" was empty when quota was decided and known later in the same request; give the policies that ' +
        "count by it a later `hook`, such as 'preHandler', or authenticate in onRequest"
    ),
    redundant: warning(
      'FST_QUOTA_REDUNDANT',
      'policy "%s" never refuses on %s: it counts the same as another one there, which has less and is used up first; remove ' +
        'it, or give it a longer window, another unit or another partition'
    ),
    newcomers: warning(
      'FST_QUOTA_NEWCOMERS',
      'policy "%s" limits nobody: of the first 100 partitions that it has counted, hardly one came back in their window; count ' +
        "by who is asking, such as partition: 'ip' or an identity that authentication has verified, and not by what is new " +
        'with each request'
    ),
    noRoutes: warning(
      'FST_QUOTA_NO_ROUTES',
      'fastify-quota may limit nothing: the scope that registers it declares no route after it, and routes elsewhere do not have it; ' +
        'wrap the function that registers it with fastify-plugin, or register it where the routes are, before them'
    )
  }
}

/** A constant cost that no quota of the policy ever admits. */
export function warnHopeless(route: string, policy: string, cost: number, capacity: number): void {
  warning(
    'FST_QUOTA_COST',
    `${route}: each request costs ${cost}, more than the ${capacity} that policy "${policy}" can ever hold, so all are refused`
  )()
}

/** The fields know whole seconds only. */
export function warnSubSecond(policy: string, window: number): void {
  warning(
    'FST_QUOTA_SUB_SECOND',
    `policy "${policy}": its window of ${window} ms is announced as ${Math.ceil(window / 1000)} s, since the fields know ` +
      'whole seconds only; clients that pace themselves run slower than they may'
  )()
}

/** A bucket announces its capacity and the whole seconds that takes to refill. */
export function warnSmallBurst(policy: string, capacity: number): void {
  warning(
    'FST_QUOTA_SMALL_BURST',
    `policy "${policy}": it holds no more than ${capacity}, which refills in less than a second, the shortest window the ` +
      'fields know; clients that pace themselves run slower than they may: raise burst or maxDelay'
  )()
}

/** A full memory store has to forget somebody, or to count newcomers together: told once for a store, with its partitions. */
export function fullWarning(): WarningItem {
  return warning(
    'FST_QUOTA_MEMORY_FULL',
    'the memory store is full with %s partitions: for each newcomer it forgets somebody who has quota to ' +
      'spare, or counts newcomers together; raise maxPartitions or maxBytes, or count by something that clients cannot invent'
  )
}

/** A Redis that evicts keys forgets what was spent. */
export function warnEviction(policy: string): void {
  warning(
    'FST_QUOTA_REDIS_EVICTION',
    `Redis evicts keys when its memory is full (maxmemory-policy ${policy}), and with them what was spent: set it to ` +
      'noeviction, or give quotas a Redis of their own'
  )()
}

/** A replica takes no writes. */
export function warnReplica(): void {
  warning(
    'FST_QUOTA_REDIS_REPLICA',
    'the Redis client is connected to a replica, which refuses all writes, so nothing can be counted: connect it to the ' +
      'master, by Sentinel or Cluster if that may change'
  )()
}

/** Before 5.0, a script that has asked the time may not write. */
export function warnOldRedis(version: string): void {
  warning(
    'FST_QUOTA_REDIS_VERSION',
    `Redis ${version} is too old to count by its own clock: use 5.0 or later, or redisStore with time: 'caller'`
  )()
}
