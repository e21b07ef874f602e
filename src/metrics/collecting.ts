import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Registry } from 'prom-client'
import type { Decision } from '../decision.js'
import type { Quota } from '../quota.js'
import { CALL_CHANNEL, DECISION_CHANNEL, SETTLEMENT_CHANNEL, STORE_CHANNEL } from '../store.js'
import type { MemoryUse, Settled, Store, StoreCall, StoreChange } from '../store.js'
import { Counting } from './counting.js'
import { Downtime } from './downtime.js'
import { createSeries } from './series.js'
import type { Prom, Readings } from './series.js'

/** By register: two apps with one register are one collection, and nothing is counted twice. */
const collections = new WeakMap<Registry, Collection>()

/** Counts for one more app. Returns the function that ends that: after the last app, the metrics are gone. */
export function collect(prom: Prom, register: Registry, quota: Quota): () => void {
  const collection = collections.get(register) ?? new Collection(prom, register)
  collections.set(register, collection)
  collection.add(quota)
  return () => {
    if (!collection.remove(quota)) return
    collection.close()
    collections.delete(register)
  }
}

/** What is told of a decision. */
interface Decided {
  readonly decision: Decision
  readonly store: Store
}

/** What is told on each channel. */
interface Channels {
  readonly [DECISION_CHANNEL]: Decided
  readonly [SETTLEMENT_CHANNEL]: Settled
  readonly [CALL_CHANNEL]: StoreCall
  readonly [STORE_CHANNEL]: StoreChange
}

/** The metrics of one register, of all apps that have registered them there. */
class Collection implements Readings {
  readonly #register: Registry
  readonly #names: readonly string[]
  readonly #quotas: Quota[] = []
  readonly #downtime = new Downtime(() => performance.now())
  readonly #listeners: readonly (readonly [channel: string, listen: (told: unknown) => void])[]

  constructor(prom: Prom, register: Registry) {
    const { series, names } = createSeries(prom, register, this)
    const counting = new Counting(series)
    this.#register = register
    this.#names = names
    this.#listeners = [
      this.#listener(DECISION_CHANNEL, ({ decision }) => counting.decided(decision)),
      this.#listener(SETTLEMENT_CHANNEL, settled => counting.settled(settled)),
      this.#listener(CALL_CHANNEL, call => counting.called(call)),
      this.#listener(STORE_CHANNEL, change => {
        this.#watchTime()
        counting.changed(change)
      })
    ]
    for (const [channel, listen] of this.#listeners) subscribe(channel, listen)
  }

  add(quota: Quota): void {
    this.#quotas.push(quota)
    this.#watchTime()
  }

  /** Whether it was the last one. */
  remove(quota: Quota): boolean {
    this.#quotas.splice(this.#quotas.indexOf(quota), 1)
    this.#watchTime()
    return this.#quotas.length === 0
  }

  close(): void {
    for (const [channel, listen] of this.#listeners) unsubscribe(channel, listen)
    for (const name of this.#names) this.#register.removeSingleMetric(name)
  }

  leases(): ReadonlyMap<string, number> {
    const leases = new Map<string, number>()
    for (const quota of new Set(this.#quotas)) {
      for (const [policy, units] of Object.entries(quota.held())) {
        leases.set(policy, (leases.get(policy) ?? 0) + units)
      }
    }
    return leases
  }

  down(): boolean {
    return this.#stores.some(({ down }) => down === true)
  }

  secondsDown(): number {
    return this.#downtime.total / 1000
  }

  use(): MemoryUse {
    const uses = this.#stores.flatMap(({ use }) => use ?? [])
    const sum = (of: keyof MemoryUse): number => uses.reduce((total, use) => total + use[of], 0)
    return {
      partitions: sum('partitions'),
      bytes: sum('bytes'),
      evicted: sum('evicted'),
      shared: sum('shared')
    }
  }

  get #stores(): readonly Store[] {
    return [...new Set(this.#quotas.map(({ store }) => store))]
  }

  /** Counts what a channel tells of the stores of these apps, and nothing of others in this process. */
  #listener<Channel extends keyof Channels>(
    channel: Channel,
    count: (told: Channels[Channel]) => void
  ): readonly [string, (told: unknown) => void] {
    const listen = (message: unknown): void => {
      const told = message as Channels[Channel]
      if (this.#quotas.some(({ store }) => store === told.store)) count(told)
    }
    return [channel, listen]
  }

  #watchTime(): void {
    if (this.down()) this.#downtime.start()
    else this.#downtime.stop()
  }
}
