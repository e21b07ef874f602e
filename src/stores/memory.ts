import { createHmac, randomBytes } from 'node:crypto'
import { EMPTY } from '../algorithm.js'
import type { Receipt, State, Step } from '../algorithm.js'
import type { QuotaPolicy } from '../policy.js'
import { FST_QUOTA_OPTION } from '../errors.js'
import { asInteger, asObject, knownKeys, refuser } from '../options.js'
import type { Answer, Charge, Lease, MemoryUse, Place, ServiceLimit, Settlement, Store } from '../store.js'
import { fullWarning } from '../warnings.js'
import type { Cells } from './memory/cells.js'
import { Partitions, SHARED_ROW } from './memory/partitions.js'
import type { Bounds } from './memory/partitions.js'
import { NO_ROW } from './memory/rows.js'

export interface MemoryStoreOptions {
  /**
   * Partitions held at most, 1 or more; default 100 000. When full, it forgets for each new one what has expired, else
   * somebody who has at least half of every quota left; if there is nobody, newcomers share one quota.
   */
  readonly maxPartitions?: number
  /**
   * Bytes, as estimated, from which on there is no room for newcomers; 1024 or more; default: none. What those who are held
   * have counted may grow beyond it, above all in exact logs.
   */
  readonly maxBytes?: number
}

/** Milliseconds since the epoch that no clock step disturbs. */
export const monotonic = (): number => Math.floor(ORIGIN + performance.now())

const ORIGIN = performance.timeOrigin

/**
 * Counts in this process. Answers at once.
 * @throws FST_QUOTA_OPTION for a wrong option.
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const refuse = refuser(FST_QUOTA_OPTION, 'memoryStore')
  const known = asObject(refuse, 'options', options)
  knownKeys(refuse, known, ['maxPartitions', 'maxBytes'], {
    max: 'maxPartitions',
    size: 'maxPartitions',
    cache: 'maxPartitions'
  })
  const { maxPartitions = 100_000, maxBytes } = known
  return new MemoryStore({
    partitions: asInteger(refuse, 'maxPartitions', maxPartitions, 1, 2 ** 24 - 1),
    bytes: maxBytes === undefined ? Infinity : asInteger(refuse, 'maxBytes', maxBytes, 1024, 2 ** 40)
  })
}

const SWEEP_EVERY = 1000

/** A {@link Store} in memory: expired lazily and by a sweep in small steps. */
export class MemoryStore implements Store {
  readonly name: string = 'memory'
  readonly #partitions: Partitions
  /** Receipts of what is counted in the row that newcomers share. */
  readonly #shared = new WeakSet<Receipt>()
  /** This process shares its quota with nobody, so its own secret does. */
  readonly #secret = randomBytes(32)
  /** Of the call that is being answered. */
  readonly #rows: number[] = []
  /** Of the decision that was made last, and its policies: those of the next one are often the same. */
  readonly #cells: Cells[] = []
  readonly #policies: QuotaPolicy[] = []
  #sweeper: NodeJS.Timeout | undefined
  #users = 0
  #clock = monotonic

  /** Use {@link memoryStore}, which checks its options. */
  constructor(bounds: Bounds) {
    const full = fullWarning()
    this.#partitions = new Partitions(bounds, () => full(String(this.size)))
  }

  /** Begins to sweep. An app does this as it starts: a timer keeps alive the async context it was made in. */
  open(): void {
    this.#users++
    this.#sweeper ??= setInterval(() => this.#partitions.sweep(this.#clock), SWEEP_EVERY).unref()
  }

  /** Partitions held, expired ones that were not swept yet included. */
  get size(): number {
    return this.#partitions.size
  }

