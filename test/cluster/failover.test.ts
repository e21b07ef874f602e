import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { watchStore } from '../../src/store-watch.js'
import type { Charge, Store } from '../../src/store.js'
import { startRedis, startReplica, startSentinels } from '../redis/servers.js'
import type { RedisServer } from '../redis/servers.js'
import {
  Load,
  Masters,
  accounts,
  ask,
  changesOf,
  charge,
  connected,
  cover,
  keysOf,
  nameOf,
  opened,
  policy,
  replicated,
  slotOf,
  started,
  until
} from './kit.js'
import type { Change, Told } from './kit.js'

t.setTimeout(120_000)

// A node that has not come to its work for a while must not be taken for one that is lost.
const cluster = await started(t, { nodeTimeout: 2500 })
const client = connected(t, cluster)

/** Decisions a second. It is not the machine that is tested. */
const RATE = 60

/** What is admitted so shortly before a master dies, in milliseconds, may not have reached its replica. */
const LAG = 2000

const plenty = policy('plenty', { quota: 100_000, window: '1h' })
const ample = policy('ample', { quota: 100_000, window: '1h' })
const scarce = policy('scarce', { quota: 20, window: '1h' })

t.test('a slot that is half on another node serves what lies together, and fails the rest', async t => {
  const store = await opened(t, client, { cluster: 'one-slot' })
  const masters = await Masters.of(cluster)
  const slot = slotOf('one-slot', '')
  const source = masters.withSlot(slot)
  const [target, third] = masters.all.filter(master => master !== source) as [RedisServer, RedisServer]
  const [from, to] = [await source.command('CLUSTER', 'MYID'), await target.command('CLUSTER', 'MYID')]
  const mark = (node: RedisServer, ...how: string[]): Promise<string> =>
    node.command('CLUSTER', 'SETSLOT', String(slot), ...how)
  const move = (key: string): Promise<string> =>
    source.command('MIGRATE', target.host, String(target.port), key, '0', '10000')
  const both = [charge(plenty, 'stays'), charge(scarce, 'goes')]
  t.ok((await ask(store, both)).allowed)

  await mark(target, 'IMPORTING', from)
  await mark(source, 'MIGRATING', to)
  await move(keysOf('one-slot').of('goes'))
  const told: Told[] = []
  for (const charges of [...both.map(each => [each]), both]) told.push(await ask(store, charges))
  t.strictSame(
    told.map(({ source }) => source),
    ['redis', 'redis', 'closed']
  )
  t.ok(told[2]!.waited < 9000, 'which is found out before the deadline')

  await until('the rest of the slot', async () => {
    const keys = (await source.command('CLUSTER', 'GETKEYSINSLOT', String(slot), '10')).split('\n')
    for (const key of keys.filter(Boolean)) await move(key)
    return keys[0] === ''
  })
  for (const node of [target, source, third]) await mark(node, 'NODE', to)
  t.equal((await ask(store, both)).source, 'redis')
  const spent = (await store.peek(both)).limits.map(({ policy, remaining }) => policy.quota - remaining)
  t.strictSame(spent, [3, 3], 'what failed was not counted')
  await cluster.settle()
})

