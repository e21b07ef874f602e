import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import calculateSlot from 'cluster-key-slot'
import { Redis } from 'ioredis'
import { Cluster as ValkeyCluster } from 'iovalkey'
import t from 'tap'
import type { Test } from 'tap'
import type { Answer, Charge } from '../../src/store.js'
import { memoryStore } from '../../src/stores/memory.js'
import { startProxy } from '../redis/proxy.js'
import type { Proxy } from '../redis/proxy.js'
import type { RedisServer } from '../redis/servers.js'
import {
  LAYOUTS,
  Masters,
  accounts,
  ask,
  charge,
  connected,
  keysOf,
  opened,
  policy,
  slotOf,
  started,
  until
} from './kit.js'
import type { Told } from './kit.js'

t.setTimeout(120_000)

const cluster = await started(t, { nodeTimeout: 5000 })
const masters = await Masters.of(cluster)
const client = connected(t, cluster)
/** To each master, for what is no store's business. */
const direct = masters.all.map(({ host, port }) => new Redis({ host, port }))
t.teardown(() => direct.map(redis => redis.disconnect()))

// An exact log does not show what was charged and given back.
const minute = policy('minute', { quota: 5, window: '1m', precision: 'exact' })
const hour = policy('hour', { quota: 3, window: '1h', precision: 'exact' })
const day = policy('day', { quota: 4, window: '1d', precision: 'exact' })

t.test('connections to all nodes are there before anybody asks for them', async t => {
  await opened(t, client)
  for (const node of cluster.nodes)
    await until('a connection', async () => /name=fastify-quota /.test(await node.command('CLIENT', 'LIST')))
})

for (const layout of LAYOUTS) {
  t.test(layout, async t => {
    t.test('keys lie where they should, and none without an end', async t => {
      await clear()
      const store = await opened(t, client, { cluster: layout })
      const partitions = Array.from({ length: 30 }, (_, i) => `somebody ${i}`)
      for (const partition of partitions) await store.consume([charge(minute, partition)])
      const found = await Promise.all(direct.map(keysOn))
      const keys = found.flat()
      t.strictSame(new Set(keys), new Set(partitions.map(partition => keysOf(layout).of(partition))))
      t.equal(new Set(keys.map(key => calculateSlot(key))).size, layout === 'one-slot' ? 1 : 30)
      t.equal(found.filter(({ length }) => length > 0).length, layout === 'one-slot' ? 1 : 3)
      for (const [i, names] of found.entries()) {
        for (const key of names) t.ok((await direct[i]!.pttl(key)) > 0)
      }
    })

    t.test('a decision about partitions of all nodes is what it is in memory, to the number', async t => {
      await clear()
      const clock = { now: Date.now() }
      const store = await opened(t, client, { cluster: layout, time: 'caller' })
      const memory = memoryStore()
      memory.open()
      t.teardown(() => memory.close())
      for (const each of [store, memory]) each.useClock(() => clock.now)
      const [user, tenant, everybody] = apart()
      const all = [charge(minute, user), charge(hour, tenant), charge(day, everybody)]
      const same = async (charges: readonly Charge[]): Promise<Answer> => {
        clock.now += 1000
        const answer = await store.consume(charges)
        t.strictSame(answer, { ...memory.consume(charges), source: 'redis' })
        return answer
      }
      for (let i = 0; i < 3; i++) t.ok((await same(all)).limits.every(({ allowed }) => allowed))

      const refused = await same(all)
      t.strictSame(
        refused.limits.map(({ policy, allowed, remaining }) => [policy.name, allowed, remaining]),
        [
          ['minute', true, 2],
          ['hour', false, 0],
          ['day', true, 1]
        ],
        'what others charge is given back'
      )
      t.ok((await same([charge(day, everybody)])).limits[0]!.allowed)
      t.strictSame(
        (await same(all)).limits.map(({ allowed }) => allowed),
        [true, false, false],
        'those that come after the first that refuses are told as well'
      )
      await same(all.toReversed())
      t.ok((await same([charge(minute, user, 2)])).limits[0]!.allowed)
      const waits = (await same(all)).limits.map(({ allowed, retryAfter }) => !allowed && retryAfter)
      t.ok(waits[2] !== false && waits.every(wait => wait !== false && wait <= Number(waits[2])))
      const places = all.map(({ policy, partition }) => ({ policy, partition }))
      t.strictSame(await store.peek(places), { ...memory.peek(places), source: 'redis' })
    })

    t.test('many that decide at once spend the quota, to the unit', async t => {
      await clear()
      const stores = [1, 2, 3].map(() => opened(t, connected(t, cluster), { cluster: layout }))
      const [user, , everybody] = apart()
      const wide = policy('wide', { quota: 300, window: '1h' })
      const tight = policy('tight', { quota: 100, window: '1h' })
      const charges = [charge(wide, user), charge(tight, everybody)]
      const told: Told[] = []
      for (const store of await Promise.all(stores)) {
        for (let i = 0; i < 100; i++) void ask(store, charges).then(answer => told.push(answer))
      }
      await until('all answers', () => told.length === 300)
      t.strictSame(new Set(told.map(({ source }) => source)), new Set(['redis']))
      t.equal(told.filter(({ allowed }) => allowed).length, 100)
      for (const { charge, told: admitted, counted } of await accounts(await stores[0]!, told))
        t.strictSame([admitted, counted], [100, 100], charge.policy.name)
    })

    t.test('a decision is one call, or one for each partition', async t => {
      await clear()
      const store = await opened(t, client, { cluster: layout })
      const [user, tenant, everybody] = apart()
      const charges = [charge(minute, user), charge(hour, tenant), charge(day, everybody)]
      // The first call of a kind on a connection brings the script along.
      await store.consume(charges)
      const seen = await Promise.all(direct.map(redis => monitored(t, redis)))
      t.ok((await ask(store, charges)).allowed)
      const calls = layout === 'one-slot' ? 1 : 3
      await until('the calls', () => seen.flat().filter(isCall).length >= calls)
      await sleep(50)
      t.strictSame(
        seen.flat().filter(isCall),
        Array.from({ length: calls }, () => 'evalsha')
      )
    })

    t.test("the application's own client does, and may bundle what it sends", async t => {
      await clear()
      const bundling = connected(t, cluster, { enableAutoPipelining: true })
      const store = await opened(t, bundling, { cluster: layout, connection: 'shared' })
      const shared = policy('shared', { quota: 20, window: '1h' })
      const own = policy('own', { quota: 2, window: '1h' })
      const told: Told[] = []
      for (let i = 0; i < 100; i++) {
        const charges = [
          charge(shared, 'everybody'),
          charge(own, `somebody ${i % 50}`),
          charge(own, `a ${i}`)
        ]
        void ask(store, charges.slice(0, 1 + (i % 3))).then(answer => told.push(answer))
      }
      await until('all answers', () => told.length === 100)
      t.strictSame(new Set(told.map(({ source }) => source)), new Set(['redis']))
      t.equal(told.filter(({ allowed }) => allowed).length, 20)
      const wrong = (await accounts(store, told)).filter(({ told, counted }) => told !== counted)
      t.strictSame(wrong, [])
      store.close()
      t.equal(await bundling.set('still', 'open'), 'OK')
    })

    t.test('the client of Valkey does', async t => {
      await clear()
      const valkey = new ValkeyCluster(cluster.nodes.map(({ host, port }) => ({ host, port })))
      t.teardown(() => valkey.disconnect())
      const store = await opened(t, valkey, { cluster: layout })
      const told = await Promise.all(Array.from({ length: 10 }, () => ask(store, [charge(minute, 'user')])))
      t.strictSame(
        told.map(({ source, allowed }) => (source === 'redis' ? allowed : source)),
        Array.from({ length: 10 }, (_, i) => i < 5)
      )
    })
  })
}

