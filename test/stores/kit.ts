import type { Receipt } from '../../src/algorithm.js'
import { whenKnown } from '../../src/later.js'
import type { Later } from '../../src/later.js'
import { compilePolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { Answer, Charge, Lease, Place, ServiceLimit, Settlement } from '../../src/store.js'
import type { BatchingStore } from '../../src/stores/batches.js'
import { StoreFailure, withoutEffect } from '../../src/stores/guard/failure.js'
import { memoryStore } from '../../src/stores/memory.js'
import type { MemoryStore } from '../../src/stores/memory.js'
import type { Purchase } from '../../src/stores/redis/command.js'

type Attempted<T> = Later<T | StoreFailure>

export const policy = (name: string, options: PolicyOptions): QuotaPolicy => compilePolicy(name, options, [])

export const charge = (policy: QuotaPolicy, units: number = 1, partition: string = 'p'): Charge => ({
  partition,
  policy,
  units
})

export const place = (policy: QuotaPolicy, partition: string = 'p'): Place => ({ partition, policy })

export const allowed = ({ limits }: Answer): readonly boolean[] => limits.map(({ allowed }) => allowed)

export const remaining = ({ limits }: Answer): readonly number[] => limits.map(({ remaining }) => remaining)

export const named = ({ limits }: Answer): readonly string[] => limits.map(({ policy }) => policy.name)

export const receipts = ({ limits }: Answer): readonly Receipt[] => limits.flatMap(({ charges }) => charges)

export const total = (charges: readonly Receipt[]): number =>
  charges.reduce((sum, { units }) => sum + units, 0)

/** Whether all who have a say admit it. */
export const isAdmitted = ({ limits, source }: Answer): boolean =>
  source !== 'closed' && limits.every(({ allowed, policy }) => allowed || policy.shadow)

/** Refuses always. */
const REFUSING = policy('refusing', { quota: 0, window: 1 })

/**
 * A store that other processes share and that cannot always be asked: a real one in memory, and a way to it that a test
 * closes. It buys ahead and rehearses as one in Redis does.
 */
export class SharedStore implements BatchingStore {
  readonly memory: MemoryStore
  /** The calls it was asked, those that failed included. */
  readonly calls: string[] = []
  /** What the charges of each call to `consume` wanted. */
  readonly purchases: (readonly Purchase[])[] = []
  /** `down`: it is not asked; `slow`: it is, but what it answers comes too late for whoever asks. */
  state: 'up' | 'down' | 'slow' = 'up'
  /** What is answered while it is down. */
  failure: StoreFailure = withoutEffect('DOWN', 250)
  /** Whether its answers have to be waited for. */
  later = false
  readonly #onTheWay: (() => void)[] = []

  /** Another way to the same counts, if `memory` is that of another one. */
  constructor(clock: () => number, memory: MemoryStore = memoryStore()) {
    this.memory = memory
    this.memory.useClock(clock)
  }

  consume(charges: readonly Purchase[], late: (answer: Answer) => void): Attempted<Answer> {
    this.purchases.push(charges)
    if (this.state === 'slow') this.#onTheWay.push(() => late(this.#charge(charges)))
    return this.#ask('consume', () => this.#charge(charges))
  }

  /** What it would say if others refused. */
  rehearse(charges: readonly Charge[]): Attempted<Answer> {
    return this.#ask('rehearse', () => {
      const { limits } = this.memory.consume([...charges, charge(REFUSING)])
      return { limits: limits.slice(0, -1), source: 'redis' }
    })
  }

  settle(settlements: readonly Settlement[]): Attempted<Answer> {
    return this.#ask('settle', () => fromThere(this.memory.settle(settlements)))
  }

  renew(leases: readonly Lease[]): Attempted<readonly (readonly Receipt[])[]> {
    return this.#ask('renew', () => this.memory.renew(leases))
  }

  peek(places: readonly Place[]): Attempted<Answer> {
    return this.#ask('peek', () => fromThere(this.memory.peek(places)))
  }

  reset(places: readonly Place[]): Attempted<void> {
    return this.#ask<void>('reset', () => this.memory.reset(places))
  }

  /** What was on the way while it was slow arrives, is done, and is answered late. */
  arrive(): void {
    for (const work of this.#onTheWay.splice(0)) work()
  }

  /** Units that are counted there. */
  used(policy: QuotaPolicy, partition?: string): number {
    return policy.capacity - this.memory.peek([place(policy, partition)]).limits[0]!.remaining
  }

  #charge(charges: readonly Purchase[]): Answer {
    const { limits } = this.memory.consume(charges)
    return { limits: limits.map((limit, i) => this.#buyAhead(charges[i]!, limit)), source: 'redis' }
  }

  #buyAhead({ ahead = 0, shares = 1, ...charge }: Purchase, limit: ServiceLimit): ServiceLimit {
    const [receipt] = limit.charges
    const units = Math.min(ahead, Math.floor(limit.remaining / shares))
    if (receipt === undefined || units <= 0) return limit
    const [bought] = this.memory.consume([{ ...charge, units }]).limits
    return { ...bought!, units: limit.units, charges: [{ at: receipt.at, units: receipt.units + units }] }
  }

  #ask<T>(call: string, answer: () => T): Attempted<T> {
    this.calls.push(call)
    const result = this.state === 'up' ? answer() : this.#failed()
    return this.later ? whenKnown(Promise.resolve(), () => result) : result
  }

  #failed(): StoreFailure {
    return this.state === 'slow' ? new StoreFailure('TIMEOUT') : this.failure
  }
}

const fromThere = (answer: Answer): Answer => ({ ...answer, source: 'redis' })