t.test('a master that dies takes nobody else with it, and its replica takes over', async t => {
  // Or the others would refuse to serve as long as there are slots that nobody has.
  await cover(cluster, 'no')
  const masters = await Masters.of(cluster)
  const victim = masters.withSlot(slotOf('one-slot', ''))
  const [second, third] = masters.all.filter(master => master !== victim) as [RedisServer, RedisServer]
  const on = (master: RedisServer, name: string): string =>
    masters.partitions('by-partition', master, 1, name)[0]!
  const spread = await opened(t, client, { cluster: 'by-partition' })
  const together = await opened(t, client, { cluster: 'one-slot', onFailure: 'local' })
  const [changes, changesTogether] = [changesOf(t, spread), changesOf(t, together)]
  const lines = linesOf(t, spread)

  const resting = masters.all.map(master => charge(scarce, on(master, 'resting'), 5))
  for (const each of resting) t.ok((await ask(spread, [each])).allowed)
  await replicated(cluster)
  const spreadLoad = new Load(
    spread,
    [
      ...masters.all.map(master => [charge(plenty, on(master, 'busy'))]),
      [charge(plenty, on(second, 'pair')), charge(ample, on(third, 'pair'))],
      [charge(plenty, on(third, 'crossing')), charge(ample, on(victim, 'crossing'))]
    ],
    RATE
  )
  const togetherLoad = new Load(
    together,
    [[charge(scarce, 'user')], [charge(plenty, 'user'), charge(ample, 'everybody')]],
    RATE
  )
  await sleep(1000)
  const killed = performance.now()
  await victim.kill()
  await until('an end', () => isOver(changes) && isOver(changesTogether))
  await sleep(500)
  const [told, toldTogether] = await Promise.all([spreadLoad.stop(), togetherLoad.stop()])

  const touches = ({ charges }: Pick<Told, 'charges'>): boolean =>
    charges.some(({ partition }) => masters.withSlot(slotOf('by-partition', partition)) === victim)
  const failures = told.filter(hasFailed)
  t.ok(failures.length > 0)
  t.strictSame(
    failures.filter(each => !touches(each)).map(({ sent, waited }) => ({ sent: sent - killed, waited })),
    [],
    'others are decided as ever'
  )
  for (const heard of [changes, changesTogether]) {
    t.strictSame(
      heard.map(({ state, node }) => [state, node]),
      [
        ['down', nameOf(victim)],
        ['up', nameOf(victim)]
      ]
    )
  }
  t.strictSame(
    lines.map(({ level, node }) => [level, node]),
    [
      [40, nameOf(victim)],
      [30, nameOf(victim)]
    ]
  )
  t.ok(failures.every(({ allowed, retryAfter }) => !allowed && retryAfter! <= 1250))
  const here = toldTogether.filter(({ source, allowed }) => source === 'local' && allowed)
  t.ok(here.filter(({ charges }) => charges[0]!.policy === scarce).length <= scarce.quota)

  const late = (each: Told): boolean => each.sent > killed - LAG && each.sent < killed && each.allowed
  await until('what was charged in vain to be given back', async () =>
    (await accounts(spread, told)).every(
      ({ charge, told, counted }) => touches({ charges: [charge] }) || told === counted
    )
  )
  for (const [store, all] of [
    [spread, told],
    [together, toldTogether]
  ] as const) {
    for (const { charge, told, counted } of await accounts(store, all)) {
      const lost = all.filter(late).filter(({ charges }) => charges.some(each => isSame(each, charge))).length
      t.ok(
        told - counted <= lost,
        `${charge.policy.name}: told ${told}, counted ${counted}, lost up to ${lost}`
      )
    }
  }
  const { limits } = await spread.peek(resting)
  t.strictSame(
    limits.map(({ remaining }) => remaining),
    [15, 15, 15],
    'what was at rest is there, to the unit'
  )

  t.test('a cluster that has lost slots serves none, and all when it has found them', async t => {
    await cover(cluster, 'yes')
    const successor = await cluster.masterOf(slotOf('one-slot', ''))
    await successor.kill()
    const asked = masters.all.map(master => charge(plenty, on(master, 'lost')))
    const sources = async (): Promise<string> =>
      (await Promise.all(asked.map(each => ask(spread, [each])))).map(({ source }) => source).join()
    await until('an outage', async () => (await sources()) === 'closed,closed,closed')
    await until('its reason', async () => {
      await sources()
      return changes.filter(({ code }) => code === 'CLUSTERDOWN').length === 2
    })
    await Promise.all([victim.restart(), successor.restart()])
    await until('its end', async () => (await sources()) === 'redis,redis,redis')
    await until('its end is told', () => changes.filter(isDown).length === changes.filter(isUp).length)
    t.pass()
  })
})

