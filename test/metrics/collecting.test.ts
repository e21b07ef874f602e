import { channel } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import prom from 'prom-client'
import t from 'tap'
import quota, { memoryStore, redisStore } from '../../src/index.js'
import type { Decision } from '../../src/index.js'
import { quotaMetrics } from '../../src/metrics/index.js'
import { CALL_CHANNEL, DECISION_CHANNEL, SETTLEMENT_CHANNEL, STORE_CHANNEL } from '../../src/store.js'
import { eventually, needsRedis } from '../faults/kit.js'
import { startRedis } from '../redis/servers.js'
import { metered, scraped } from './kit.js'

t.setTimeout(120_000)

const CHANNELS = [DECISION_CHANNEL, SETTLEMENT_CHANNEL, CALL_CHANNEL]

const watched = (): readonly boolean[] => CHANNELS.map(name => channel(name).hasSubscribers)

const ALLOWED = 'decisions_total{outcome="allowed",source="memory"}'

t.test('a closed app leaves nothing behind, and its register takes the next one', async t => {
  const register = new prom.Registry()
  for (let i = 0; i < 3; i++) {
    t.strictSame(watched(), [false, false, false])
    const { app, samples } = await metered(t, { policies: { any: '9/1m' } }, register)
    t.strictSame(watched(), [true, true, true])
    await app.inject('/')
    t.match(await samples(), { [ALLOWED]: 1 }, 'it begins at nothing')
    await app.close()
    t.equal((await register.metrics()).trim(), '')
  }
  t.strictSame(watched(), [false, false, false])
})

t.test('registered twice, it counts once, until the app closes', async t => {
  const { app, register, samples } = await metered(t, { policies: { any: '9/1m' } })
  await app.register(quotaMetrics, { prom, register })
  await app.inject('/')
  t.match(await samples(), { [ALLOWED]: 1, partitions: 1 })
  await app.close()
  t.strictSame(watched(), [false, false, false])
})

t.test('two apps with one register are counted together, and each ends by itself', async t => {
  const register = new prom.Registry()
  const busy = { busy: { quota: 9, algorithm: 'concurrency', default: false } } as const
  const one = await metered(t, { policies: { any: '9/1m', ...busy } }, register)
  const other = await metered(t, { policies: { any: '9/1m', ...busy } }, register)
  await one.app.inject('/')
  await other.app.inject('/')
  await one.app.quota.reserve({ ip: '127.0.0.1' }, 'busy', 2)
  await other.app.quota.reserve({ ip: '127.0.0.1' }, 'busy', 3)
  t.match(await one.samples(), { [ALLOWED]: 4, partitions: 2, 'leases{policy="busy"}': 5 })
  await one.app.close()
  await other.app.inject('/')
  t.match(await other.samples(), { [ALLOWED]: 5, partitions: 1, 'leases{policy="busy"}': 3 })
})

t.test('two apps with one store have its partitions once', async t => {
  const register = new prom.Registry()
  const store = memoryStore()
  const one = await metered(t, { policies: { any: '9/1m' }, store }, register)
  await metered(t, { policies: { any: '9/1m' }, store }, register)
  await one.app.inject('/')
  t.match(await one.samples(), { partitions: 1 })
})

t.test('apps that have other metrics, or none, are not counted', async t => {
  const one = await metered(t, { policies: { any: '9/1m' } })
  const other = await metered(t, { policies: { any: '9/1m' } })
  const silent = Fastify()
  t.teardown(() => silent.close())
  await silent.register(quota, { policies: { any: '9/1m' } })
  await one.app.inject('/')
  await silent.inject('/')
  t.match(await one.samples(), { [ALLOWED]: 1 })
  t.strictSame(await other.samples(/decisions/), {})
})

t.test('a full memory store is told of', async t => {
  const store = memoryStore({ maxPartitions: 2 })
  const { app, samples } = await metered(t, { policies: { any: '9/1m', tight: '1/1m' }, store })
  const ask = (ip: string): Promise<Decision> => app.quota.consume({ ip }, { any: 1 })
  const spend = (ip: string): Promise<Decision> => app.quota.consume({ ip }, { tight: 1 })
  await ask('192.0.2.1')
  await ask('192.0.2.2')
  await ask('192.0.2.3')
  t.match(await samples(/partitions/), { partitions: 2, evicted_partitions_total: 1 })
  for (const ip of ['192.0.2.4', '192.0.2.5', '192.0.2.6']) await spend(ip)
  const { partitions, partitions_bytes: bytes, ...full } = await samples(/partitions/)
  t.equal(partitions, 2)
  t.ok(bytes! > 100 && bytes! < 1000, `${bytes}`)
  t.strictSame(full, { evicted_partitions_total: 3, shared_partitions_total: 1 })
})

