import type { Making, Row } from '../row.js'
import { atMost, values } from '../row.js'
import { median, paired } from '../statistics.js'

/** Parts of a request, without a request. */
export const loopRows: readonly Row[] = [
  {
    name: 'P3',
    measure: 'decision in memory of 2 policies, to the check of rate-limit',
    ...decisions('ours, decision', 'rate-limit, decision'),
    target: atMost(0.1),
    stretch: atMost(0.06)
  },
  {
    name: 'P3',
    measure: 'decision in memory of 2 policies, to rate-limiter-flexible',
    ...decisions('ours, decision', 'rate-limiter-flexible, decision')
  },
  {
    name: 'P3',
    measure: 'two counters of a client alone, to the check of rate-limit',
    ...decisions('floor, decision', 'rate-limit, decision')
  },
  {
    name: 'P4',
    measure: 'RateLimit of 2 policies, to structured-headers',
    ...nanoseconds('ours, fields', 'structured-headers'),
    target: atMost(0.1)
  },
  {
    name: 'P5',
    measure: 'key of an IPv6 address that comes again, to rate-limit',
    ...nanoseconds('ours, address', 'rate-limit, address'),
    target: atMost(0.02)
  },
  {
    name: 'P5',
    measure: 'key of an IPv6 address never seen, to rate-limit',
    ...nanoseconds('ours, new address', 'rate-limit, new address')
  }
]

/** What once through a loop takes; of that, what has to be done for all `alike` is left out. */
function nanoseconds(ours: string, rival: string, alike?: string): Making {
  return {
    stage: 'loops',
    metric: 'ns',
    unit: 'ns CPU',
    subjects: alike === undefined ? [ours, rival] : [ours, rival, alike],
    figures: samples => {
      const same = alike === undefined ? [] : values(samples, alike, 'ns')
      const [own, other] = [ours, rival].map(name =>
        values(samples, name, 'ns').map((ns, round) => ns - (same[round] ?? 0))
      )
      return {
        ours: median(own!),
        rival: median(other!),
        ratio: paired(own!, other!, (ours, theirs) => ours / theirs)
      }
    }
  }
}

/** A decision, without the key that was written for it. */
function decisions(ours: string, rival: string): Making {
  return nanoseconds(ours, rival, 'keys')
}