t.test('a process that is done is not kept by a cluster that does not answer', async t => {
  await cluster.settle()
  const program = fileURLToPath(new URL('../fixtures/cluster/ending.js', import.meta.url))
  const child = fork(program, [String(cluster.nodes[0]!.port)])
  t.teardown(() => child.kill())
  t.strictSame(await once(child, 'message'), ['ready', undefined])
  for (const node of cluster.nodes) node.pause()
  t.teardown(() => cluster.nodes.map(node => node.resume()))
  t.strictSame(await once(child, 'message'), ['closed', undefined])
  const closed = performance.now()
  t.strictSame(await once(child, 'exit'), [0, null])
  t.ok(performance.now() - closed < 10_000)
})

t.test('sentinels lead to the new master, even if one of them hangs', async t => {
  const master = await startRedis(t)
  const replicas = await Promise.all([startReplica(t, master), startReplica(t, master)])
  const sentinels = await startSentinels(t, master, 'limits')
  const redis = new Redis({ sentinels: sentinels.map(({ host, port }) => ({ host, port })), name: 'limits' })
  redis.on('error', () => {})
  t.teardown(() => redis.disconnect())
  const store = await opened(t, redis)
  const changes = changesOf(t, store)
  const rest = charge(scarce, 'resting', 5)
  t.ok((await ask(store, [rest])).allowed)
  await until('replicas with all there is', async () => {
    const info = await master.command('INFO', 'replication')
    const offset = /^master_repl_offset:(\d+)/m.exec(info)?.[1]
    return (
      [...info.matchAll(/^slave\d:.*offset=(\d+)/gm)].filter(([, replica]) => replica === offset).length === 2
    )
  })
  const load = new Load(store, [[charge(plenty, 'user'), charge(ample, 'everybody')]], RATE)
  await sleep(500)
  const killed = performance.now()
  sentinels[0]!.pause()
  await master.kill()
  await until('an end', () => isOver(changes))
  await sleep(300)
  const told = await load.stop()

  t.equal(changes[0]!.state, 'down')
  t.ok(changes.every(({ node }) => node === undefined))
  t.ok(told.filter(hasFailed).length > 0)
  const lost = told.filter(({ sent, allowed }) => sent > killed - LAG && sent < killed && allowed).length
  for (const { charge, told: admitted, counted } of await accounts(store, told))
    t.ok(admitted - counted <= lost, charge.policy.name)
  t.equal((await store.peek([rest])).limits[0]!.remaining, 15)
  const promoted = await until('the new master', async () => {
    const roles = await Promise.all(replicas.map(replica => replica.command('ROLE')))
    return replicas[roles.findIndex(role => role.startsWith('master'))]
  })
  const keys = (await promoted.command('KEYS', '*')).split('\n')
  t.ok(keys.length >= 3)
  for (const key of keys) t.not(await promoted.command('PTTL', key), '-1', 'no key is for ever')
})

const hasFailed = ({ source }: Told): boolean => source !== 'redis'

const isDown = ({ state }: Change): boolean => state === 'down'
const isUp = ({ state }: Change): boolean => state === 'up'

/** Whether all that went down has come up again. */
const isOver = (changes: readonly Change[]): boolean =>
  changes.length > 0 && changes.filter(isDown).length === changes.filter(isUp).length

const isSame = (one: Charge, other: Charge): boolean =>
  one.policy === other.policy && one.partition === other.partition

interface Line {
  readonly level: number
  readonly node?: string
}

/** What an app logs of a store. */
function linesOf(t: Test, store: Store): readonly Line[] {
  const lines: Line[] = []
  const stream = { write: (line: string): void => void lines.push(JSON.parse(line) as Line) }
  t.teardown(watchStore(store, Fastify({ logger: { stream } }).log))
  return lines
}
