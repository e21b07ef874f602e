import { createHmac, randomBytes } from 'node:crypto'
import { EMPTY } from '../algorithm.js'
import type { Receipt, State, Step } from '../algorithm.js'
import type { QuotaPolicy } from '../policy.js'
import { FST_QUOTA_OPTION } from '../errors.js'
import { asInteger, asObject, knownKeys, refuser, show } from '../options.js'
import type { Answer, Charge, Lease, Place, ServiceLimit, Settlement, Store } from '../store.js'
import { warnFull } from '../warnings.js'

export interface MemoryStoreOptions {
  /** Partitions held at most, 1 or more; default 100 000. When full, one is forgotten for each new one. */
  readonly maxPartitions?: number
}

/** Milliseconds since the epoch that no clock step disturbs. */
export const monotonic = (): number => Math.floor(performance.timeOrigin + performance.now())

/**
 * Counts in this process. Answers at once.
 * @throws FST_QUOTA_OPTION for a wrong option.
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const refuse = refuser(FST_QUOTA_OPTION, 'memoryStore')
  const { maxPartitions = 100_000, ...rest } = asObject(refuse, 'options', options)
  if (rest['maxBytes'] !== undefined) refuse(`maxBytes is not supported yet, got ${show(rest['maxBytes'])}`)
  knownKeys(refuse, rest, ['maxPartitions'], {
    max: 'maxPartitions',
    size: 'maxPartitions',
    cache: 'maxPartitions'
  })
  return new MemoryStore(asInteger(refuse, 'maxPartitions', maxPartitions, 1, 2 ** 24 - 1))
}

/** What one partition has spent: a state for each policy that counts it. */
interface Partition {
  readonly key: string
  /** By the policy's slot. */
  readonly states: State[]
  /** When the last of its states says nothing any more; 0: none says anything. */
  end: number
  /** When each of its policies has something left again. */
  spentUntil: number
  /** The last call that touched it. */
  call: number
}

const SWEEP_EVERY = 1000
const SWEEP_AT_ONCE = 4096
const EVICTION_SAMPLE = 16

/** A {@link Store} in memory: one record for each partition, expired lazily and by a sweep in small steps. */
export class MemoryStore implements Store {
  readonly #maxPartitions: number
  readonly #partitions = new Map<string, Partition>()
  readonly #slots = new Map<string, number>()
  /** This process shares its quota with nobody, so its own secret does. */
  readonly #secret = randomBytes(32)
  #sweeper: NodeJS.Timeout | undefined
  #users = 0
  #clock = monotonic
  #hand: Iterator<Partition, undefined> = this.#partitions.values()
  #call = 0
  #full = false

  /** Use {@link memoryStore}, which checks its options. */
  constructor(maxPartitions: number) {
    this.#maxPartitions = maxPartitions
  }

