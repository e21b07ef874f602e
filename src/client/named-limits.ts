import { DRAFT_11 } from '../wire-names.js'
import type { Spread } from './backoff.js'
import { Gate } from './limits/gate.js'
import { HoldingLimit } from './limits/holding.js'
import type { Limit } from './limits/limit.js'
import { SpendingLimit } from './limits/spending.js'
import type { Pace } from './limits/spending.js'
import { Recent } from './recent.js'
import type { Told } from './told.js'

/** The limit of a policy, of one partition if it says so. */
export interface NamedLimit {
  readonly policy: string
  readonly limit: Limit
}

/** How limits are kept to. */
export type Manner = Pace & Spread

/** The most limits that are remembered of a server. */
const MOST_LIMITS = 1000

/** The limits that a server has told of, by policy and partition key. */
export class NamedLimits {
  readonly #manner: Manner
  readonly #limits = new Recent<NamedLimit>(MOST_LIMITS)
  /** The one told last of each policy. */
  readonly #latest = new Recent<NamedLimit>(MOST_LIMITS)

  constructor(manner: Manner) {
    this.#manner = manner
  }

  /** For requests of which nobody knows yet what they fall under: every policy, in the partition seen last. */
  get likely(): Iterable<NamedLimit> {
    return this.#latest.values()
  }

  /** The limit that a response tells of, with what it says of its policy. */
  told(told: Told): NamedLimit {
    const id = `${told.policy}\n${told.partitionKey}`
    const named = this.#fitting(this.#limits.get(id), told) ?? this.#made(told)
    if (named.limit instanceof SpendingLimit) named.limit.declare(told)
    this.#limits.set(id, named)
    this.#latest.set(told.policy, named)
    return named
  }

  /** The limit of a policy that a refusal names and tells nothing else of. */
  named(policy: string, nothing: Told): NamedLimit {
    return this.#latest.get(policy) ?? this.told(nothing)
  }

  /** What is known, unless it turns out to be of another kind. */
  #fitting(named: NamedLimit | undefined, { unit, available }: Told): NamedLimit | undefined {
    if (named === undefined || (unit !== undefined && unit !== named.limit.unit)) return undefined
    return named.limit instanceof Gate && available !== undefined ? undefined : named
  }

  #made({ policy, unit, quota, available }: Told): NamedLimit {
    const numbers = quota !== undefined || available !== undefined
    if (unit === 'concurrent-requests') return { policy, limit: new HoldingLimit(this.#manner) }
    if (!numbers) return { policy, limit: new Gate(unit ?? 'unknown', this.#manner) }
    return { policy, limit: new SpendingLimit(unit ?? DRAFT_11.defaultUnit, this.#manner, this.#manner) }
  }
}
