import type { Counter, Histogram } from 'prom-client'
import type { Decision } from '../decision.js'
import type { QuotaPolicy } from '../policy.js'
import type { ServiceLimit, Settled, Source, StoreCall, StoreChange } from '../store.js'
import { Codes } from './codes.js'
import type { Series } from './series.js'

/** Counts what is told. Labels are looked up once: most decisions are of the same few kinds. */
export class Counting {
  readonly #series: Series
  readonly #policies = new Map<string, PolicySeries>()
  readonly #decisions = new Map<string, Counter.Internal>()
  readonly #codes = new Codes()

  constructor(series: Series) {
    this.#series = series
  }

  decided({ outcome, limits, exempt, shadow, source }: Decision): void {
    if (outcome !== 'none') this.#outcome(outcome, source).inc()
    for (const limit of limits) this.#policy(limit.policy.name).limited(limit, source)
    for (const name of exempt) this.#policy(name).said('exempt', source).inc()
    for (const { policy, wouldRefuse } of shadow) this.#policy(policy).wouldSay(wouldRefuse)
  }

  settled({ policy, charged, actual }: Settled): void {
    // To give a place back is no correction.
    if (policy.algorithm.renew === undefined) this.#policy(policy.name).corrected(actual - charged)
  }

  changed({ state, code }: StoreChange): void {
    this.#series.changes.inc({ state, code: this.#codes.of(code) })
  }

  called({ operation, code, took }: StoreCall): void {
    if (took !== undefined) this.#series.calls.observe({ operation }, took / 1000)
    if (code !== 'OK') this.#series.failures.inc({ operation, code: this.#codes.of(code) })
  }

  #outcome(outcome: string, source: Source): Counter.Internal {
    return kept(this.#decisions, `${outcome} ${source}`, () =>
      counted(this.#series.decisions, outcome, outcome => ({ outcome, source }))
    )
  }

  #policy(name: string): PolicySeries {
    return kept(this.#policies, name, () => new PolicySeries(this.#series, name))
  }
}

/** The series of one policy. */
class PolicySeries {
  readonly #series: Series
  readonly #policy: string
  readonly #said = new Map<string, Counter.Internal>()
  readonly #wouldSay = new Map<string, Counter.Internal>()
  readonly #used: Histogram.Internal<'policy'>

  constructor(series: Series, policy: string) {
    this.#series = series
    this.#policy = policy
    this.#used = series.used.labels({ policy })
  }

  limited(limit: ServiceLimit, source: Source): void {
    const { allowed, retryAfter, delay } = limit
    const policy = this.#policy
    this.said(allowed ? 'allowed' : 'refused', source).inc()
    if (!allowed && retryAfter > 0) this.#series.retryAfter.observe({ policy }, retryAfter / 1000)
    if (delay > 0) this.#series.delay.observe({ policy }, delay / 1000)
    // This process' share tells nothing of the quota.
    if (source !== 'local') this.#use(limit.policy, limit.remaining)
  }

  said(outcome: 'allowed' | 'refused' | 'exempt', source: Source): Counter.Internal {
    return kept(this.#said, `${outcome} ${source}`, () =>
      counted(this.#series.policyDecisions, outcome, outcome => ({ policy: this.#policy, outcome, source }))
    )
  }

  wouldSay(wouldRefuse: boolean): void {
    const outcome = wouldRefuse ? 'refused' : 'allowed'
    kept(this.#wouldSay, outcome, () =>
      counted(this.#series.shadowDecisions, outcome, outcome => ({ policy: this.#policy, outcome }))
    ).inc()
  }

  corrected(units: number): void {
    if (units === 0) return
    const direction = units < 0 ? 'returned' : 'added'
    this.#series.corrections.inc({ policy: this.#policy, direction }, Math.abs(units))
  }

  #use({ capacity }: QuotaPolicy, remaining: number): void {
    if (capacity > 0) this.#used.observe(1 - Math.min(1, remaining / capacity))
  }
}

function kept<T>(known: Map<string, T>, key: string, make: () => T): T {
  const found = known.get(key)
  if (found !== undefined) return found
  const made = make()
  known.set(key, made)
  return made
}

const OUTCOMES = ['allowed', 'refused'] as const

/**
 * The series of an outcome. What has not been decided yet is told as 0 beside it: of a series that begins at 1, Prometheus
 * sees no increase.
 */
function counted(
  counter: Counter,
  outcome: string,
  labelsOf: (outcome: string) => Readonly<Record<string, string>>
): Counter.Internal {
  if (outcome !== 'exempt') for (const either of OUTCOMES) counter.inc(labelsOf(either), 0)
  return counter.labels(labelsOf(outcome))
}
