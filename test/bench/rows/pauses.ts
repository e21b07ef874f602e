import type { Making, Row } from '../row.js'
import { atMost, values } from '../row.js'

/** What others wait for while new clients come. */
export const pauseRows: readonly Row[] = [
  {
    name: 'P11',
    measure: 'p99.9 of pauses, 1M new partitions in room for 10k, beyond no limiter',
    ...pauses('ours, flooded', 'p999'),
    target: atMost(10)
  },
  {
    name: 'P11',
    measure: 'p99.9 of pauses, 1M new partitions and room for all, beyond no limiter',
    ...pauses('ours, growing', 'p999'),
    target: atMost(10)
  },
  {
    name: 'P11',
    measure: 'longest pause, 1M new partitions in room for 10k, beyond no limiter',
    ...pauses('ours, flooded', 'longest')
  },
  {
    name: 'P11',
    measure: 'longest pause, 1M new partitions and room for all, beyond no limiter',
    ...pauses('ours, growing', 'longest')
  }
]

/** How much longer. */
function pauses(ours: string, metric: string): Making {
  return {
    stage: 'pauses',
    metric,
    unit: 'ms',
    ratioUnit: ' ms',
    subjects: [ours, 'no limiter'],
    figures: samples => {
      const [own, other] = [ours, 'no limiter'].map(name => values(samples, name, metric)[0]!)
      return { ours: own!, rival: other!, ratio: own! - other! }
    }
  }
}
