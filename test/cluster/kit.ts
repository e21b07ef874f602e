import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import calculateSlot from 'cluster-key-slot'
import { Cluster } from 'ioredis'
import type { ClusterOptions as ClientOptions } from 'ioredis'
import { compilePolicy } from '../../src/policy.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import { STORE_CHANNEL } from '../../src/store.js'
import type { Charge, Source, Store, StoreChange } from '../../src/store.js'
import { redisStore } from '../../src/stores/redis.js'
import type { RedisStore, RedisStoreOptions } from '../../src/stores/redis.js'
import type { RedisClient } from '../../src/stores/redis/client.js'
import { Keys } from '../../src/stores/redis/keys.js'
import { startCluster } from '../redis/servers.js'
import type { ClusterOptions, Owner, RedisCluster, RedisServer } from '../redis/servers.js'

/** How partitions lie on a cluster. */
export type Layout = NonNullable<RedisStoreOptions['cluster']>

export const LAYOUTS: readonly Layout[] = ['by-partition', 'one-slot']

const SECRET = 'for tests only, 32 bytes or more'

export const policy = (name: string, options: PolicyOptions): QuotaPolicy => compilePolicy(name, options, [])

export const charge = (policy: QuotaPolicy, partition: string, units: number = 1): Charge => ({
  partition,
  policy,
  units
})

type Wishes = Pick<ClientOptions, 'enableAutoPipelining' | 'natMap'>

/** A client as an application has it. */
export function connected(owner: Owner, cluster: RedisCluster, options: Wishes = {}): Cluster {
  const client = new Cluster(
    cluster.nodes.map(({ host, port }) => ({ host, port })),
    options
  )
  client.on('error', () => {})
  owner.teardown(() => client.disconnect())
  return client
}

/** A store that has time, unless a test says otherwise: it is not the machine that is tested. */
export async function opened(
  owner: Owner,
  client: RedisClient,
  options: Partial<RedisStoreOptions> = {}
): Promise<RedisStore> {
  const store = redisStore(client, { onFailure: 'closed', secret: SECRET, deadline: '10s', ...options })
  owner.teardown(() => store.close())
  await store.open()
  return store
}

/** The keys of the stores that {@link opened} makes. */
export const keysOf = (layout: Layout): Keys => new Keys(SECRET, 'q1', layout === 'one-slot')

export const slotOf = (layout: Layout, partition: string): number =>
  calculateSlot(keysOf(layout).of(partition))

type SlotRange = readonly [from: number, to: number, master: RedisServer]

/** The masters of a cluster, and which slots each has. */
export class Masters {
  readonly all: readonly RedisServer[]
  readonly #ranges: readonly SlotRange[]

  private constructor(ranges: readonly SlotRange[]) {
    this.#ranges = ranges
    this.all = [...new Set(ranges.map(([, , master]) => master))]
  }

  static async of(cluster: RedisCluster): Promise<Masters> {
    const asked = cluster.nodes.find(({ running }) => running)!
    const lines = (await asked.command('CLUSTER', 'NODES')).split('\n')
    const ranges = lines.flatMap(line => {
      const [, address, , , , , , , ...slots] = line.trim().split(' ')
      const master = cluster.nodes.find(({ port }) => address?.startsWith(`127.0.0.1:${port}@`) === true)!
      return slots.map((range): SlotRange => {
        const [from, to = from] = range.split('-').map(Number)
        return [from!, to!, master]
      })
    })
    return new Masters(ranges)
  }

  withSlot(slot: number): RedisServer {
    return this.#ranges.find(([from, to]) => from <= slot && slot <= to)![2]
  }

  /** Names of partitions, in turn: so many that this master counts. */
  partitions(layout: Layout, master: RedisServer, count: number, name: string): readonly string[] {
    const names: string[] = []
    for (let i = 0; names.length < count && i < 10_000; i++) {
      const partition = `${name} ${i}`
      if (this.withSlot(slotOf(layout, partition)) === master) names.push(partition)
    }
    return names
  }
}

/** Lets a cluster go on with the slots it has when some are lost, or not, as it does unless told otherwise. */
export async function cover(cluster: RedisCluster, allSlots: 'yes' | 'no'): Promise<void> {
  const tell = (node: RedisServer): Promise<string> =>
    node.command('CONFIG', 'SET', 'cluster-require-full-coverage', allSlots)
  await Promise.all(cluster.nodes.filter(({ running }) => running).map(tell))
}

/** Waits until all replicas have what their masters have, and clients can learn of them, whichever node they ask. */
export async function replicated(cluster: RedisCluster): Promise<void> {
  await until('replicas with all there is', async () => {
    const infos = await Promise.all(cluster.nodes.map(node => node.command('INFO', 'replication')))
    const lists = await Promise.all(cluster.nodes.map(node => node.command('CLUSTER', 'SLOTS')))
    return (
      cluster.nodes.every(({ port }) => lists.every(listed => listed.includes(String(port)))) &&
      infos.every(info => {
        const offset = /^master_repl_offset:(\d+)/m.exec(info)?.[1]
        const [, replica] = /^slave0:.*offset=(\d+)/m.exec(info) ?? []
        return replica === undefined || replica === offset
      })
    )
  })
}

