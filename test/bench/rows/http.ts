import { BASE } from '../http/stage.js'
import type { Making, Row } from '../row.js'
import { atLeast, atMost, values } from '../row.js'
import type { Samples } from '../stage.js'
import { median, paired } from '../statistics.js'

/** Requests over real connections. */
export const httpRows: readonly Row[] = [
  {
    name: 'P1',
    measure: 'admitted, 10k partitions, to rate-limit with 2 policies',
    ...cpuAdded('ours', 'rate-limit twice'),
    target: atMost(0.5),
    stretch: atMost(0.35)
  },
  {
    name: 'P1',
    measure: 'admitted, 10k partitions, to rate-limit with 1 policy',
    ...cpuAdded('ours', 'rate-limit'),
    target: atMost(0.85),
    stretch: atMost(0.6)
  },
  {
    name: 'P1',
    measure: 'admitted, 10k partitions, to rate-limiter-flexible with 1 policy',
    ...cpuAdded('ours', 'rate-limiter-flexible')
  },
  {
    name: 'P1',
    measure: 'two counters and the same fields alone, to rate-limit with 2 policies',
    ...cpuAdded('floor', 'rate-limit twice')
  },
  {
    name: 'P2',
    measure: 'refused with a problem document, to a refusal of rate-limit',
    ...cpuAdded('ours, refusing', 'rate-limit, refusing'),
    target: atMost(0.3),
    stretch: atMost(0.2)
  },
  {
    name: 'P2',
    measure: 'the same document and fields alone, to a refusal of rate-limit',
    ...cpuAdded('floor, refusing', 'rate-limit, refusing')
  },
  {
    name: 'P5',
    measure: 'clients of IPv6, to clients of IPv4',
    ...throughput('ours, IPv6', 'ours, IPv4'),
    target: atLeast(0.95)
  },
  {
    name: 'P10',
    measure: '1k partitions, to 1 partition',
    ...cpuAdded('ours, 1k partitions', 'ours, 1 partition')
  },
  {
    name: 'P10',
    measure: '1M partitions, to 1 partition',
    ...cpuAdded('ours, 1M partitions', 'ours, 1 partition'),
    target: atMost(2)
  },
  {
    name: 'P10',
    measure: 'each further policy up to 2, to the first',
    ...eachFurther('ours', 2)
  },
  {
    name: 'P10',
    measure: 'each further policy up to 4, to the first',
    ...eachFurther('ours, 4 policies', 4)
  },
  {
    name: 'P10',
    measure: 'each further policy up to 8, to the first',
    ...eachFurther('ours, 8 policies', 8),
    target: atMost(0.5)
  },
  {
    name: 'P12',
    measure: 'admitted, 1 partition, to no limiter',
    ...throughput('ours, 1 partition', BASE),
    target: atLeast(0.86),
    stretch: atLeast(0.88)
  },
  {
    name: 'P12',
    measure: 'admitted, 10k partitions, to no limiter',
    ...throughput('ours', BASE),
    target: atLeast(0.84),
    stretch: atLeast(0.88)
  },
  {
    name: 'P12',
    measure: 'admitted, 1M partitions, to no limiter',
    ...throughput('ours, 1M partitions', BASE),
    target: atLeast(0.78),
    stretch: atLeast(0.84)
  },
  {
    name: 'P12',
    measure: 'two counters and the same fields alone, 10k partitions, to no limiter',
    ...throughput('floor', BASE)
  }
]

/** Microseconds of CPU that a request costs more than without a limiter. */
export function cpuAdded(ours: string, rival: string): Making {
  return {
    stage: 'http',
    metric: 'cpu',
    unit: 'µs CPU',
    subjects: [ours, rival],
    figures: samples => quotient(addedBy(samples, ours), addedBy(samples, rival))
  }
}

/** What the policies after the first add, each. */
function eachFurther(name: string, count: number): Making {
  const first = 'ours, 1 policy'
  return {
    stage: 'http',
    metric: 'cpu',
    unit: 'µs CPU',
    subjects: [name, first],
    figures: samples => {
      const one = addedBy(samples, first)
      return quotient((addedBy(samples, name) - one) / (count - 1), one)
    }
  }
}

/** Requests in a second. */
export function throughput(ours: string, rival: string): Making {
  return {
    stage: 'http',
    metric: 'wall',
    unit: 'req/s',
    subjects: [ours, rival],
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

function addedBy(samples: Samples, name: string): number {
  return paired(values(samples, name, 'cpu'), values(samples, BASE, 'cpu'), (cpu, bare) => cpu - bare)
}

const quotient = (ours: number, rival: number): ReturnType<Making['figures']> => ({
  ours,
  rival,
  ratio: ours / rival
})
