import redis from '@fastify/redis'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { Pool } from 'undici'
import quota, { redisStore } from '../../src/index.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import { AppProcess } from './bench.js'
import type { AppOptions } from './app.js'
import { faults } from './faults.js'
import { connections, eventually, needsRedis, redisDecides, serveRedis, spend } from './kit.js'

t.setTimeout(120_000)

/** Milliseconds. A client by itself holds the process for 2 s after the app has closed. */
const CLOSE = 2000
const EXIT = 1500
const BOOT = 8000

const options: Omit<AppOptions, 'port' | 'connection'> = {
  modes: ['closed'],
  quota: 100,
  instances: 1,
  deadline: '50ms'
}

const policies = { daily: { quota: 100, window: '1d', partition: 'global' } } as const

for (const connection of connections) {
  t.test(
    `${connection}: an app closes within 2 s while Redis is silent, and its process ends by itself`,
    needsRedis,
    async t => {
      for (const fault of faults.filter(({ silent }) => silent)) {
        const redis = await startRedis(t)
        const proxy = await startProxy(t, redis)
        const { port } = fault.direct ? redis : proxy
        const app = await AppProcess.start(t, { ...options, port, connection })
        const clients = new Pool(`http://127.0.0.1:${app.port}`)
        t.teardown(() => clients.destroy())
        const ask = (): Promise<number> =>
          clients.request({ method: 'GET', path: '/closed' }).then(
            async ({ statusCode, body }) => {
              await body.dump()
              return statusCode
            },
            () => 0
          )
        await eventually('an answer of Redis', async () => (await ask()) === 200)
        const end = await fault.begin({ redis, proxy })
        await eventually('a refusal', async () => (await ask()) === 503)
        const rest = Promise.all(Array.from({ length: 20 }, ask))
        const { closed, exited, code } = await app.close()
        t.ok(closed < CLOSE && exited < EXIT, fault.name, { closed, exited })
        t.equal(code, 0)
        await rest
        await end()
      }
    }
  )

  t.test(`${connection}: an app closes within 2 s when it has never seen a server`, needsRedis, async t => {
    const redis = await startRedis(t)
    await redis.kill()
    const app = await AppProcess.start(t, { ...options, port: redis.port, connection })
    const { closed, exited, code } = await app.close()
    t.ok(closed < CLOSE && exited < EXIT, 'in time', { closed, exited })
    t.equal(code, 0)
  })

  for (const [what, begin] of [
    ['is down', 'kill'],
    ['hangs', 'pause']
  ] as const) {
    t.test(
      `${connection}: an app starts while Redis ${what}, and counts there when it is well`,
      needsRedis,
      async t => {
        const redis = await startRedis(t)
        await redis[begin]()
        const start = performance.now()
        const app = await serveRedis(t, redis.port, policies, { connection, onFailure: 'local' })
        await app.ready()
        const booted = performance.now() - start
        t.ok(booted < BOOT, 'before Fastify gives it up', { booted })
        t.strictSame(await spend(app, 'daily', 3), ['local', 'local', 'local'])
        await (begin === 'kill' ? redis.restart() : redis.resume())
        await redisDecides(app, 'daily')
      }
    )
  }
}

t.test(
  'the shortest way to start without Redis is a client that the store alone uses',
  needsRedis,
  async t => {
    const server = await startRedis(t)
    await server.kill()
    const client = new Redis({ host: '127.0.0.1', port: server.port, lazyConnect: true })
    const app = Fastify()
    t.teardown(() => app.close())
    await app.register(quota, {
      policies,
      store: redisStore(client, { onFailure: 'open', secret: 's'.repeat(32) })
    })
    app.get('/', async () => 'served')
    t.equal((await app.inject('/')).statusCode, 200)
    t.equal(client.status, 'wait', 'which never connects, so it has nothing to report and nothing to close')
  }
)

t.test('@fastify/redis waits for a server that is down until Fastify gives up', needsRedis, async t => {
  const server = await startRedis(t)
  await server.kill()
  for (const lazyConnect of [true, false]) {
    const client = new Redis({ host: '127.0.0.1', port: server.port, lazyConnect }).on('error', () => {})
    t.teardown(() => client.disconnect())
    const app = Fastify({ pluginTimeout: 500 })
    await t.rejects(Promise.resolve(app.register(redis, { client })), { code: 'AVV_ERR_PLUGIN_EXEC_TIMEOUT' })
    await app.close()
  }
})
