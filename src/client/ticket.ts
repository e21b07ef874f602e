import type { Account, Block, Load } from './account.js'
import { unitsOf } from './costs.js'
import type { Limit } from './limits/limit.js'

/** Why a request waits. */
export interface Wait {
  /** Policies that have no room for it. */
  readonly policies: readonly string[]
  /** Milliseconds of the epoch. */
  readonly until: number
}

/** A request's place in the queue. It keeps it when it is refused and comes again. */
export class Ticket {
  readonly load: Load
  /** Higher ones go first. */
  readonly priority: number
  readonly #likeness: string
  readonly #onWait: (wait: Wait) => void
  readonly #refusals = new Map<Account, readonly Block[]>()
  readonly #overtaken = new Map<Limit, number>()
  #arrival = Infinity
  #isTold = false

  constructor(load: Load, priority: number, onWait: (wait: Wait) => void) {
    this.load = load
    this.priority = priority
    this.#likeness = `${priority} ${load.route} ${JSON.stringify(load.costs)}`
    this.#onWait = onWait
  }

  /** Requests that are alike wait for the same; one that comes again is like no other. */
  get likeness(): string {
    return this.comesAgain ? `again ${this.#arrival}` : this.#likeness
  }

  /** It arrives for the first time or again. Arrivals are numbered, and the first counts. */
  arrived(arrival: number): void {
    this.#arrival = Math.min(this.#arrival, arrival)
  }

  /** Below 0 if it goes before another one. */
  compare(other: Ticket): number {
    if (this.priority === other.priority) return this.compareArrival(other)
    return this.priority > other.priority ? -1 : 1
  }

  /** Below 0 if it came first. */
  compareArrival(other: Ticket): number {
    return this.#arrival - other.#arrival
  }

  /** It was refused, and may come again when these blocks are over. */
  refused(account: Account, blocks: readonly Block[]): void {
    this.#refusals.set(account, blocks)
  }

  /** Whether it has been refused already. */
  get comesAgain(): boolean {
    return this.#refusals.size > 0
  }

  /** What its last refusal by an account still keeps it from. */
  blocks(account: Account, now: number): readonly Block[] {
    return (this.#refusals.get(account) ?? []).filter(({ at }) => at > now)
  }

  /** One that came later has spent so many units of a limit that has too few left for this one. */
  overtaken(limit: Limit, units: number): void {
    this.#overtaken.set(limit, (this.#overtaken.get(limit) ?? 0) + units)
  }

  /** Whether others have spent what it needs itself, so that what comes back of a limit is for it. */
  isDue(limit: Limit): boolean {
    return (this.#overtaken.get(limit) ?? 0) >= unitsOf(this.load.costs, limit)
  }

  /** Whether it has been told that it waits. */
  get isTold(): boolean {
    return this.#isTold
  }

  /** Tells that it waits. */
  tell(wait: Wait): void {
    this.#isTold = true
    this.#onWait(wait)
  }
}
