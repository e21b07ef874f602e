import type { Receipt } from '../algorithm.js'
import { whenKnown } from '../later.js'
import type { Later } from '../later.js'
import type { QuotaPolicy } from '../policy.js'
import type { Answer, Charge, Lease, MemoryUse, Place, ServiceLimit, Settlement, Store } from '../store.js'
import { memoryStore } from './memory.js'
import type { MemoryStore } from './memory.js'
import { StoreFailure } from './guard/failure.js'

/**
 * What is answered when the store cannot: `open` lets requests pass, `closed` refuses them, `local` counts them in this
 * process, with its share of the quota.
 */
export type FailureMode = 'open' | 'closed' | 'local'

/** Releases kept at most: what is lost ends by itself. */
const MOST_OWED = 10_000

type Attempted<T> = Later<T | StoreFailure>

/** A store that may fail. */
export interface FailingStore {
  /** `late` is told of an answer that comes after the failure was reported. */
  consume(charges: readonly Charge[], late: (answer: Answer) => void): Attempted<Answer>
  settle(settlements: readonly Settlement[]): Attempted<Answer>
  renew(leases: readonly Lease[]): Attempted<readonly (readonly Receipt[])[]>
  peek(places: readonly Place[]): Attempted<Answer>
  reset(places: readonly Place[]): Attempted<void>
}

/**
 * Answers when a store does not, as the policies say. What this process counts meanwhile stays in it: with a share of the
 * quota for each instance, all together admit at most the quota once more in any window, however often the store fails.
 */
export class FailureModes implements Store {
  readonly #store: FailingStore
  readonly #mode: FailureMode
  readonly #instances: number
  readonly #local: MemoryStore = memoryStore()
  /** Receipts of what was counted here. */
  readonly #own = new WeakSet<Receipt>()
  readonly #shares = new WeakMap<QuotaPolicy, QuotaPolicy>()
  /** Places that are to be given back when the store answers again. */
  #owed: readonly Settlement[] = []

  /** `mode` is that of policies without one; `instances`: how many processes share the quota. */
  constructor(store: FailingStore, mode: FailureMode, instances: number) {
    this.#store = store
    this.#mode = mode
    this.#instances = instances
  }

  /** What is counted here meanwhile. */
  get use(): MemoryUse {
    return this.#local.use
  }

  open(): void {
    this.#local.open()
  }

  close(): void {
    this.#local.close()
  }