  /** Begins to sweep. An app does this as it starts: a timer keeps alive the async context it was made in. */
  open(): void {
    this.#users++
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_EVERY).unref()
  }

  /** Partitions held, expired ones that were not swept yet included. */
  get size(): number {
    return this.#partitions.size
  }

  /** Counts by another clock from now on: milliseconds, integers of 0 or more. */
  useClock(clock: () => number): void {
    this.#clock = clock
  }

  expect({ batch }: QuotaPolicy): string | undefined {
    return batch === 0
      ? undefined
      : `batch is for redisStore: this process asks nobody, got { max: ${batch} }`
  }

  label(text: string): Uint8Array {
    return createHmac('sha256', this.#secret).update(text, 'utf16le').digest().subarray(0, 16)
  }

  consume(charges: readonly Charge[]): Answer {
    const now = this.#clock()
    const partitions = this.#open(charges)
    const steps = charges.map(({ policy, units }, i) => this.#step(partitions[i]!, policy, now, units))
    const refused = charges.some(({ policy }, i) => !policy.shadow && !steps[i]!.allowed)
    const limits: ServiceLimit[] = []
    for (let i = 0; i < charges.length; i++) {
      const { policy, units } = charges[i]!
      // What has room itself is answered as it stands without the charge.
      const step = refused && steps[i]!.allowed ? this.#step(partitions[i]!, policy, now, 0) : steps[i]!
      // A refusal is written too: time alone may have changed the state, above all when it went back.
      this.#write(partitions[i]!, policy, now, step)
      const charged = !refused && step.allowed ? units : 0
      limits.push(serviceLimit(policy, step, units, receipts(policy, now, charged)))
    }
    return { limits, source: 'memory' }
  }

  settle(settlements: readonly Settlement[]): Answer {
    const now = this.#clock()
    const partitions = this.#open(settlements)
    const limits = settlements.map(({ policy, charges, actual }, i) => {
      const partition = partitions[i]!
      const state = this.#state(partition, policy)
      const surplus = total(charges) - actual
      // A receipt of units that were dropped would take back those of others.
      const more = surplus < 0 ? Math.min(-surplus, policy.algorithm.room(state, policy.params, now)) : 0
      const next = settled(state, policy, now, charges, surplus < 0 ? -more : surplus)
      const step = policy.algorithm.step(next, policy.params, now, 0)
      this.#write(partition, policy, now, step)
      return serviceLimit(policy, step, 0, receipts(policy, now, more))
    })
    return { limits, source: 'memory' }
  }

  renew(leases: readonly Lease[]): readonly (readonly Receipt[])[] {
    const now = this.#clock()
    const partitions = this.#open(leases)
    const touched = new Map<Partition, Set<QuotaPolicy>>()
    const receipts = leases.map(({ policy, charges }, i) => {
      const partition = partitions[i]!
      touched.set(partition, (touched.get(partition) ?? new Set()).add(policy))
      return charges.flatMap(charge => {
        const renewed = policy.algorithm.renew!(this.#state(partition, policy), policy.params, now, charge)
        this.#keep(partition, policy, renewed.state)
        return renewed.charge.units === 0 ? [] : [renewed.charge]
      })
    })
    for (const [partition, policies] of touched) {
      for (const policy of policies)
        this.#write(partition, policy, now, this.#step(partition, policy, now, 0))
    }
    return receipts
  }

  peek(charges: readonly Place[]): Answer {
    const now = this.#clock()
    const limits = charges.map(({ partition, policy }) => {
      const known = this.#partitions.get(partition)
      const state = known === undefined ? EMPTY : this.#state(known, policy)
      return serviceLimit(policy, policy.algorithm.step(state, policy.params, now, 0), 0, NO_CHARGES)
    })
    return { limits, source: 'memory' }
  }

  reset(charges: readonly Place[]): void {
    for (const { partition, policy } of charges) {
      const known = this.#partitions.get(partition)
      if (known !== undefined) this.#keep(known, policy, EMPTY)
    }
  }

  close(): void {
    this.#users = Math.max(0, this.#users - 1)
    if (this.#users > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  /** The records of the partitions of one call. A new one is held at once, and swept if nothing is written to it. */
  #open(charges: readonly { readonly partition: string }[]): readonly Partition[] {
    const call = ++this.#call
    let last: Partition | undefined
    return charges.map(({ partition }) => {
      if (last?.key !== partition) last = this.#find(partition, call)
      return last
    })
  }

  #find(key: string, call: number): Partition {
    const known = this.#partitions.get(key)
    if (known === undefined) return this.#hold(key, call)
    known.call = call
    return known
  }

  #hold(key: string, call: number): Partition {
    if (this.#partitions.size >= this.#maxPartitions) this.#evict(call)
    const partition: Partition = { key, states: [], end: 0, spentUntil: 0, call }
    this.#partitions.set(key, partition)
    return partition
  }

  #slot(policy: QuotaPolicy): number {
    const known = this.#slots.get(policy.field)
    if (known !== undefined) return known
    const slot = this.#slots.size
    this.#slots.set(policy.field, slot)
    return slot
  }

  #state(partition: Partition, policy: QuotaPolicy): State {
    return partition.states[this.#slot(policy)] ?? EMPTY
  }

  #step(partition: Partition, policy: QuotaPolicy, now: number, units: number): Step {
    return policy.algorithm.step(this.#state(partition, policy), policy.params, now, units)
  }

  #write(partition: Partition, policy: QuotaPolicy, now: number, step: Step): void {
    const { state, remaining, effectiveWindow, ttl } = step
    partition.end = Math.max(partition.end, now + ttl)
    if (remaining === 0) {
      // Where nobody knows when something is left again, it is when nothing is counted any more.
      partition.spentUntil = Math.max(partition.spentUntil, now + (effectiveWindow || ttl))
    }
    this.#keep(partition, policy, state)
  }

  /** Keeps a state. A partition all of whose charges were given back or forgotten is one that may go. */
  #keep(partition: Partition, policy: QuotaPolicy, state: State): void {
    const slot = this.#slot(policy)
    while (partition.states.length < slot) partition.states.push(EMPTY)
    partition.states[slot] = state
    if (state.length > 0 || partition.states.some(({ length }) => length > 0)) return
    partition.end = 0
    partition.spentUntil = 0
  }

  /** Makes room for one: what has expired, else of a few one that has something left, that which would expire first. */
  #evict(call: number): void {
    const now = this.#clock()
    let victim: Partition | undefined
    for (let seen = 0; seen < EVICTION_SAMPLE; seen++) {
      const partition = this.#advance()
      if (partition === undefined || partition.call === call) continue
      if (victim === undefined || goesBefore(partition, victim, now)) victim = partition
      if (partition.end <= now) break
    }
    if (victim === undefined) return
    this.#partitions.delete(victim.key)
    if (victim.end <= now || this.#full) return
    this.#full = true
    warnFull(this.#maxPartitions)
  }

  /**
   * Drops what has expired, a few thousand partitions in one go, until a quarter of all were met that have not, or the
   * round is over: what expires together goes together, and what lives is looked at every few seconds.
   */
  #sweep(budget: number = this.#partitions.size / 4): void {
    const now = this.#clock()
    let living = 0
    for (let seen = 0; seen < SWEEP_AT_ONCE; seen++) {
      const partition = this.#advance()
      if (partition === undefined) return
      if (partition.end <= now) this.#partitions.delete(partition.key)
      else living++
    }
    if (budget > living) setImmediate(() => this.#sweep(budget - living)).unref()
  }

  /** The next partition in the order they were made, round and round; `undefined` once a round and when there is none. */
  #advance(): Partition | undefined {
    const { value, done } = this.#hand.next()
    if (done !== true) return value
    this.#hand = this.#partitions.values()
    return undefined
  }
}