t.test('a store that tells nothing of memory and servers is up, and holds nothing', async t => {
  const memory = memoryStore()
  const store = {
    consume: memory.consume.bind(memory),
    settle: memory.settle.bind(memory),
    renew: memory.renew.bind(memory),
    peek: memory.peek.bind(memory),
    reset: memory.reset.bind(memory),
    close: () => memory.close()
  }
  const { app, samples } = await metered(t, { policies: { any: '9/1m' }, store })
  await app.inject('/')
  t.strictSame(await samples(/store|partitions/), { store_up: 1 })
})

t.test('an outage of Redis shows while it lasts, and after it', needsRedis, async t => {
  const server = await startRedis(t)
  const client = new Redis({ host: server.host, port: server.port, lazyConnect: true })
  t.teardown(() => client.disconnect())
  const store = redisStore(client, { onFailure: 'local', secret: 's'.repeat(32) })
  const { app, register, samples } = await metered(t, { policies: { any: '1000000/1d' }, store })
  const ask = async (): Promise<string> => (await app.quota.consume({ ip: '192.0.2.1' }, { any: 1 })).source
  await eventually('Redis to decide', async () => (await ask()) === 'redis')
  const well = await samples(/store_(up|call)/)
  t.match(well, { store_up: 1 })
  t.ok(well['store_call_duration_seconds_count{operation="charge"}']! >= 1)
  t.ok(well['store_call_duration_seconds_sum{operation="charge"}']! < 30)

  server.pause()
  await eventually('the store to go down', async () => {
    await ask()
    return store.down
  })
  await ask()
  const down = await samples()
  t.equal((await scraped(register))['store_up'], 0)
  for (const name of [
    /^store_changes_total\{state="down",code="(?!OK)\w+"/,
    /^store_failed.*"charge",code="(?!DOWN)/
  ]) {
    t.ok(
      Object.keys(down).some(series => name.test(series)),
      String(name),
      down
    )
  }
  t.match(down, {
    'store_failed_calls_total{operation="charge",code="DOWN"}': Number,
    'policy_decisions_total{policy="any",outcome="allowed",source="local"}': Number,
    partitions: 1
  })
  const before = down['store_down_seconds_total'] ?? 0
  await eventually(
    'the time to go on',
    async () => ((await samples())['store_down_seconds_total'] ?? 0) > before
  )

  server.resume()
  await eventually('the store to come back', () => !store.down)
  const after = await samples(/store_(up|changes|down)/)
  t.match(after, { store_up: 1, 'store_changes_total{state="up",code="OK"}': Number })
  const stopped = after['store_down_seconds_total']
  await ask()
  t.equal((await samples())['store_down_seconds_total'], stopped)
})

t.test('a store that was down before anybody listened is down', needsRedis, async t => {
  const server = await startRedis(t)
  await server.stop()
  const client = new Redis({ host: server.host, port: server.port, lazyConnect: true })
  t.teardown(() => client.disconnect())
  const store = redisStore(client, { onFailure: 'open', secret: 's'.repeat(32) })
  const { app, register, samples } = await metered(t, { policies: { any: '9/1m' }, store })
  t.equal((await scraped(register))['store_up'], 0)
  await eventually('time that it is down', async () => (await samples())['store_down_seconds_total'])
  t.match((await app.quota.consume({ ip: '192.0.2.1' }, { any: 1 })).source, 'open')
  t.match(await samples(/decisions/), { 'decisions_total{outcome="allowed",source="open"}': 1 })
})

t.test('of the changes of a store, those of another one do not count', async t => {
  const store = memoryStore()
  const { samples } = await metered(t, { policies: { any: '9/1m' }, store })
  const tell = (of: typeof store): void =>
    channel(STORE_CHANNEL).publish({ store: of, state: 'fault', code: 'NOPERM', node: undefined })
  tell(store)
  tell(memoryStore())
  t.strictSame(await samples(/changes/), { 'store_changes_total{state="fault",code="NOPERM"}': 1 })
})