  consume(charges: readonly Charge[]): Later<Answer> {
    const answer = this.#store.consume(charges, late => this.#giveBack(charges, late))
    return this.#orElse(answer, failure =>
      this.#decide(charges, failure, mine => this.#here(mine, places => this.#local.consume(places)))
    )
  }

  peek(places: readonly Place[]): Later<Answer> {
    return this.#orElse(this.#store.peek(places), failure =>
      this.#decide(places, failure, mine => this.#here(mine, shares => this.#local.peek(shares)))
    )
  }

  /** What was charged here is corrected here. All else is corrected there; if that fails, it stays charged. */
  settle(settlements: readonly Settlement[]): Later<Answer> {
    const parts = settlements.map(settlement => this.#split(settlement))
    const mine = parts.flatMap(({ here }) => here ?? [])
    const theirs = parts.flatMap(({ there }) => there ?? [])
    const limits = mine.length > 0 ? this.#settleHere(mine) : []
    if (theirs.length === 0) return { limits, source: 'local' }
    const answer = this.#orElse(this.#store.settle(theirs), failure => {
      this.#owe(theirs, failure)
      const spent = theirs.filter(({ charges, actual }) => actual > total(charges))
      return this.#decide(spent, failure, counted => this.#settleHere(counted))
    })
    return limits.length === 0
      ? answer
      : whenKnown(answer, known => ({ ...known, limits: [...limits, ...known.limits] }))
  }

  /** Where nobody can be asked, a lease is taken to live: it is renewed the next time. */
  renew(leases: readonly Lease[]): Later<readonly (readonly Receipt[])[]> {
    const part = (own: boolean): readonly Lease[] =>
      leases.map(lease => ({
        ...lease,
        charges: lease.charges.filter(charge => this.#own.has(charge) === own)
      }))
    const here = this.#renewHere(part(true))
    const theirs = part(false)
    const there = theirs.some(({ charges }) => charges.length > 0) ? this.#store.renew(theirs) : NOTHING
    return whenKnown(there, renewed =>
      leases.map((_, i) => {
        const known = renewed instanceof StoreFailure ? theirs[i]!.charges : (renewed[i] ?? [])
        return [...here[i]!, ...known]
      })
    )
  }

  reset(places: readonly Place[]): Later<void> {
    this.#local.reset(places)
    return this.#orElse(this.#store.reset(places), () => {})
  }

  /**
   * What was charged too late to matter. Places are free again, and a refused request has spent nothing; what passed
   * meanwhile stays charged.
   */
  #giveBack(charges: readonly Charge[], { limits }: Answer): void {
    const refused = this.#isClosed(charges)
    const settlements = limits.flatMap(({ policy, charges: receipts }) => {
      const back = receipts.length > 0 && (refused || policy.algorithm.renew !== undefined)
      const charge = charges.find(each => each.policy === policy)!
      return back ? [{ ...charge, charges: receipts, actual: 0 }] : []
    })
    if (settlements.length > 0) void this.settle(settlements)
  }

  /** The store answers again: places that could not be given back meanwhile are. */
  repay(): void {
    if (this.#owed.length === 0) return
    const owed = this.#owed
    this.#owed = []
    void this.settle(owed)
  }

  /** Goes on when the store has failed. */
  #orElse<T>(attempted: Attempted<T>, otherwise: (failure: StoreFailure) => T): Later<T> {
    return whenKnown(attempted, result => {
      if (result instanceof StoreFailure) return otherwise(result)
      this.repay()
      return result
    })
  }

  /** Keeps releases that did not reach the store. One that may have is not sent again: it could free the place of another. */
  #owe(settlements: readonly Settlement[], { effect }: StoreFailure): void {
    if (effect === 'none') this.#owed = [...this.#owed, ...settlements.filter(isRelease)].slice(-MOST_OWED)
  }

  #isClosed(places: readonly Place[]): boolean {
    return places.some(({ policy }) => !policy.shadow && this.#modeOf(policy) === 'closed')
  }

  #modeOf({ onStoreFailure }: QuotaPolicy): FailureMode {
    return onStoreFailure ?? this.#mode
  }

  #settleHere(settlements: readonly Settlement[]): readonly ServiceLimit[] {
    return this.#here(settlements, shares => this.#local.settle(shares))
  }

  #renewHere(leases: readonly Lease[]): readonly (readonly Receipt[])[] {
    const shares = leases.map(lease => ({ ...lease, policy: this.#share(lease.policy) }))
    const renewed = leases.some(({ charges }) => charges.length > 0) ? this.#local.renew(shares) : NOTHING
    for (const receipt of renewed.flat()) this.#own.add(receipt)
    return leases.map((_, i) => renewed[i] ?? [])
  }

  /** Decides without the store: `ask` what is counted here. */
  #decide<P extends Place>(
    places: readonly P[],
    { retryAfter }: StoreFailure,
    ask: (places: readonly P[]) => readonly ServiceLimit[]
  ): Answer {
    if (this.#isClosed(places)) return { limits: [], source: 'closed', retryAfter }
    const counted = places.filter(({ policy }) => this.#modeOf(policy) === 'local')
    return counted.length === 0 ? { limits: [], source: 'open' } : { limits: ask(counted), source: 'local' }
  }

  /** Asks the local store about places, with this process' share of each quota. */
  #here<P extends Place>(
    places: readonly P[],
    ask: (places: readonly P[]) => Answer
  ): readonly ServiceLimit[] {
    const { limits } = ask(places.map(place => ({ ...place, policy: this.#share(place.policy) })))
    return limits.map((limit, i) => {
      for (const receipt of limit.charges) this.#own.add(receipt)
      return { ...limit, policy: places[i]!.policy }
    })
  }

  #share(policy: QuotaPolicy): QuotaPolicy {
    const known = this.#shares.get(policy)
    if (known !== undefined) return known
    const share = policy.shareOf(this.#instances)
    this.#shares.set(policy, share)
    return share
  }

  /** The parts of a settlement that are to be corrected here and there. What is still to be charged is charged there. */
  #split(settlement: Settlement): { readonly here?: Settlement; readonly there?: Settlement } {
    const { charges, actual } = settlement
    const mine = charges.filter(charge => this.#own.has(charge))
    if (mine.length === 0) return { there: settlement }
    const theirs = charges.filter(charge => !this.#own.has(charge))
    const surplus = total(charges) - actual
    const back = takenBack(charges, surplus)
    const ofMine = mine.reduce((sum, charge) => sum + back.get(charge)!, 0)
    const here = { ...settlement, charges: mine, actual: total(mine) - ofMine }
    if (theirs.length === 0 && surplus >= 0) return { here }
    return { here, there: { ...settlement, charges: theirs, actual: total(theirs) - (surplus - ofMine) } }
  }
}

/** How many units of each receipt a surplus takes back: the latest first, at most its units. */
function takenBack(charges: readonly Receipt[], surplus: number): ReadonlyMap<Receipt, number> {
  let left = Math.max(0, surplus)
  return new Map(
    charges.toReversed().map(charge => {
      const back = Math.min(left, charge.units)
      left -= back
      return [charge, back]
    })
  )
}

const NOTHING: readonly (readonly Receipt[])[] = []

const total = (charges: readonly Receipt[]): number => charges.reduce((sum, { units }) => sum + units, 0)

/** Whether places are given back. That is as good late as in time. */
export const isRelease = ({ policy, charges, actual }: Settlement): boolean =>
  policy.algorithm.renew !== undefined && actual < total(charges)