t.test('what was sent when a connection broke is not sent again', async t => {
  await clear()
  const master = masters.withSlot(slotOf('by-partition', 'user'))
  const proxy = await startProxy(t, master)
  await announce(t, master, proxy)
  const store = await opened(t, connected(t, cluster))
  t.ok((await ask(store, [charge(minute, 'user')])).allowed)
  t.ok(proxy.connections > 0)
  proxy.dropReplies(true)
  const lost = ask(store, [charge(minute, 'user')])
  const other = direct[masters.all.indexOf(master)]!
  const key = keysOf('by-partition').of('user')
  const before = await other.hgetall(key)
  await until('the charge', async () => !isDeepStrictEqual(await other.hgetall(key), before))
  proxy.dropReplies(false)
  proxy.cut()
  const { source, waited } = await lost
  t.equal(source, 'closed')
  t.ok(waited < 9000)
  await until('a new connection', async () => (await ask(store, [charge(hour, 'user')])).source === 'redis')
  const { limits } = await store.peek([{ policy: minute, partition: 'user' }])
  t.equal(limits[0]!.remaining, 3)
})

/** Has a master tell its clients that they reach it elsewhere. */
async function announce(t: Test, master: RedisServer, { port }: Proxy): Promise<void> {
  const tell = (announced: number): Promise<string> =>
    master.command('CONFIG', 'SET', 'cluster-announce-port', String(announced))
  const known = (): Promise<boolean> =>
    Promise.all(cluster.nodes.map(node => node.command('CLUSTER', 'SLOTS'))).then(views =>
      views.every(view => view.includes(String(port)))
    )
  t.teardown(() => tell(0))
  await tell(port)
  await until('all to know', known)
}

/** A partition of each master, whatever the layout. */
function apart(): readonly [string, string, string] {
  return masters.all.map(master => masters.partitions('by-partition', master, 1, 'one')[0]!) as [
    string,
    string,
    string
  ]
}

async function clear(): Promise<void> {
  await Promise.all(direct.map(redis => redis.flushall()))
}

const keysOn = async (redis: Redis): Promise<readonly string[]> =>
  (await redis.keys('*')).filter(key => !key.endsWith(':probe'))

/** The commands that a server is sent from now on, but for those of its scripts. */
async function monitored(t: Test, redis: Redis): Promise<readonly string[]> {
  const monitor = await redis.monitor()
  t.teardown(() => monitor.disconnect())
  const seen: string[] = []
  monitor.on('monitor', (_time: string, [name = '']: readonly string[], source: string) => {
    if (source !== 'lua') seen.push(name.toLowerCase())
  })
  return seen
}

const isCall = (name: string): boolean => name.startsWith('eval')