/** Starts a cluster whose replicas clients can learn of: they are not told of those that have never had anything. */
export async function started(owner: Owner, options?: ClusterOptions): Promise<RedisCluster> {
  const cluster = await startCluster(owner, options)
  const masters = await Masters.of(cluster)
  const keys = Array.from({ length: 1000 }, (_, i) => `used ${i}`)
  for (const master of masters.all) {
    const key = keys.find(key => masters.withSlot(calculateSlot(key)) === master)!
    await master.command('SET', key, '1')
  }
  await replicated(cluster)
  return cluster
}

export interface Change extends Omit<StoreChange, 'store'> {
  /** In milliseconds of `performance.now()`. */
  readonly at: number
}

/** What a store tells of itself from now on. */
export function changesOf(owner: Owner, store: Store): readonly Change[] {
  const changes: Change[] = []
  const listen = (message: unknown): void => {
    const { store: teller, ...change } = message as StoreChange
    if (teller === store) changes.push({ ...change, at: performance.now() })
  }
  subscribe(STORE_CHANNEL, listen)
  owner.teardown(() => unsubscribe(STORE_CHANNEL, listen))
  return changes
}

export const nameOf = ({ host, port }: RedisServer): string => `${host}:${port}`

/** What one decision came to. Times are in milliseconds of `performance.now()`. */
export interface Told {
  readonly charges: readonly Charge[]
  readonly sent: number
  readonly waited: number
  readonly source: Source
  readonly allowed: boolean
  readonly retryAfter: number | undefined
}

export async function ask(store: Store, charges: readonly Charge[]): Promise<Told> {
  const sent = performance.now()
  const { source, limits, retryAfter } = await store.consume(charges)
  const allowed = source !== 'closed' && limits.every(limit => limit.allowed)
  return { charges, sent, waited: performance.now() - sent, source, allowed, retryAfter }
}

/** Asks a store so many times a second, in turn about each of some decisions, whatever comes of it. */
export class Load {
  readonly told: Told[] = []
  readonly #store: Store
  readonly #decisions: readonly (readonly Charge[])[]
  readonly #running: Promise<void>
  readonly #pending = new Set<Promise<unknown>>()
  #stopped = false

  constructor(store: Store, decisions: readonly (readonly Charge[])[], perSecond: number) {
    this.#store = store
    this.#decisions = decisions
    this.#running = this.#run(perSecond / 1000)
  }

  /** Ends when all that was asked is answered. */
  async stop(): Promise<readonly Told[]> {
    this.#stopped = true
    await this.#running
    await Promise.all(this.#pending)
    return this.told
  }

  async #run(perMillisecond: number): Promise<void> {
    let due = 0
    let asked = 0
    for (let last = performance.now(); !this.#stopped; await sleep(4)) {
      const now = performance.now()
      // A process that stood still does not make up for it: that would be a storm.
      due += Math.min(now - last, 50) * perMillisecond
      last = now
      for (; asked < due; asked++) this.#ask(this.#decisions[asked % this.#decisions.length]!)
    }
  }

  #ask(charges: readonly Charge[]): void {
    const asking = ask(this.#store, charges).then(told => {
      this.told.push(told)
      this.#pending.delete(asking)
    })
    this.#pending.add(asking)
  }
}

/** What became of the quota of one policy for one partition. */
export interface Account {
  readonly charge: Charge
  /** Units that the store has told were admitted. */
  readonly told: number
  /** Units that the store has. */
  readonly counted: number
}

/** Compares what a store has told with what it has. All windows have to be longer than the test. */
export async function accounts(store: Store, told: readonly Told[]): Promise<readonly Account[]> {
  const sums = new Map<string, { readonly charge: Charge; units: number }>()
  for (const { charges, source, allowed } of told) {
    for (const charge of charges) {
      const name = `${charge.policy.name} ${charge.partition}`
      const sum = sums.get(name) ?? { charge, units: 0 }
      sums.set(name, sum)
      if (source === 'redis' && allowed) sum.units += charge.units
    }
  }
  const all = [...sums.values()]
  const limits = await until('an answer about all', async () => {
    const { source, limits } = await store.peek(all.map(({ charge }) => charge))
    return source === 'redis' && limits.length === all.length && limits
  })
  return all.map(({ charge, units }, i) => {
    const counted = charge.policy.quota - limits[i]!.remaining
    return { charge, told: units, counted }
  })
}

/** Waits for a value that is neither false nor missing; not for ever. */
export async function until<T>(
  what: string,
  look: () => T | false | undefined | Promise<T | false | undefined>,
  patience: number = 30_000
): Promise<T> {
  for (const end = performance.now() + patience; performance.now() < end; await sleep(20)) {
    const value = await look()
    if (value !== undefined && value !== false) return value
  }
  throw new Error(`waited in vain for ${what}`)
}
