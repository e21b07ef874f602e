import processWarning from 'process-warning'
import type { WarningItem } from 'process-warning'

const warning = (code: string, message: string): WarningItem =>
  processWarning.createWarning({ name: 'FastifyQuotaWarning', code, message })

/** What is unwise and no mistake, with what to write instead. */
export interface Advice {
  readonly code: string
  readonly message: string
}

/** Gives a piece of advice, the first time. */
export interface Once {
  (...details: readonly [first?: string, second?: string, third?: string]): void
  readonly emitted: boolean
}

/** The advice to an app. */
export interface Warnings {
  readonly earlyRoutes: Once
  readonly stages: Once
  readonly untrustedForwarding: Once
  readonly chosenAddress: Once
  readonly noAddress: Once
  readonly longWindow: Once
  readonly lateIdentity: Once
  readonly redundant: Once
  readonly newcomers: Once
  readonly noRoutes: Once
  readonly unlimited: Once
  /** Gives more, each message once. */
  give(advice: readonly Advice[]): void
  /** What was given so far. */
  readonly given: readonly Advice[]
}

/**
 * Advice that has to be heard although an app may have no logger: process warnings, each once for an app. They are made
 * per registration, so that a second app in the process gets its own.
 */
export function createWarnings(): Warnings {
  const given: Advice[] = []
  const messages = new Set<string>()
  /** Whether it is new. */
  const remember = (advice: Advice): boolean => {
    if (messages.has(advice.message)) return false
    messages.add(advice.message)
    given.push(advice)
    return true
  }
  const once = (code: string, message: string): Once => {
    const item = warning(code, message)
    const advise = (...details: readonly [first?: string, second?: string, third?: string]): void => {
      if (!item(...details)) return
      advise.emitted = true
      remember({ code, message: item.format(...details) })
    }
    advise.emitted = false
    return advise
  }
  return {
    given,
    give(advice) {
      for (const each of advice) if (remember(each)) warning(each.code, each.message)()
    },
    earlyRoutes: once(
      'FST_QUOTA_EARLY_ROUTES',
      'routes were declared before fastify-quota was loaded (%s); they are limited, but their config.quota is only ' +
        'checked at their first request: write `await app.register(quota, …)` before the first route'
    ),
    stages: once(
      'FST_QUOTA_STAGES',
      '%s is decided in several stages (%s): each is a decision of its own; give the route a `hook` to decide once'
    ),
    untrustedForwarding: once(
      'FST_QUOTA_FORWARDED',
      'forwarded headers arrive untrusted: a request had %s, but request.ip is the address of its connection, so all ' +
        "clients behind that proxy count as one; set trustProxy to the proxy's addresses, such as '10.0.0.0/8'"
    ),
    chosenAddress: once(
      'FST_QUOTA_SPOOFABLE',
      'clients may choose their address: the app believes a forwarded chain to its leftmost entry, which the client may have ' +
        "written; set trustProxy to the proxies' addresses, such as '10.0.0.0/8', instead of trusting everybody"
    ),
    noAddress: once(
      'FST_QUOTA_NO_ADDRESS',
      'a request had no client address (a Unix socket has none); all such requests share one partition'
    ),
    longWindow: once(
      'FST_QUOTA_LONG_WINDOW',
      'policy "%s" has a window of %s seconds and no shorter one beside it on %s: a client may spend all of it at once; add ' +
        'a policy of the same unit with a short window'
    ),
    lateIdentity: once(
      'FST_QUOTA_LATE_IDENTITY',
      'the identity "%s" was empty when quota was decided and known later in the same request; give the policies that ' +
        "count by it a later `hook`, such as 'preHandler', or authenticate in onRequest"
    ),
    redundant: once(
      'FST_QUOTA_REDUNDANT',
      'policy "%s" never refuses: "%s" counts the same wherever it does, has no more, and is used up first; remove it, or give ' +
        'it a longer window, another unit or another partition'
    ),
    newcomers: once(
      'FST_QUOTA_NEWCOMERS',
      'policy "%s" limits nobody: of the first 100 partitions that it has counted, hardly one came back in their window; count ' +
        "by who is asking, such as partition: 'ip' or an identity that authentication has verified, and not by what is new " +
        'with each request'
    ),
    noRoutes: once(
      'FST_QUOTA_NO_ROUTES',
      'fastify-quota may limit nothing: the scope that registers it declares no route after it, and routes elsewhere do not have it; ' +
        'wrap the function that registers it with fastify-plugin, or register it where the routes are, before them'
    ),
    unlimited: once(
      'FST_QUOTA_UNLIMITED',
      'no policy limits %s, for none is a default there: name one in config.quota, or write quota: false'
    )
  }
}

/** A constant cost that no quota of the policy ever admits. */
export const hopeless = (route: string, policy: string, cost: number, capacity: number): Advice => ({
  code: 'FST_QUOTA_COST',
  message:
    `${route}: each request costs ${cost}, more than the ${capacity} that policy "${policy}" can ever hold, so all are ` +
    'refused: give it a higher quota or burst, or the request a lower cost'
})

/** The fields know whole seconds only. */
export const subSecond = (policy: string, window: number): Advice => ({
  code: 'FST_QUOTA_SUB_SECOND',
  message:
    `policy "${policy}": its window of ${window} ms is announced as ${Math.ceil(window / 1000)} s, since the fields know ` +
    'whole seconds only; clients that pace themselves run slower than they may: give it a window of whole seconds'
})

/** A bucket announces its capacity and the whole seconds that takes to refill. */
export const smallBurst = (policy: string, capacity: number): Advice => ({
  code: 'FST_QUOTA_SMALL_BURST',
  message:
    `policy "${policy}": it holds no more than ${capacity}, which refills in less than a second, the shortest window the ` +
    'fields know; clients that pace themselves run slower than they may: raise burst or maxDelay'
})

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
