import type { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import quota, { allOf } from '../../../src/index.js'
import type { QuotaOptions } from '../../../src/index.js'
import { compilePolicy } from '../../../src/policy.js'
import { redisStore } from '../../../src/stores/redis.js'
import { bare } from '../../plugin/kit.js'
import type { Server } from '../../plugin/kit.js'
import { startRedis } from '../../redis/servers.js'
import { PATIENT, clientOf, openStore, until } from './kit.js'

const server = await startRedis(t)
t.beforeEach(() => server.command('FLUSHALL'))

const USER = 'alice@example.com}{*'
const TOKEN = 'sk_live_51H8secret'

/** Four policies on three partitions. */
const policies = {
  burst: { quota: 5, window: '10s', partition: 'user' },
  daily: { quota: 100, window: '1d', algorithm: 'token-bucket', partition: 'user' },
  key: { quota: 50, window: '1m', algorithm: 'sliding-window-counter', partition: 'api-key' },
  pair: { quota: 70, window: '1m', algorithm: 'fixed-window', partition: allOf('user', 'api-key') }
} as const satisfies QuotaOptions['policies']

async function serve(t: Test): Promise<Server> {
  const served = bare(t)
  const client = clientOf(t, server)
  await served.app.register(quota, {
    policies,
    identify: { user: () => USER, 'api-key': () => TOKEN },
    store: redisStore(client, PATIENT)
  })
  served.app.get('/', async () => 'served')
  await served.app.ready()
  return served
}

/** What the server is asked from now on, without what scripts ask in turn. */
async function monitored(t: Test): Promise<readonly (readonly string[])[]> {
  const monitor = await clientOf(t, server).monitor()
  t.teardown(() => monitor.disconnect())
  const seen: (readonly string[])[] = []
  monitor.on('monitor', (_time: string, words: string[], source: string) => {
    if (source !== 'lua') seen.push(words)
  })
  return seen
}

t.test(
  'a request with four policies on three partitions is one call of a script, the first one too',
  async t => {
    const { app } = await serve(t)
    const seen = await monitored(t)
    for (let i = 0; i < 2; i++) t.equal((await app.inject('/')).statusCode, 200)
    await server.command('ECHO', 'the end')
    await until('the end', () => seen.some(([command]) => command?.toLowerCase() === 'echo'))
    const asked = seen.filter(([command]) => !/^(echo|command|hello|client|info|ping)$/i.test(command!))
    t.strictSame(
      asked.map(([command]) => command!.toLowerCase()),
      ['eval', 'evalsha']
    )
    for (const [, , keys] of asked) t.equal(keys, '3', 'with three keys')
    for (const raw of [USER, TOKEN, 'alice', 'sk_live'])
      t.notOk(JSON.stringify(seen).includes(raw), 'and says nothing of who is counted')
  }
)

t.test('keys and fields are of a fixed alphabet, and nothing is kept beyond its policy', async t => {
  const { app, errors } = await serve(t)
  for (let i = 0; i < 7; i++) await app.inject('/')
  const client = clientOf(t, server)
  const keys = (await client.keys('*')).filter(key => !key.endsWith(':probe'))
  t.equal(keys.length, 3)
  for (const key of keys) {
    t.match(key, /^q1:\{[\w-]{22}\}$/)
    const fields = await client.hkeys(key)
    for (const field of fields) t.match(field, /^[\w.-]+(\/[\w-]+)+$/)
    // A weighted window counts until the last of its sub-windows has left.
    const longest = fields.some(field => field.startsWith('daily')) ? 86_400_000 : 66_000
    const left = await client.pttl(key)
    t.ok(left > 0 && left <= longest + 1000, `${left} ms`)
  }
  t.strictSame(errors, [])
})

t.test('the expiry of a partition only moves later', async t => {
  const client = clientOf(t, server)
  const store = await openStore(t, client)
  const long = compilePolicy('long', { quota: 9, window: '1h' }, [])
  const short = compilePolicy('short', { quota: 9, window: '10s' }, [])
  const left = async (): Promise<number> => {
    const [key] = (await client.keys('*')).filter(name => !name.endsWith(':probe'))
    return client.pttl(key!)
  }
  await store.consume([{ partition: 'ip:1', policy: short, units: 1 }])
  t.ok((await left()) <= 11_000)
  await store.consume([{ partition: 'ip:1', policy: long, units: 1 }])
  t.ok((await left()) > 3_500_000)
  await store.consume([{ partition: 'ip:1', policy: short, units: 1 }])
  t.ok((await left()) > 3_500_000)
  await client.persist((await client.keys('q1:{*}'))[0]!)
  await store.consume([{ partition: 'ip:1', policy: long, units: 1 }])
  t.ok((await left()) > 0, 'and one that somebody has removed is set again')
})

t.test('an expiry that somebody has removed is set again by the next decision, for all policies', async t => {
  const client = clientOf(t, server)
  const store = await openStore(t, client)
  const long = compilePolicy('long', { quota: 1, window: '1h' }, [])
  const short = compilePolicy('short', { quota: 1, window: '10s' }, [])
  const charge = { partition: 'ip:1', units: 1 }
  await store.consume([long, short].map(policy => ({ ...charge, policy })))
  const [key] = (await client.keys('q1:{*}')).filter(name => !name.endsWith(':probe'))
  for (const policy of [short, long]) {
    await client.persist(key!)
    const { limits } = await store.consume([{ ...charge, policy }])
    t.equal(limits[0]!.allowed, false, 'a refusal changes nothing else')
    const left = await client.pttl(key!)
    t.ok(left > 3_590_000 && left <= 3_601_000, `${policy.name}: ${left} ms`)
  }
})

t.test('what is empty is not kept', async t => {
  const client = clientOf(t, server)
  const store = await openStore(t, client)
  const place = {
    partition: 'ip:1',
    policy: compilePolicy('slots', { quota: 2, algorithm: 'concurrency' }, [])
  }
  const { limits } = await store.consume([{ ...place, units: 1 }])
  t.equal((await client.keys('q1:{*}')).filter(key => !key.endsWith(':probe')).length, 1)
  await store.settle([{ ...place, charges: limits[0]!.charges, actual: 0 }])
  t.strictSame(
    (await client.keys('q1:{*}')).filter(key => !key.endsWith(':probe')),
    []
  )
})

t.test('fields that nobody uses any more go once they are past their end', async t => {
  const client = clientOf(t, server)
  const store = redisStore(client, { ...PATIENT, time: 'caller' })
  let now = Date.now()
  store.useClock(() => now)
  t.teardown(() => store.close())
  await store.open()
  const old = Array.from({ length: 5 }, (_, i) => compilePolicy(`old${i}`, { quota: 9, window: '10s' }, []))
  const policy = compilePolicy('kept', { quota: 1000, window: '1h' }, [])
  store.expect(policy)
  const consume = (of: typeof policy): unknown => store.consume([{ partition: 'ip:1', policy: of, units: 1 }])
  await consume(policy)
  for (const each of old) await consume(each)
  const [key] = (await client.keys('q1:{*}')).filter(name => !name.endsWith(':probe'))
  t.equal(await client.hlen(key!), 6)
  now += 9_999
  for (let i = 0; i < 100; i++) await consume(policy)
  t.equal(await client.hlen(key!), 6, 'not before')
  now += 1
  for (let i = 0; i < 100; i++) await consume(policy)
  t.strictSame(await client.hkeys(key!), [policy.field])
})

t.test('another prefix or another secret shares nothing', async t => {
  const client: Redis = clientOf(t, server)
  const policy = compilePolicy('burst', { quota: 3, window: '1m' }, [])
  const left = async (options: Partial<Parameters<typeof redisStore>[1]>): Promise<number> => {
    const store = await openStore(t, client, options)
    const { limits } = await store.consume([{ partition: 'ip:1', policy, units: 1 }])
    return limits[0]!.remaining
  }
  t.equal(await left({}), 2)
  t.equal(await left({}), 1)
  t.equal(await left({ prefix: 'other' }), 2)
  t.equal(await left({ secret: 'another secret of thirty-two bytes, or more' }), 2)
})
