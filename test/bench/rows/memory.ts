import type { Making, Row } from '../row.js'
import { atMost, values } from '../row.js'

/** What is kept. */
export const memoryRows: readonly Row[] = [
  {
    name: 'P6',
    measure: 'partition of 2 policies, 1M of them, to rate-limit with 1 policy',
    ...bytes('ours, held', 'rate-limit, held'),
    target: atMost(0.6),
    stretch: atMost(0.4)
  },
  {
    name: 'P6',
    measure: 'partition of 1 policy, 1M of them, to rate-limit with 1 policy',
    ...bytes('ours, held for 1 policy', 'rate-limit, held')
  },
  {
    name: 'P6',
    measure: 'partition of 1 policy, 1M of them, to rate-limiter-flexible',
    ...bytes('ours, held for 1 policy', 'rate-limiter-flexible, held')
  }
]

function bytes(ours: string, rival: string): Making {
  return {
    stage: 'memory',
    metric: 'bytes',
    unit: 'B',
    subjects: [ours, rival],
    figures: samples => {
      const [own, other] = [ours, rival].map(name => values(samples, name, 'bytes')[0]!)
      return { ours: own!, rival: other!, ratio: own! / other! }
    }
  }
}
