import type * as client from 'prom-client'
import type { Counter, Histogram, Metric, Registry } from 'prom-client'
import type { MemoryUse } from '../store.js'

/** What is used of the module `prom-client`. */
export type Prom = Pick<typeof client, 'Counter' | 'Gauge' | 'Histogram' | 'register'>

/** All metrics of a register that are counted when something happens. */
export interface Series {
  readonly decisions: Counter<'outcome' | 'source'>
  readonly policyDecisions: Counter<'policy' | 'outcome' | 'source'>
  readonly shadowDecisions: Counter<'policy' | 'outcome'>
  readonly used: Histogram<'policy'>
  readonly retryAfter: Histogram<'policy'>
  readonly delay: Histogram<'policy'>
  readonly corrections: Counter<'policy' | 'direction'>
  readonly changes: Counter<'state' | 'code'>
  readonly calls: Histogram<'operation'>
  readonly failures: Counter<'operation' | 'code'>
}

/** What is looked up when somebody asks for the metrics. */
export interface Readings {
  /** Places of concurrency that are held, by policy. */
  leases(): ReadonlyMap<string, number>
  /** Whether a store leaves a server alone. */
  down(): boolean
  /** Seconds during which one did, since the metrics were made. */
  secondsDown(): number
  /** Of all stores together. */
  use(): MemoryUse
}

/** Most of the buckets are where little is left. */
const SHARES = [0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1]

/** Seconds, to a day and to half a minute. */
const WAITS = [1, 2, 5, 10, 30, 60, 300, 900, 3600, 86_400]
const DELAYS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Seconds: from a server beside us to the longest deadline. */
const CALLS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10]

/** Makes all metrics, and tells their names. */
export function createSeries(
  prom: Prom,
  register: Registry,
  readings: Readings
): { readonly series: Series; readonly names: readonly string[] } {
  const names: string[] = []
  const about: About = (suffix, help, ...labelNames) => {
    const name = `fastify_quota_${suffix}`
    names.push(name)
    return { name, help, labelNames, registers: [register] }
  }
  const series = counted(prom, about)
  lookUp(prom, about, readings)
  return { series, names }
}

/** What every metric has. */
type About = <T extends string = never>(
  suffix: string,
  help: string,
  ...labelNames: readonly T[]
) => {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly T[]
  readonly registers: Registry[]
}

function counted({ Counter, Histogram }: Prom, about: About): Series {
  return {
    decisions: new Counter(
      about('decisions_total', 'Decisions, by outcome and by who decided.', 'outcome', 'source')
    ),
    policyDecisions: new Counter(
      about(
        'policy_decisions_total',
        'What each policy said: allowed, refused or exempt, and who decided.',
        'policy',
        'outcome',
        'source'
      )
    ),
    shadowDecisions: new Counter(
      about(
        'shadow_decisions_total',
        'What policies in shadow mode would have said: allowed or refused.',
        'policy',
        'outcome'
      )
    ),
    used: new Histogram({
      ...about('used_ratio', 'Share of a quota that is used after a decision, from 0 to 1.', 'policy'),
      buckets: SHARES
    }),
    retryAfter: new Histogram({
      ...about('retry_after_seconds', 'Time until what a policy refused would be allowed.', 'policy'),
      buckets: WAITS
    }),
    delay: new Histogram({
      ...about('delay_seconds', 'Time that requests wait in the queue of a policy.', 'policy'),
      buckets: DELAYS
    }),
    corrections: new Counter(
      about(
        'corrected_units_total',
        'Units that were returned or added when it was known what was used.',
        'policy',
        'direction'
      )
    ),
    changes: new Counter(
      about('store_changes_total', 'Changes of the store to up, down or fault, and why.', 'state', 'code')
    ),
    calls: new Histogram({
      ...about('store_call_duration_seconds', 'Time that calls to the store took.', 'operation'),
      buckets: CALLS
    }),
    failures: new Counter(
      about(
        'store_failed_calls_total',
        'Calls to the store that were not answered or not made, and why.',
        'operation',
        'code'
      )
    )
  }
}

/** Those that are known to somebody else, who is asked when they are. */
function lookUp({ Counter, Gauge }: Prom, about: About, readings: Readings): readonly Metric[] {
  return [
    new Gauge({
      ...about('leases', 'Places of concurrency that are held.', 'policy'),
      collect() {
        this.reset()
        for (const [policy, units] of readings.leases()) this.set({ policy }, units)
      }
    }),
    new Gauge({
      ...about('store_up', '1: the store is asked; 0: a server does not answer and is left alone.'),
      aggregator: 'min',
      collect() {
        this.set(readings.down() ? 0 : 1)
      }
    }),
    new Counter({
      ...about('store_down_seconds_total', 'Time during which a server of the store was left alone.'),
      collect() {
        replace(this, readings.secondsDown())
      }
    }),
    new Gauge({
      ...about('partitions', 'Partitions that are counted in memory.'),
      collect() {
        this.set(readings.use().partitions)
      }
    }),
    new Gauge({
      ...about('partitions_bytes', 'Memory that these partitions take, estimated.'),
      collect() {
        this.set(readings.use().bytes)
      }
    }),
    new Counter({
      ...about('evicted_partitions_total', 'Partitions that were forgotten before they had expired.'),
      collect() {
        replace(this, readings.use().evicted)
      }
    }),
    new Counter({
      ...about('shared_partitions_total', 'Times that newcomers found no room and were counted together.'),
      collect() {
        replace(this, readings.use().shared)
      }
    })
  ]
}

/** Somebody else counts. */
function replace(counter: Counter, value: number): void {
  counter.reset()
  counter.inc(value)
}
