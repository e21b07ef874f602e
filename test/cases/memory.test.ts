import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { memoryStore, redisStore } from '../../src/index.js'
import type { RedisStore } from '../../src/index.js'
import { watchWarnings } from '../plugin/kit.js'
import { startProxy } from '../redis/proxy.js'
import { PATIENT, clientOf } from '../stores/redis/kit.js'
import { ask, fieldCase, newPrefix, redis, serve, serveIn } from './kit.js'
import type { Told } from './kit.js'
import { run } from './program.js'

t.setTimeout(120_000)

fieldCase('C87', 'who has gone is forgotten without any traffic, little by little', async t => {
  const sight = (await run(`
    import Fastify from 'fastify'
    import quota, { memoryStore } from 'fastify-quota'
    const app = Fastify()
    const store = memoryStore({ maxPartitions: 300_000 })
    await app.register(quota, { policies: { any: { quota: 5, window: 1 } }, store })
    await app.ready()
    const heap = () => {
      gc()
      const { heapUsed, arrayBuffers } = process.memoryUsage()
      return heapUsed + arrayBuffers
    }
    await app.quota.consume({ ip: '192.0.2.1' }, { any: 1 })
    const before = heap()
    let most = 0
    for (let i = 0; i < 200_000; i++) {
      const network = (i >> 16).toString(16) + ':' + (i & 0xffff).toString(16)
      await app.quota.consume({ ip: '2001:db8:' + network + '::1' }, { any: 1 })
      most = Math.max(most, store.use.partitions)
    }
    const full = heap()
    // How many are forgotten in one turn of the event loop: time would say more of the machine.
    let atOnce = 0
    for (const end = performance.now() + 20_000; store.use.partitions > 0 && performance.now() < end;) {
      const { partitions } = store.use
      await new Promise(resolve => setImmediate(resolve))
      atOnce = Math.max(atOnce, partitions - store.use.partitions)
    }
    const { partitions, evicted, shared } = store.use
    const after = heap()
    await app.close()
    console.log(JSON.stringify({ most, partitions, evicted, shared, grown: full - before, left: after - before, atOnce }))
  `)) as Readonly<Record<'most' | 'partitions' | 'evicted' | 'shared' | 'grown' | 'left' | 'atOnce', number>>
  t.ok(sight.most > 10_000, 'many are known at once', sight)
  t.match(sight, { partitions: 0, evicted: 0, shared: 0 })
  t.ok(sight.left < sight.grown / 4, 'their memory is free again', sight)
  t.ok(sight.atOnce < 10_000, 'and each turn of the event loop forgets a few thousand at most', sight)
})

fieldCase('C88', 'a flood of strangers neither frees who is refused nor shuts out who is honest', async t => {
  const { heard } = watchWarnings(t)
  const { app, clock } = await serve(t, {
    policies: { two: '2/60s' },
    store: memoryStore({ maxPartitions: 1000 })
  })
  const by = (from: string): Promise<Told> => ask(app, { from })
  const victim = '198.51.100.1'
  const statuses = async (times: number): Promise<readonly number[]> => {
    const codes: number[] = []
    for (let i = 0; i < times; i++) codes.push((await by(victim)).status)
    return codes
  }
  t.strictSame(await statuses(3), [200, 200, 429])
  for (let i = 0; i < 3000; i++) {
    const { status } = await by(`10.0.${i >> 8}.${i & 255}`)
    if (status !== 200) t.fail(`stranger ${i} is told ${status}`)
  }
  t.strictSame(await statuses(2), [429, 429])
  t.match(await by('203.0.113.7'), { status: 200, limits: [{ name: 'two', r: 1 }] })
  t.match(app.quota.store, { use: { partitions: 1000 } })
  t.match(await heard(), [{ code: 'FST_QUOTA_MEMORY_FULL' }])
  clock.at(60)
  t.strictSame(await statuses(3), [200, 200, 429])
})

fieldCase('C90', 'requests make no timers, and nothing holds on to them', async t => {
  const { made, held, counted } = (await run(`
    import { AsyncLocalStorage, createHook } from 'node:async_hooks'
    import { setTimeout as sleep } from 'node:timers/promises'
    import Fastify from 'fastify'
    import quota from 'fastify-quota'
    const app = Fastify()
    await app.register(quota, { policies: { any: { quota: 1_000_000, window: 300 } } })
    app.get('/', async () => 'served')
    await app.inject('/')
    const context = new AsyncLocalStorage()
    let made = 0
    const timers = createHook({ init: (id, type) => type === 'Timeout' && made++ }).enable()
    const held = () => process.memoryUsage().arrayBuffers
    gc()
    const before = held()
    for (let i = 0; i < 50_000; i++) {
      const store = { text: Buffer.alloc(10_000, i) }
      await context.run(store, () => app.inject({ url: '/', remoteAddress: '10.0.' + ((i >> 8) & 255) + '.' + (i & 255) }))
    }
    timers.disable()
    for (let i = 0; i < 20; i++) {
      gc()
      await sleep(10)
    }
    console.log(JSON.stringify({ made, held: held() - before, counted: app.quota.store.use.partitions }))
  `)) as { readonly made: number; readonly held: number; readonly counted: number }
  t.ok(made < 50, 'timers are few', { made })
  t.ok(held < 5_000_000, 'of the 500 MB of their contexts nothing is left', { held })
  t.equal(counted, 50_001)
})

fieldCase('C92', 'refusals of one busy client are made side by side, and hold up nobody else', async t => {
  const server = await redis()
  const proxy = await startProxy(t, server, { delay: 5 })
  const store = redisStore(clientOf(t, proxy, { lazyConnect: true }), {
    ...PATIENT,
    onFailure: 'local',
    prefix: newPrefix()
  })
  const { app } = await serveIn(t, store, { two: { quota: 2, window: '10m' } })
  const by = (from: string): Promise<Told> => ask(app, { from })
  const busy = '198.51.100.1'
  await by(busy)
  await by(busy)
  t.match(await by(busy), { status: 429, limits: [{ r: 0 }] })
  let seen = { asked: 0, served: 0, rest: 0, other: 0, took: 0 }
  // A process that stands still for a while takes Redis for one that does; then all are decided here until it answers again.
  for (let tries = 0; tries < 10 && seen.asked <= 500; tries++) {
    await untilUp(store)
    const start = performance.now()
    const burst = Array.from({ length: 2000 }, () => app.quota.consume({ ip: busy }, { two: 1 }))
    const other = await by(`203.0.113.${tries}`)
    const answers = await Promise.all(burst)
    const took = performance.now() - start
    const count = (outcome: string, source: string): number =>
      answers.filter(answer => answer.outcome === outcome && answer.source === source).length
    seen = {
      asked: count('refused', 'redis'),
      served: count('allowed', 'local'),
      rest: count('refused', 'local'),
      other: other.status,
      took
    }
  }
  const { asked, served, rest, other, took } = seen
  t.equal(other, 200, 'somebody else is served')
  t.ok(asked > 500, 'many are asked for at once', { asked, served, rest })
  t.ok(served <= 2, 'and the rest is decided here, within its share', { served })
  t.equal(asked + served + rest, 2000)
  t.ok(took < 5000, 'one after the other they would have taken 10 s', { took })
  await untilUp(store)
  t.match(
    await by('203.0.113.88'),
    { status: 200, limits: [{ name: 'two', r: 1 }] },
    'Redis is asked as before'
  )
})

async function untilUp(store: RedisStore): Promise<void> {
  for (let tries = 0; tries < 500 && store.down; tries++) await sleep(20)
}
