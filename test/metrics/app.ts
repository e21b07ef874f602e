import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import prom from 'prom-client'
import quota, { memoryStore, redisStore } from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { quotaMetrics } from '../../src/metrics/index.js'

/*
 * An app that is scraped, a process of its own. Its argument is the port of a Redis, or `memory`; its parent gets the port
 * it is served at in its only message, and ends it.
 */

/** Rows that an answer is thought to have, and those that it has: mostly less, sometimes more. */
const EXPECTED = 100
const rowsOf = (n: number): number => (n % 10 === 0 ? EXPECTED + 20 : 40)

/** Milliseconds that a stream lasts. */
const STREAM = 100

const where = process.argv[2]!
process.once('disconnect', () => process.exit(0))
const app = Fastify({ forceCloseConnections: true }) as unknown as FastifyInstance
await app.register(quota, { ...(where === 'memory' ? crowded() : shared(Number(where))), logRefusals: false })
await app.register(quotaMetrics, { prom })
app.get('/metrics', { config: { quota: false } }, () => prom.register.metrics())
app.get('/', () => 'served')
if (where !== 'memory') addRoutes()
await app.listen({ port: 0, host: '127.0.0.1' })
process.send!((app.server.address() as AddressInfo).port)

function clientOf(request: FastifyRequest): string | undefined {
  return request.headers['x-client']?.toString()
}

/** Memory for four clients: there is no room for one more while four have spent most of their quota. */
function crowded(): QuotaOptions {
  return {
    identify: { client: clientOf },
    policies: { any: { quota: 5, window: '1s', partition: 'client' } },
    store: memoryStore({ maxPartitions: 4 })
  }
}

/** Two apps like this one share these quotas. */
function shared(port: number): QuotaOptions {
  return {
    identify: { client: clientOf },
    policies: {
      now: { quota: 90, window: '1s', exempt: request => clientOf(request) === 'office' },
      next: { quota: 20, window: '1s', mode: 'shadow' },
      fair: { quota: 10, window: '10s', partition: 'client' },
      rows: {
        quota: 20_000,
        window: '1s',
        unit: 'rows',
        cost: EXPECTED,
        default: false,
        onStoreFailure: 'closed'
      },
      streams: { quota: 40, algorithm: 'concurrency', holdFor: '1s', default: false },
      paced: { quota: 60, window: '1s', algorithm: 'leaky-bucket', maxDelay: '500ms', default: false },
      bulk: { quota: 5000, window: '20s', batch: { max: 20 }, default: false, onStoreFailure: 'open' }
    },
    store: redisStore(new Redis({ host: '127.0.0.1', port, lazyConnect: true }), {
      onFailure: 'local',
      secret: 's'.repeat(32),
      instances: 2,
      // A busy machine is no slow store.
      deadline: '200ms'
    })
  }
}

function addRoutes(): void {
  let answers = 0
  app.get('/rows', { config: { quota: ['rows'] } }, async request => {
    await request.quota.settle('rows', rowsOf(answers++))
    return 'rows'
  })
  app.get('/stream', { config: { quota: ['streams', 'paced'] } }, async () => {
    await sleep(STREAM)
    return 'all of it'
  })
  // So long that its place is renewed.
  app.get('/hold', { config: { quota: ['streams'] } }, async () => {
    await sleep(20 * STREAM)
    return 'all of it'
  })
  app.get('/bulk', { config: { quota: ['bulk'] } }, async () => 'bulk')
  app.get('/forgive', { config: { quota: false } }, async () => {
    await app.quota.reset({ client: 'office' }, ['fair'])
    return 'forgiven'
  })
}
