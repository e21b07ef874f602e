import { FST_QUOTA_OPTION } from './errors.js'
import { asBoolean, asObject, asOneOf, knownKeys, outline, refuser } from './options.js'
import type { Refuse } from './options.js'
import type { AlgorithmName } from './policy-options.js'
import { adapt } from './settings.js'
import type { QuotaOptions } from './settings.js'
import type { Store } from './store.js'
import { redisStore } from './stores/redis.js'
import type { RedisStoreOptions } from './stores/redis.js'
import type { RedisClient } from './stores/redis/client.js'
import { Adapter, KEY } from './migrate/adapter.js'
import type { Leftover } from './migrate/leftovers.js'
import { readPlugin } from './migrate/theirs.js'
import type { FastifyRateLimitOptions, Written } from './migrate/theirs.js'

export type { FastifyRateLimitOptions, RefusalContext, RouteRateLimit } from './migrate/theirs.js'

/** What their options do not say. */
export interface MigrationOptions {
  /**
   * Options of `redisStore` beside the client: `secret` is required with `redis`. Default of `onFailure`: `'open'` with
   * `skipOnError`, else `'closed'`; of `prefix`: `nameSpace`.
   */
  readonly redis?: Partial<RedisStoreOptions> | undefined
  /** How units are counted; default `'fixed-window'`, which is how they were; `'sliding-window'` admits no more at its edges. */
  readonly algorithm?: Extract<AlgorithmName, 'fixed-window' | 'sliding-window'> | undefined
}

/**
 * The plugin's options, from those of `@fastify/rate-limit` 11. Where the plugin is registered with them, routes may keep
 * their `config.rateLimit`, of which one deprecation warning tells. What cannot be carried over is listed as the app starts,
 * a warning each.
 * @throws FST_QUOTA_OPTION for options that cannot be carried over without a weaker limit, or that were never right.
 */
export function fromFastifyRateLimit(
  theirs: FastifyRateLimitOptions = {},
  ours: MigrationOptions = {}
): QuotaOptions {
  const refuse = refuser(FST_QUOTA_OPTION, 'fromFastifyRateLimit')
  const { written, limit } = readPlugin(theirs)
  const more = asObject(refuse, 'its second parameter', ours)
  knownKeys(refuse, more, ['redis', 'algorithm'])
  const { algorithm } = ours
  if (algorithm !== undefined) asOneOf(refuse, 'algorithm', algorithm, ['fixed-window', 'sliding-window'])
  const isGlobal = asBoolean(refuse, 'global', written['global'] ?? true)
  const isDraft = asBoolean(refuse, 'enableDraftSpec', written['enableDraftSpec'] ?? false)
  const adapter = new Adapter(written, limit, algorithm)
  const policy = adapter.policy
  const further: Leftover[] = limit.groupId === undefined ? [] : ['groupId']
  const store = readStore(refuse, written, ours.redis, further)
  const prefix = limit.ipv6Subnet
  return {
    policies: { default: isGlobal ? policy : { ...policy, default: false } },
    identify: { [KEY]: adapter.callers.identify },
    legacy: isDraft ? 'draft-6' : { style: 'x-ratelimit', reset: 'delta' },
    problem: false,
    ...(prefix === 64 ? {} : { ipv6Prefix: prefix }),
    ...(store === undefined ? {} : { store }),
    onRefused: (decision, request) => adapter.refuse(decision, request),
    [adapt]: (app, warnings) => adapter.adapt(app, warnings, further)
  }
}

const PREFIX = /^[A-Za-z0-9._-]{1,32}$/

/** Where theirs counted in Redis, so does ours. */
function readStore(
  refuse: Refuse,
  written: Written,
  ours: MigrationOptions['redis'],
  leftovers: Leftover[]
): Store | undefined {
  const { redis, nameSpace, skipOnError } = written
  if (redis === undefined || redis === null) {
    if (ours !== undefined) refuse(`redis has options but no client, got ${outline(ours)} without one`)
    return undefined
  }
  leftovers.push('redis')
  const given = asObject(refuse, 'redis in its second parameter', ours ?? {}) as Partial<RedisStoreOptions>
  if (given.secret === undefined) {
    refuse(
      'redis needs a secret of 32 bytes or more, the same in all processes, under which clients are named there: write ' +
        `fromFastifyRateLimit(options, { redis: { secret } }), got ${outline(ours)}`
    )
  }
  const fits = typeof nameSpace === 'string' && PREFIX.test(nameSpace)
  if (nameSpace !== undefined && !fits && given.prefix === undefined) leftovers.push('nameSpace')
  return redisStore(redis as RedisClient, {
    onFailure: skipOnError === true ? 'open' : 'closed',
    secret: undefined,
    ...(fits ? { prefix: nameSpace } : {}),
    ...given
  })
}
