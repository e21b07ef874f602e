import type { Making, Row } from '../row.js'
import { atLeast, atMost, values } from '../row.js'
import { median, paired } from '../statistics.js'
import { cpuAdded } from './http.js'

/** What asks a Redis. */
export const redisRows: readonly Row[] = [
  {
    name: 'P7',
    measure: 'decisions of 2 policies, 50 at a time, to rate-limit with 1 policy',
    ...decisions('ours, asking', 'rate-limit, asking'),
    target: atLeast(0.75),
    stretch: atLeast(0.95)
  },
  {
    name: 'P7',
    measure: 'decisions of 2 policies, 50 at a time, to rate-limit with 2 policies',
    ...decisions('ours, asking', 'rate-limit twice, asking'),
    target: atLeast(1.4),
    stretch: atLeast(1.7)
  },
  {
    name: 'P7',
    measure: 'decisions of 2 policies, 50 at a time, to rate-limiter-flexible with 1 policy',
    ...decisions('ours, asking', 'rate-limiter-flexible, asking')
  },
  {
    name: 'P7',
    measure: 'an empty script alone, 50 at a time, to rate-limit with 1 policy',
    ...decisions('a script', 'rate-limit, asking')
  },
  {
    name: 'P8',
    measure: 'admitted, Redis, to rate-limit with 1 policy',
    ...cpuAdded('ours, Redis', 'rate-limit, Redis'),
    redis: true,
    target: atMost(1),
    stretch: atMost(0.6)
  },
  {
    name: 'P8',
    measure: 'admitted, Redis, to rate-limit with 2 policies',
    ...cpuAdded('ours, Redis', 'rate-limit twice, Redis'),
    redis: true,
    target: atMost(0.55)
  },
  {
    name: 'P8',
    measure: 'an empty script and the same fields alone, to rate-limit with 1 policy',
    ...cpuAdded('floor, Redis', 'rate-limit, Redis'),
    redis: true
  }
]

/** Decisions in a second. */
function decisions(ours: string, rival: string): Making {
  return {
    stage: 'redis',
    metric: 'wall',
    unit: '/s',
    subjects: [ours, rival],
    redis: true,
    figures: samples => {
      const [own, other] = [ours, rival].map(name => values(samples, name, 'wall'))
      return {
        ours: 1e6 / median(own!),
        rival: 1e6 / median(other!),
        ratio: paired(other!, own!, (theirs, ours) => theirs / ours)
      }
    }
  }
}
