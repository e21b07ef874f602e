import { setTimeout as sleep } from 'node:timers/promises'
import type { Charge } from '../../src/store.js'
import type { FailureMode } from '../../src/stores/failure-modes.js'
import type { RedisStore } from '../../src/stores/redis.js'
import type { Owner, RedisCluster, RedisServer } from '../redis/servers.js'
import {
  Load,
  Masters,
  accounts,
  ask,
  changesOf,
  charge,
  connected,
  cover,
  nameOf,
  opened,
  policy,
  replicated,
  slotOf,
  until
} from './kit.js'
import type { Account, Change, Layout, Told } from './kit.js'
import { Pauses, Pulse, Rejections, within } from './watchers.js'
import type { Span } from './watchers.js'

// What happens to the requests of one process, in three stores that differ in their failure mode, while one master of a
// cluster is lost, or gives slots away.

export const FAULTS = ['kill', 'stop', 'reshard'] as const

export type Fault = (typeof FAULTS)[number]

export interface Scene {
  readonly layout: Layout
  readonly fault: Fault
}

/** What became of the requests of one store. Times are in milliseconds. */
export interface Row extends Scene {
  readonly mode: FailureMode
  /** Before, during and after the outage. */
  readonly rates: readonly [Rate, Rate, Rate]
  /** How long callers waited: 99 in 100 of those of the outage, and any. */
  readonly p99: number
  readonly longest: number
  /** The most of that beyond the deadline, and beyond the time that this process did not come to its work. */
  readonly late: number
  /** Decisions that failed, and those of them that had nothing to do with the lost master. */
  readonly failed: number
  readonly failedElsewhere: number
  /** Units that Redis admitted beyond a quota, that it admitted and lost, and that it counted for nobody. */
  readonly over: number
  readonly lost: number
  readonly vain: number
  /** Units that this process admitted by its own count. */
  readonly local: number
  /** From the fault to the new master, 0 for none, and to the last decision that failed. */
  readonly failover: number
  readonly recovery: number
  /** How long servers did not come to their work meanwhile, for want of a machine. */
  readonly stalled: number
  readonly downs: number
  /** Demands that were not met. */
  readonly problems: readonly string[]
}

interface Rate {
  readonly perSecond: number
  /** Those that Redis answered. */
  readonly redis: number
}

/** Of the clusters that these scenes are played on. */
export const NODE_TIMEOUT = 1000

/** Milliseconds. */
export const DEADLINE = 250
const RECOVERY = NODE_TIMEOUT + 3000
const BEFORE = 2000
const AFTER = 2000
/** Of timers, and of what a caller does with its answer. */
const TICK = 20
/** What is admitted so shortly before a master is lost may not have reached its replica. */
const LAG = 1000
/** Between two probes of a store that is down. */
const PROBES = 1250

/** Decisions a second, for each store. */
export const RATE = 300

/** Partitions on each master, and slots that it gives away. */
const PARTITIONS = 4
const SLOTS = 300

/** These are used up while the fault lasts. */
const one = policy('one', { quota: 90, window: '1h' })
const two = policy('two', { quota: 70, window: '1h' })
/** This is charged before the fault, and then not touched. */
const resting = policy('resting', { quota: 10, window: '1h' })

const MODES: readonly FailureMode[] = ['open', 'closed', 'local']

/** One store, and what it is asked. */
interface Lane {
  readonly mode: FailureMode
  readonly store: RedisStore
  readonly changes: readonly Change[]
  readonly decisions: readonly (readonly Charge[])[]
  /** What was told of charges that were not touched again. */
  readonly rested: readonly Told[]
}

/** What happened to all lanes. */
interface Event {
  readonly scene: Scene
  readonly victim: RedisServer
  readonly touches: (charges: readonly Charge[]) => boolean
  readonly start: number
  /** When the last decision failed, and when that and the fault itself were over. */
  readonly failedAt: number
  readonly overAt: number
  readonly end: number
  /** When the cluster had a new master; 0: never. */
  readonly promoted: number
  /** When servers did not come to their work, and when this process did not. */
  readonly stalls: readonly Span[]
  readonly pauses: readonly Span[]
  readonly rejections: number
}

let scenes = 0