const NO_CHARGES: readonly Receipt[] = Object.freeze([])

/** Who has nothing left is forgotten last, or inventing others would get them their quota back. */
function goesBefore(one: Partition, other: Partition, now: number): boolean {
  const spent = one.spentUntil > now
  return spent === other.spentUntil > now ? one.end < other.end : !spent
}

function serviceLimit(
  policy: QuotaPolicy,
  step: Step,
  units: number,
  charges: readonly Receipt[]
): ServiceLimit {
  const { allowed, remaining, effectiveWindow, retryAfter, delay } = step
  return { policy, units, allowed, remaining, effectiveWindow, retryAfter, delay, charges }
}

/** The receipts of what was charged now. */
function receipts({ algorithm, params }: QuotaPolicy, now: number, units: number): readonly Receipt[] {
  return units > 0 ? [{ at: algorithm.receiptAt?.(params, now) ?? now, units }] : NO_CHARGES
}

/** A surplus is taken back from the latest receipt first, at most its units; a shortfall is charged at once. */
function settled(
  state: State,
  { algorithm, params }: QuotaPolicy,
  now: number,
  charges: readonly Receipt[],
  surplus: number
): State {
  if (surplus < 0) return algorithm.settle(state, params, now, { at: now, units: 0 }, -surplus)
  let next = state
  let left = surplus
  for (let i = charges.length - 1; i >= 0 && left > 0; i--) {
    const charge = charges[i]!
    const back = Math.min(left, charge.units)
    next = algorithm.settle(next, params, now, charge, charge.units - back)
    left -= back
  }
  return next
}

function total(charges: readonly Receipt[]): number {
  return charges.reduce((sum, charge) => sum + charge.units, 0)
}