  /** How full it is, and what did not fit, since it was made. */
  get use(): MemoryUse {
    const { size, bytes, forgotten } = this.#partitions
    return { partitions: size, bytes, ...forgotten }
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
    const { length } = charges
    const rows = this.#rowsOf(charges, now)
    const states = new Array<State>(length)
    const steps = new Array<Step>(length)
    let refused = false
    for (let i = 0; i < length; i++) {
      const { policy, units } = charges[i]!
      const state = this.#cellsAt(i, policy).read(rows[i]!)
      const step = policy.algorithm.step(state, policy.params, now, units)
      states[i] = state
      steps[i] = step
      if (!step.allowed && !policy.shadow) refused = true
    }
    const limits = new Array<ServiceLimit>(length)
    for (let i = 0; i < length; i++) {
      const { policy, units } = charges[i]!
      const row = rows[i]!
      const tried = steps[i]!
      const charged = !refused && tried.allowed ? units : 0
      // What has room itself is answered as it stands without the charge.
      const step = tried.allowed && charged < units ? this.#step(row, policy, now, 0) : tried
      const cells = this.#cellsAt(i, policy)
      // Time alone may change a state; and a quota that is lower than before leaves less of one that is as it was.
      if (charged > 0 || step.state !== states[i]) this.#partitions.write(row, cells, policy, now, step)
      else if (!step.allowed) this.#partitions.setShare(row, cells, policy, step)
      limits[i] = serviceLimit(policy, step, units, this.#receipts(row, policy, now, charged))
    }
    return { limits, source: 'memory' }
  }

  settle(settlements: readonly Settlement[]): Answer {
    const now = this.#clock()
    const rows = this.#rowsOf(settlements, now)
    return {
      limits: settlements.map((settlement, i) => this.#settle(settlement, rows[i]!, now)),
      source: 'memory'
    }
  }

  renew(leases: readonly Lease[]): readonly (readonly Receipt[])[] {
    const now = this.#clock()
    const rows = this.#rowsOf(leases, now)
    const touched = new Map<number, Set<QuotaPolicy>>()
    const touch = (row: number, policy: QuotaPolicy): void => {
      const policies = touched.get(row)
      if (policies === undefined) touched.set(row, new Set([policy]))
      else policies.add(policy)
    }
    const renewed = leases.map(({ policy, charges }, i) => {
      touch(rows[i]!, policy)
      return charges.flatMap(charge => {
        const row = this.#rowOf(charge, rows[i]!)
        if (row === undefined) return NO_CHARGES
        touch(row, policy)
        return this.#renew(row, policy, now, charge)
      })
    })
    for (const [row, policies] of touched) {
      for (const policy of policies) this.#write(row, policy, now, this.#step(row, policy, now, 0))
    }
    return renewed
  }

  peek(places: readonly Place[]): Answer {
    const now = this.#clock()
    const limits = places.map(({ partition, policy }) => {
      const row = this.#partitions.find(partition)
      const state = row === NO_ROW ? EMPTY : this.#partitions.cells(policy).read(row)
      return serviceLimit(policy, policy.algorithm.step(state, policy.params, now, 0), 0, NO_CHARGES)
    })
    return { limits, source: 'memory' }
  }

  reset(places: readonly Place[]): void {
    for (const { partition, policy } of places) {
      const row = this.#partitions.find(partition)
      if (row !== NO_ROW) this.#partitions.keep(row, this.#partitions.cells(policy), EMPTY)
    }
  }

  close(): void {
    this.#users = Math.max(0, this.#users - 1)
    if (this.#users > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  /**
   * The rows of the partitions of one call, until the next call. A new one is held once all others are known, which must not
   * make room for it, and swept if nothing is written to it.
   */
  #rowsOf(places: readonly { readonly partition: string }[], now: number): readonly number[] {
    const rows = this.#rows
    const { length } = places
    let isKnown = true
    for (let i = 0; i < length; i++) {
      rows[i] = isAgain(places, i) ? rows[i - 1]! : this.#partitions.find(places[i]!.partition)
      if (rows[i] === NO_ROW) isKnown = false
    }
    if (isKnown) return rows
    rows.length = length
    for (let i = 0; i < length; i++) {
      if (rows[i] !== NO_ROW) continue
      if (isAgain(places, i)) rows[i] = rows[i - 1]!
      else rows[i] = this.#partitions.hold(places[i]!.partition, now, rows.filter(isOwn))
    }
    return rows
  }

  /**
   * Where a charge was counted: a partition that has a row now may have had none then. `undefined`: it had one and was
   * forgotten since, and what newcomers share knows nothing of it.
   */
  #rowOf(charge: Receipt, row: number): number | undefined {
    if (this.#shared.has(charge)) return SHARED_ROW
    return row === SHARED_ROW ? undefined : row
  }

  /** The cells of the policy at this place of a decision. */
  #cellsAt(i: number, policy: QuotaPolicy): Cells {
    if (policy !== this.#policies[i]) {
      this.#policies[i] = policy
      this.#cells[i] = this.#partitions.cells(policy)
    }
    return this.#cells[i]!
  }

  #step(row: number, policy: QuotaPolicy, now: number, units: number): Step {
    return policy.algorithm.step(this.#partitions.cells(policy).read(row), policy.params, now, units)
  }

  #write(row: number, policy: QuotaPolicy, now: number, step: Step): void {
    this.#partitions.write(row, this.#partitions.cells(policy), policy, now, step)
  }

  /** A surplus is taken back from the latest receipt first, at most its units; a shortfall is charged at once. */
  #settle({ policy, charges, actual }: Settlement, row: number, now: number): ServiceLimit {
    const { algorithm, params } = policy
    const cells = this.#partitions.cells(policy)
    let surplus = total(charges) - actual
    for (let i = charges.length - 1; i >= 0 && surplus > 0; i--) {
      const charge = charges[i]!
      const back = Math.min(surplus, charge.units)
      const at = this.#rowOf(charge, row)
      surplus -= back
      if (at === undefined) continue
      const state = algorithm.settle(cells.read(at), params, now, charge, charge.units - back)
      this.#partitions.keep(at, cells, state)
    }
    // A receipt of units that were dropped would take back those of others.
    const more = surplus < 0 ? Math.min(-surplus, algorithm.room(cells.read(row), params, now)) : 0
    const state = cells.read(row)
    const next = more > 0 ? algorithm.settle(state, params, now, { at: now, units: 0 }, more) : state
    const step = algorithm.step(next, params, now, 0)
    this.#write(row, policy, now, step)
    return serviceLimit(policy, step, 0, this.#receipts(row, policy, now, more))
  }

  #renew(row: number, policy: QuotaPolicy, now: number, charge: Receipt): readonly Receipt[] {
    const cells = this.#partitions.cells(policy)
    const renewed = policy.algorithm.renew!(cells.read(row), policy.params, now, charge)
    this.#partitions.keep(row, cells, renewed.state)
    if (renewed.charge.units === 0) return NO_CHARGES
    if (row === SHARED_ROW) this.#shared.add(renewed.charge)
    return [renewed.charge]
  }

  /** The receipts of what was charged now. */
  #receipts(row: number, { algorithm, params }: QuotaPolicy, now: number, units: number): readonly Receipt[] {
    if (units === 0) return NO_CHARGES
    const receipt = { at: algorithm.receiptAt?.(params, now) ?? now, units }
    if (row === SHARED_ROW) this.#shared.add(receipt)
    return [receipt]
  }
}

const isOwn = (row: number): boolean => row !== NO_ROW

/** Whether a place is in the same partition as the one before. */
const isAgain = (places: readonly { readonly partition: string }[], i: number): boolean =>
  i > 0 && places[i]!.partition === places[i - 1]!.partition

const NO_CHARGES: readonly Receipt[] = Object.freeze([])

function serviceLimit(
  policy: QuotaPolicy,
  step: Step,
  units: number,
  charges: readonly Receipt[]
): ServiceLimit {
  const { allowed, remaining, effectiveWindow, retryAfter, delay } = step
  return { policy, units, allowed, remaining, effectiveWindow, retryAfter, delay, charges }
}

function total(charges: readonly Receipt[]): number {
  return charges.reduce((sum, charge) => sum + charge.units, 0)
}
