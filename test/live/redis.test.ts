import t from 'tap'
import type { Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import quota, { redisStore } from '../../src/index.js'
import type { PolicyOptions } from '../../src/index.js'
import { bare, left, leftOf, ready } from '../plugin/kit.js'
import { startRedis } from '../redis/servers.js'
import { PATIENT, clientOf, until } from '../stores/redis/kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)

t.afterEach(async () => server.command('FLUSHALL'))

/** One of several processes that share a quota. */
async function instance(
  t: Test,
  policies: Readonly<Record<string, PolicyOptions>>
): Promise<FastifyInstance> {
  const { app } = bare(t)
  await app.register(quota, { policies, store: redisStore(clientOf(t, server), PATIENT) })
  app.get('/', async () => 'served')
  await ready(app)
  await until('Redis to be asked', async () => (await app.quota.peek({ ip: '::1' })).source === 'redis')
  return app
}

const statuses = async (app: FastifyInstance, times: number): Promise<readonly number[]> => {
  const codes: number[] = []
  for (let i = 0; i < times; i++) codes.push((await app.inject('/')).statusCode)
  return codes
}

const WINDOW = '1h'

t.test('instances that change one after the other count on together', async t => {
  const policies = { any: { quota: 4, window: WINDOW } } as const
  const [one, other] = [await instance(t, policies), await instance(t, policies)]
  t.strictSame(await statuses(one, 3), [200, 200, 200])
  t.match(one.quota.update({ policies: { any: { quota: 6 } } }), [{ carriesOver: true }])
  t.strictSame(left(await one.inject('/')), { any: 2 })
  t.strictSame(await statuses(other, 1), [429], 'it has the old quota still, of the same count')
  other.quota.update({ policies: { any: { quota: 6 } } })
  t.strictSame(await statuses(other, 3), [200, 200, 429])
})

t.test('another algorithm counts anew in a field of its own, on all instances that have it', async t => {
  const policies = { any: { quota: 2, window: WINDOW } } as const
  const [one, other] = [await instance(t, policies), await instance(t, policies)]
  const change = { policies: { any: { algorithm: 'fixed-window', quota: 3 } } } as const
  t.strictSame(await statuses(one, 3), [200, 200, 429])
  one.quota.update(change)
  t.strictSame(await statuses(one, 2), [200, 200])
  other.quota.update(change)
  t.strictSame(await statuses(other, 2), [200, 429])
})

t.test('the field that a policy has left behind goes when it is past its end', async t => {
  const app = await instance(t, { any: { quota: 1000, window: '1s' }, long: { quota: 1000, window: '1h' } })
  await app.inject('/')
  app.quota.update({ policies: { any: { algorithm: 'fixed-window', window: '1h' } } })
  await app.inject('/')
  const keys = (await server.command('KEYS', 'q1:{*}')).split('\n').filter(key => !key.endsWith(':probe'))
  const fields = async (): Promise<number> => Number(await server.command('HLEN', keys[0]!))
  const end = performance.now() + 60_000
  while ((await fields()) > 2 && performance.now() < end) await statuses(app, 20)
  t.equal(await fields(), 2)
})

t.test('batches know nothing of a quota that is no more', async t => {
  const app = await instance(t, { any: { quota: 1, window: WINDOW, batch: { max: 100 } } })
  t.strictSame(await statuses(app, 3), [200, 429, 429])
  app.quota.update({ policies: { any: { quota: 4 } } })
  const response = await app.inject('/')
  t.equal(response.statusCode, 200, 'a refusal that was remembered is over')
  t.match(response.headers['ratelimit-policy'], '"any";q=4;w=3600')
  t.strictSame(await statuses(app, 3), [200, 200, 429])
})

t.test('Redis has its say before an update, and again what there was if that fails', async t => {
  const app = await instance(t, { any: { quota: 9, window: WINDOW } })
  t.throws(() => app.quota.update({ policies: { any: { algorithm: 'sliding-window-log', quota: 101 } } }), {
    code: 'FST_QUOTA_POLICY',
    message: /^policy "any": quota must be at most 100 for an exact log in Redis/
  })
  t.strictSame(await leftOf(app, ['any']), { any: 9 })
})
