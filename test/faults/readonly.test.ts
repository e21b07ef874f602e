import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import quota, { redisStore } from '../../src/index.js'
import { watchWarnings } from '../plugin/kit.js'
import { startRedis } from '../redis/servers.js'
import { CountedRedis } from './counted-redis.js'
import { eventually, needsRedis, redisDecides, spend } from './kit.js'

t.setTimeout(120_000)

/** Milliseconds. */
const WATCHED = 2000
const BETWEEN = 500

t.test(
  'a server that takes no writes is left for another one now and then, and told of once',
  needsRedis,
  async t => {
    const { heard } = watchWarnings(t)
    const redis = await startRedis(t)
    const client = new CountedRedis({ host: '127.0.0.1', port: redis.port, lazyConnect: true })
    const app = Fastify() as unknown as FastifyInstance
    t.teardown(() => app.close())
    await app.register(quota, {
      policies: { daily: { quota: 100, window: '1d', partition: 'global' } },
      store: redisStore(client, { onFailure: 'local', secret: 's'.repeat(32), deadline: '2s' })
    })
    await redisDecides(app, 'daily')
    const start = performance.now()
    const before = client.connections
    await redis.command('REPLICAOF', '127.0.0.1', '1')
    await eventually('an answer without Redis', async () => (await spend(app, 'daily', 1))[0] === 'local')
    await sleep(WATCHED)
    const more = client.connections - before
    t.ok(more >= 2, 'the next one may lead to a master', { more })
    t.ok(more <= 1 + (performance.now() - start) / BETWEEN, 'nobody storms a replica', { more })
    t.strictSame(
      (await heard()).map(({ code }) => code),
      ['FST_QUOTA_REDIS_REPLICA']
    )
    await redis.command('REPLICAOF', 'NO', 'ONE')
    await redisDecides(app, 'daily')
    t.strictSame(await spend(app, 'daily', 1), ['redis'])
  }
)