/** Plays a scene, and leaves the cluster whole. */
export async function play(owner: Owner, cluster: RedisCluster, scene: Scene): Promise<readonly Row[]> {
  const { layout, fault } = scene
  await cover(cluster, 'no')
  const masters = await Masters.of(cluster)
  const victim = masters.withSlot(layout === 'one-slot' ? slotOf(layout, '') : 0)
  const name = `scene ${++scenes}`
  const lanes = await Promise.all(
    MODES.map(mode => laneOf(owner, cluster, masters, layout, mode, `${name} ${mode}`))
  )
  await replicated(cluster)
  const pulse = new Pulse(cluster.nodes.filter(node => node !== victim))
  const rejections = new Rejections()
  const pauses = new Pauses()
  const loads = lanes.map(({ store, decisions }) => new Load(store, decisions, RATE))
  for (const watcher of [pulse, rejections, pauses, ...loads]) owner.teardown(() => watcher.stop())

  await sleep(BEFORE)
  const start = performance.now()
  const lastFailure = (): number =>
    Math.max(start, ...loads.map(({ told }) => told.findLast(hasFailed)?.sent ?? start))
  await strike(cluster, masters, victim, fault)
  const struckAt = performance.now()
  await until('an end of failures', () => performance.now() - lastFailure() > 1500, 60_000)
  const failedAt = lastFailure()
  if (fault === 'kill') await victim.restart()
  victim.resume()
  await cluster.settle()
  await sleep(AFTER)
  const end = performance.now()
  const told = await Promise.all(loads.map(load => load.stop()))

  const touches = (charges: readonly Charge[]): boolean =>
    charges.some(({ partition }) => masters.withSlot(slotOf(layout, partition)) === victim)
  const seen: Event = {
    scene,
    victim,
    touches,
    start,
    failedAt,
    overAt: fault === 'reshard' ? Math.max(struckAt, failedAt) : failedAt,
    end,
    stalls: pulse.stop(),
    promoted: pulse.promoted,
    pauses: pauses.stop(),
    rejections: rejections.stop()
  }
  const rows = await Promise.all(lanes.map((lane, i) => judged(lane, told[i]!, seen)))
  for (const { store } of lanes) store.close()
  return rows
}

async function strike(
  cluster: RedisCluster,
  masters: Masters,
  victim: RedisServer,
  fault: Fault
): Promise<void> {
  if (fault === 'kill') return victim.kill()
  if (fault === 'stop') return victim.pause()
  await cluster.reshard(
    SLOTS,
    victim,
    masters.all.find(master => master !== victim)!
  )
}

async function laneOf(
  owner: Owner,
  cluster: RedisCluster,
  masters: Masters,
  layout: Layout,
  mode: FailureMode,
  name: string
): Promise<Lane> {
  const store = await opened(owner, connected(owner, cluster), {
    onFailure: mode,
    cluster: layout,
    deadline: `${DEADLINE}ms`
  })
  const changes = changesOf(owner, store)
  const on = (count: number, what: string): readonly (readonly string[])[] =>
    masters.all.map((master, i) =>
      layout === 'by-partition'
        ? masters.partitions(layout, master, count, `${name} ${what}`)
        : Array.from({ length: count }, (_, j) => `${name} ${what} ${i} ${j}`)
    )
  const [firsts, seconds] = [on(1, 'first'), on(1, 'second')]
  const pairs = firsts.map(([first], i) => [
    charge(one, first!),
    charge(two, seconds[(i + 1) % seconds.length]![0]!)
  ])
  const singles = on(PARTITIONS, 'single')
    .flat()
    .map(partition => [charge(one, partition)])
  const rested: Told[] = []
  for (const [partition] of on(1, 'resting')) rested.push(await ask(store, [charge(resting, partition!, 5)]))
  return { mode, store, changes, decisions: [...singles, ...pairs], rested }
}

const hasFailed = ({ source }: Told): boolean => source !== 'redis'

async function judged(
  { mode, store, changes, rested }: Lane,
  told: readonly Told[],
  event: Event
): Promise<Row> {
  const { scene, touches, start, failedAt, overAt, end, stalls, pauses } = event
  const failures = told.filter(hasFailed)
  const books = await accounts(store, told)
  const sum = (of: (account: Account) => number): number =>
    books.reduce((total, account) => total + Math.max(0, of(account)), 0)
  const waits = told.filter(isSent(start, overAt)).map(({ waited }) => waited)
  const own = told.filter(({ source, allowed }) => source === 'local' && allowed)
  const row = {
    ...scene,
    mode,
    rates: [rate(told, start - BEFORE, start), rate(told, start, overAt), rate(told, overAt, end)] as const,
    p99: waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.99)] ?? 0,
    longest: Math.max(...told.map(({ waited }) => waited)),
    late: Math.max(
      ...told.map(({ sent, waited }) => waited - DEADLINE - within(pauses, sent, sent + waited))
    ),
    failed: failures.length,
    failedElsewhere: failures.filter(({ charges }) => !touches(charges)).length,
    over: sum(({ told, charge }) => told - charge.policy.quota),
    lost: sum(({ told, counted }) => told - counted),
    vain: sum(({ told, counted }) => counted - told),
    local: own.length,
    failover: Math.max(0, event.promoted - start),
    recovery: failedAt - start,
    stalled: within(stalls, start, failedAt),
    downs: changes.filter(({ state }) => state === 'down').length
  }
  const demands = new Demands()
  demands.that(row.late <= TICK, `somebody waited ${row.late.toFixed(0)} ms too long`)
  const inTime = scene.fault === 'reshard' || row.recovery <= RECOVERY + row.stalled
  demands.that(inTime, `recovered after ${row.recovery.toFixed(0)} ms`)
  demands.that(event.rejections === 0, 'unhandled rejections')
  demands.that(failures.every(answersAs(mode)), 'failed otherwise than it should')
  const most = Math.max(0, ...tally(own).values())
  demands.that(most <= one.quota, `counted ${most} here`)
  books.forEach(account => checkAccount(demands, account, told, event))
  checkElsewhere(demands, failures, event)
  checkChanges(demands, changes, event)
  await checkRested(demands, store, rested)
  return { ...row, problems: demands.broken }
}

