import type { Making, Row } from '../row.js'
import { atLeast, atMost, values } from '../row.js'

/** Units bought ahead. */
export const batchRows: readonly Row[] = [
  {
    name: 'P9',
    measure: 'calls to Redis in batches, to requests',
    ...counts('calls', 'requests'),
    target: atMost(0.2)
  },
  {
    name: 'P9',
    measure: 'admitted in batches, to admitted by asking each time',
    ...counts('admitted', 'exactly'),
    target: atLeast(0.98)
  },
  {
    name: 'P9',
    measure: 'beyond the quota in any window, to a batch of each process',
    ...counts('over', 'batches'),
    target: atMost(1)
  }
]

function counts(ours: string, rival: string): Making {
  return {
    stage: 'batches',
    metric: ours,
    unit: '',
    subjects: ['ours, in batches'],
    redis: true,
    figures: samples => {
      const [own, other] = [ours, rival].map(metric => values(samples, 'ours, in batches', metric)[0]!)
      return { ours: own!, rival: other!, ratio: own! / other! }
    }
  }
}
