import type { Charge } from './store.js'

/** Partitions of a policy that are waited for, and how many of them may come back unnoticed. */
const AWAITED = 100
const FEW = 2

/** Charges of a policy, and milliseconds, after which it is known. */
const ENOUGH = 1000
const LONG = 600_000

/** Charges of all policies, after which nobody looks any more: a policy that is used so rarely limits little. */
const MOST = 100_000

interface Sample {
  readonly awaited: Set<string>
  readonly since: number
  charges: number
  returns: number
}

/**
 * Finds policies that count by what is new with nearly every request, such as its own id, so that they limit nobody. Of each
 * it waits for the first hundred partitions to come back, for as long as their quota is theirs; most clients do at once.
 */
export class Newcomers {
  readonly #clock: () => number
  readonly #policies: () => Iterable<string>
  readonly #found: (policy: string) => void
  readonly #samples = new Map<string, Sample>()
  readonly #known = new Set<string>()
  #seen = 0

  /** `clock` tells milliseconds, `policies` the names of all; `found` is told of each such policy once. */
  constructor(clock: () => number, policies: () => Iterable<string>, found: (policy: string) => void) {
    this.#clock = clock
    this.#policies = policies
    this.#found = found
  }

  /** Sees the charges of a request. Returns whether there is more to be seen. */
  see(charges: readonly Charge[]): boolean {
    let news = false
    for (const charge of charges) {
      this.#seen++
      if (!this.#known.has(charge.policy.name) && this.#isDecided(charge)) {
        this.#samples.delete(charge.policy.name)
        this.#known.add(charge.policy.name)
        news = true
      }
    }
    if (this.#seen >= MOST) return false
    return !news || [...this.#policies()].some(name => !this.#known.has(name))
  }

  #isDecided({ partition, policy: { name, window } }: Charge): boolean {
    const now = this.#clock()
    const sample = this.#sampleOf(name, now)
    sample.charges++
    if (sample.awaited.has(partition)) sample.returns++
    else if (sample.awaited.size < AWAITED) sample.awaited.add(partition)
    if (sample.returns > FEW) return true
    if (sample.charges < ENOUGH || now - sample.since < Math.min(window, LONG)) return false
    this.#found(name)
    return true
  }

  #sampleOf(policy: string, now: number): Sample {
    const known = this.#samples.get(policy)
    if (known !== undefined) return known
    const sample = { awaited: new Set<string>(), since: now, charges: 0, returns: 0 }
    this.#samples.set(policy, sample)
    return sample
  }
}
