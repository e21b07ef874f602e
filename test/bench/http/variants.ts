import rateLimit from '@fastify/rate-limit'
import type { RateLimitPluginOptions } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { QuotaOptions, Store } from '../../../src/index.js'
import { Floor, fieldOf, policyFieldOf } from '../floor.js'
import type { Spent } from '../floor.js'
import { PLENTY, clientOf, inRedis as storeInRedis, policies } from '../library.js'
import type { Library } from '../library.js'
import type { Owner } from '../../redis/servers.js'
import { partitionsOf } from '../stage.js'
import type { Effort } from '../stage.js'

/** What a variant is made of. */
export interface Parts {
  readonly app: FastifyInstance
  readonly library: Library
  /** Partitions that will come. */
  readonly partitions: number
  /** The port of a Redis, for variants that need one. */
  readonly redis: number | undefined
  readonly owner: Owner
}

/** A server that is compared with others. */
export interface Variant {
  /** Limits the routes of an app, which has none yet. */
  readonly limit: (parts: Parts) => unknown
  /** Clients, by their keys. */
  readonly partitions: number
  /** Of its answers, once all clients have come. */
  readonly status: number
  /** Where it listens. */
  readonly host: string
  /** Whether whoever asks it need not share a core with a Redis. */
  readonly awake: boolean
}

const USUAL = { partitions: 10_000, status: 200, host: '127.0.0.1', awake: true } as const

/** More clients than these are not let in by requests before the first round, but by the server. */
export const MANY = 20_000

type Limit = Variant['limit']

const keyOf = ({ headers }: FastifyRequest): string => String(headers['x-key'])

const ours =
  (given: QuotaOptions['policies'], store?: (parts: Parts) => Store): Limit =>
  async parts => {
    const { app, library, partitions } = parts
    await app.register(library.quota, {
      identify: { key: keyOf },
      policies: given,
      store: store?.(parts) ?? library.memoryStore({ maxPartitions: Math.max(100_000, 2 * partitions) })
    })
  }

const byKey = (count: number): Limit => ours(policies(count, 'key') as QuotaOptions['policies'])
const byAddress = ours(policies(2, 'ip') as QuotaOptions['policies'])

const inRedis = ({ library, redis, owner }: Parts): Store => storeInRedis(library, redis!, owner)

/** Room for all clients that come. */
const CACHE = 20_000

const DAY = 86_400_000
const theirs =
  (...registrations: readonly RateLimitPluginOptions[]): Limit =>
  async ({ app }) => {
    for (const registration of registrations)
      await app.register(rateLimit, { cache: CACHE, keyGenerator: keyOf, ...registration })
  }

const BURST = { max: PLENTY, timeWindow: 60_000 }
const DAILY = { max: PLENTY, timeWindow: DAY }

const theirsInRedis =
  (...registrations: readonly RateLimitPluginOptions[]): Limit =>
  parts => {
    const inRedis = registrations.map((registration, i) => ({
      ...registration,
      redis: clientOf(parts.redis!, parts.owner),
      nameSpace: `${process.pid}-${i}-`
    }))
    return theirs(...inRedis)(parts)
  }

const flexible: Limit = ({ app }) => {
  const limiter = new RateLimiterMemory({ points: PLENTY, duration: 60 })
  app.addHook('onRequest', async (request, reply) => {
    const { remainingPoints, msBeforeNext } = await limiter.consume(keyOf(request))
    reply.header('x-ratelimit-limit', PLENTY)
    reply.header('x-ratelimit-remaining', remainingPoints)
    reply.header('x-ratelimit-reset', Math.ceil(msBeforeNext / 1000))
  })
}

/** What it takes to send the same fields. */
const floor: Limit = ({ app }) => {
  const counters = new Floor()
  const policy = policyFieldOf(PLENTY)
  app.addHook('onRequest', (request, reply, done) => {
    const limit = fieldOf(counters.count(keyOf(request)), PLENTY)
    reply.header('ratelimit-policy', policy).header('ratelimit', limit)
    done()
  })
}

/** What it takes to ask a Redis for nothing, and to send the same fields. */
const floorInRedis: Limit = async ({ app, redis, owner }) => {
  const client = clientOf(redis!, owner)
  const digest = (await client.script('LOAD', 'return 1')) as string
  const policy = policyFieldOf(PLENTY)
  app.addHook('onRequest', async (request, reply) => {
    await client.evalsha(digest, 1, keyOf(request))
    reply.header('ratelimit-policy', policy).header('ratelimit', fieldOf(NOTHING_SPENT, PLENTY))
  })
}

const NOTHING_SPENT: Spent = { burst: 0, burstEnds: 0, daily: 0, dailyEnds: 0 }

/** What it takes to send a refusal like ours, to everybody who has come before. */
const floorOfRefusals: Limit = ({ app }) => {
  const counters = new Floor()
  const policy = policyFieldOf(1)
  app.addHook('onRequest', (request, reply, done) => {
    if (counters.count(keyOf(request)).daily === 1) return done()
    reply
      .code(429)
      .headers({
        'ratelimit-policy': policy,
        ratelimit: '"burst";r=0;t=60',
        'retry-after': '60',
        'cache-control': 'no-store',
        'content-type': 'application/problem+json'
      })
      .send(PROBLEM)
  })
}

const PROBLEM = JSON.stringify({
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
  title: 'Too Many Requests',
  status: 429,
  detail: 'Quota exceeded. Retry after 60 seconds.',
  'violated-policies': ['burst']
})

/** All that is compared, by name. Those of ours have two policies, if they do not say how many. */
const variants: Readonly<Record<string, Pick<Variant, 'limit'> & Partial<Variant>>> = {
  bare: { limit: () => {} },
  'bare again': { limit: () => {} },
  ours: { limit: byKey(2) },
  'ours, 1 partition': { limit: byKey(2), partitions: 1 },
  'ours, 1k partitions': { limit: byKey(2), partitions: 1000 },
  'ours, 1M partitions': { limit: byKey(2), partitions: 1_000_000 },
  'ours, 1 policy': { limit: byKey(1) },
  'ours, 4 policies': { limit: byKey(4) },
  'ours, 8 policies': { limit: byKey(8) },
  'ours, refusing': {
    limit: ours({
      spent: { quota: 1, window: '1h', partition: 'key' },
      other: { quota: PLENTY, window: '1m', partition: 'key' }
    }),
    status: 429
  },
  'ours, IPv4': { limit: byAddress },
  'ours, IPv6': { limit: byAddress, host: '::1' },
  'ours, Redis': { limit: ours(policies(2, 'key') as QuotaOptions['policies'], inRedis), awake: false },
  'rate-limit': { limit: theirs(BURST) },
  'rate-limit twice': { limit: theirs(BURST, DAILY) },
  'rate-limit, Redis': { limit: theirsInRedis(BURST), awake: false },
  'rate-limit twice, Redis': { limit: theirsInRedis(BURST, DAILY), awake: false },
  'rate-limit, refusing': { limit: theirs({ max: 1, timeWindow: DAY }), status: 429 },
  'rate-limiter-flexible': { limit: flexible },
  floor: { limit: floor },
  'floor, Redis': { limit: floorInRedis, awake: false },
  'floor, refusing': { limit: floorOfRefusals, status: 429 }
}

export function variantNamed(name: string): Variant {
  return { ...USUAL, ...variants[name]! }
}

/** Clients that come to a server in this run. */
export function keysOf(name: string, effort: Effort): number {
  return partitionsOf(variantNamed(name).partitions, effort)
}