/** Collects demands that were not met. */
class Demands {
  readonly #broken = new Set<string>()

  get broken(): readonly string[] {
    return [...this.#broken]
  }

  that(met: boolean, otherwise: string): void {
    if (!met) this.#broken.add(otherwise)
  }
}

/** Nothing is told that was not counted, nor more than the quota, but for what a master took with it. */
function checkAccount(
  demands: Demands,
  { charge, told, counted }: Account,
  all: readonly Told[],
  event: Event
): void {
  const { scene, touches, start } = event
  const mayLose = scene.fault !== 'reshard' && touches([charge])
  const late = all
    .filter(isSent(start - LAG, start))
    .filter(({ charges, allowed }) => allowed && charges.some(each => isSame(each, charge))).length
  const loss = mayLose ? late : 0
  demands.that(counted <= charge.policy.quota, `counted ${counted} of ${charge.policy.quota}`)
  demands.that(told - counted <= loss, `lost ${told - counted}`)
  demands.that(told - charge.policy.quota <= loss, `admitted ${told} of ${charge.policy.quota}`)
}

/** Only what has to do with the lost master fails. */
function checkElsewhere(
  demands: Demands,
  failures: readonly Told[],
  { scene, touches, start, stalls }: Event
): void {
  if (scene.fault === 'reshard' || scene.layout === 'one-slot') return
  const unexplained = failures.filter(({ charges, sent }) => !touches(charges) && !isStalled(stalls, sent))
  const times = unexplained.map(({ sent, waited }) => `${(sent - start).toFixed(0)}+${waited.toFixed(0)}`)
  demands.that(times.length === 0, `${times.length} failed elsewhere, at ${times.slice(0, 5).join(' ')}`)
}

/** A node that is lost goes down once and comes up once, and no other does. */
function checkChanges(demands: Demands, changes: readonly Change[], { scene, victim, stalls }: Event): void {
  const lost = changes.findIndex(({ node }) => scene.fault !== 'reshard' && node === nameOf(victim))
  const found = changes.findIndex(
    ({ node, state }, i) => i > lost && node === nameOf(victim) && state === 'up'
  )
  if (scene.fault !== 'reshard') demands.that(lost >= 0 && found > lost, 'was not told of the lost node')
  const others = changes.filter((_, i) => lost < 0 || (i !== lost && i !== found))
  const unexplained = others.filter(({ at, state }) => state !== 'up' && !isStalled(stalls, at))
  demands.that(
    unexplained.length === 0,
    `was told ${unexplained.map(({ state, code, node }) => `${state} ${code} of ${node}`).join(', ')}`
  )
}

/** What was at rest is neither lost nor counted twice. */
async function checkRested(demands: Demands, store: RedisStore, rested: readonly Told[]): Promise<void> {
  const counts = (await accounts(store, rested)).map(({ counted }) => counted)
  demands.that(
    rested.every(({ allowed }) => allowed) && counts.every(count => count === 5),
    `of 5 at rest, ${counts.join(', ')}`
  )
}

const answersAs =
  (mode: FailureMode) =>
  ({ source, allowed, retryAfter }: Told): boolean => {
    if (source !== mode) return false
    if (mode === 'closed') return !allowed && retryAfter! >= 0 && retryAfter! <= PROBES
    return mode === 'local' || allowed
  }

/** Decisions by their first policy and partition. */
function tally(told: readonly Told[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { charges } of told) {
    const { partition } = charges[0]!
    counts.set(partition, (counts.get(partition) ?? 0) + 1)
  }
  return counts
}

const isSame = (one: Charge, other: Charge): boolean =>
  one.policy === other.policy && one.partition === other.partition

const isSent =
  (from: number, to: number) =>
  ({ sent }: Told): boolean =>
    sent >= from && sent < to

function rate(told: readonly Told[], from: number, to: number): Rate {
  const sent = told.filter(isSent(from, to))
  const perSecond = (count: number): number => (to > from ? (count / (to - from)) * 1000 : 0)
  return { perSecond: perSecond(sent.length), redis: perSecond(sent.filter(told => !hasFailed(told)).length) }
}

/** Whether something at a time may come of a stall. */
const isStalled = (stalls: readonly Span[], at: number): boolean =>
  stalls.some(({ from, to }) => at > from - DEADLINE && at < to + PROBES)
