import { admittedAtOnce, findEdge } from './edge.js'
import type { Exchange } from './exchange.js'
import type { AttackResult, Limiter } from './result.js'
import type { Run } from './runner.js'

/** What was seen, as far as it tells limiters apart. */
export interface Sight {
  /** Milliseconds. */
  readonly window: number
  /** Units that a request costs. */
  readonly cost: number
  readonly runs: readonly Run[]
  readonly results: readonly AttackResult[]
}

/** What a kind of limiter leaves behind. */
interface Traces {
  /** Requests that it admitted at once, from idleness. */
  readonly capacity: number
  /** Times at which it admitted more after that, in milliseconds from then on. */
  readonly back: readonly number[]
  /** Milliseconds between requests that kept asking. */
  readonly step: number
  /** Requests admitted at the end of a window, and then at the start of the next one. */
  readonly aroundEdge: readonly [number, number]
  /** Whether all it admits at once came back at once, clearly sooner than a window after it was spent. */
  readonly edgeFound: boolean
  /** Requests that some window of each attack is sure to have admitted, by the name of the attack. */
  readonly most: ReadonlyMap<string, number>
}

/** The limiter that the admissions resemble most. */
export function resemblance(sight: Sight): Limiter {
  const { window, cost, runs, results } = sight
  if (results.every(({ refused }) => refused === 0)) {
    return { ...nothing('none', 'no limiter'), because: 'nothing was refused' }
  }
  const drained = exchangesOf(runs, 'drained')
  if (drained.length === 0) return unknown('the attack drained was not run')
  const traces = tracesOf(sight, drained)
  const { capacity } = traces
  if (capacity === 0) return unknown('nothing was admitted after idleness')
  const recognised = KINDS.find(({ fits }) => fits(traces, window))
  if (recognised === undefined)
    return { ...unknown('it does not admit as any known kind'), capacity: capacity * cost }
  const { kind, title, because, refill } = recognised
  return {
    kind,
    title,
    capacity: capacity * cost,
    refill: toTwoDigits(refill(traces, window) * cost),
    because: because(traces, window)
  }
}

interface Kind {
  readonly kind: Limiter['kind']
  readonly title: string
  readonly fits: (traces: Traces, window: number) => boolean
  /** Requests a second. */
  readonly refill: (traces: Traces, window: number) => number
  readonly because: (traces: Traces, window: number) => string
}

const perWindow = ({ capacity }: Traces, window: number): number => (capacity * 1000) / window

/** The first that fits is it. */
const KINDS: readonly Kind[] = [
  {
    kind: 'bucket',
    title: 'a token bucket',
    fits: ({ back, step }, window) => {
      const [first = Infinity] = back
      const gap = median(gaps(back))
      // Refusals come between, and the first one is not waited for longer than the others.
      return gap > 1.7 * step && first < 1.7 * gap + step && first < 0.6 * window
    },
    refill: ({ back }) => 1000 / mean(gaps(back)),
    because: ({ capacity, back }) =>
      `after ${capacity} at once it admitted one every ${milliseconds(mean(gaps(back)))}`
  },
  {
    kind: 'fixed',
    title: 'a fixed window on the clock',
    fits: ({ edgeFound }) => edgeFound,
    refill: perWindow,
    because: ({ capacity, back }) =>
      `${milliseconds(back[0]!)} after ${capacity} at once it admitted as many again`
  },
  {
    kind: 'fixed',
    title: 'a fixed window',
    fits: ({ capacity, aroundEdge: [before, after] }) =>
      capacity > 1 && before >= 0.5 * capacity && after >= 0.7 * capacity,
    refill: perWindow,
    because: ({ aroundEdge: [before, after] }) =>
      `it admitted ${before} at the end of a window and ${after} at the start of the next one`
  },
  {
    kind: 'counter',
    title: 'a sliding-window counter',
    fits: ({ capacity, most }) =>
      capacity > 1 &&
      Math.max(most.get('sub-window-burst') ?? 0, most.get('edge-burst') ?? 0) >= 1.2 * capacity,
    refill: perWindow,
    because: ({ capacity }) => `it gave ${capacity} back before they were a window old, and not evenly`
  },
  {
    kind: 'log',
    title: 'a log or sliding window',
    fits: ({ capacity, back: [first = 0], most }, window) =>
      most.has('sub-window-burst') &&
      Math.max(...most.values()) <= 1.1 * capacity &&
      first > 0.9 * window &&
      first < 1.2 * window,
    refill: perWindow,
    because: ({ capacity, back }, window) =>
      `${capacity} at once came back ${milliseconds(back[0]!)} later, and never was more in ${milliseconds(window)}`
  }
]

function tracesOf({ window, cost, runs, results }: Sight, drained: readonly Exchange[]): Traces {
  const [first] = drained
  const later = drained.filter(({ send }) => send.at > 0)
  const around = burstsOf(exchangesOf(runs, 'edge-burst'))
  return {
    capacity: admittedAtOnce(drained),
    back: later.filter(({ outcome }) => outcome === 'admitted').map(({ sent }) => sent - first!.sent),
    step: median(gaps(later.map(({ send }) => send.at))),
    aroundEdge: [around[0] ?? 0, around[1] ?? 0],
    edgeFound: findEdge(drained, window) !== undefined,
    most: new Map(results.map(({ name, mostInAnyWindow }) => [name, mostInAnyWindow / cost]))
  }
}

function exchangesOf(runs: readonly Run[], name: string): readonly Exchange[] {
  return runs.find(({ attack }) => attack.name === name)?.exchanges ?? []
}

/** How many were admitted of those that were sent at the same time as others, for each such time. */
function burstsOf(exchanges: readonly Exchange[]): number[] {
  const times = [...new Set(exchanges.map(({ send }) => send.at))]
  return times
    .map(time => exchanges.filter(({ send }) => send.at === time))
    .filter(together => together.length > 1)
    .map(together => together.filter(({ outcome }) => outcome === 'admitted').length)
}

/** Between each and the one before it, the first one from 0. */
function gaps(times: readonly number[]): number[] {
  return times.map((time, i) => time - (times[i - 1] ?? 0))
}

/** 0 of nothing. */
function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length
}

const milliseconds = (time: number): string => `${Math.round(time)} ms`
const toTwoDigits = (number: number): number => Number(number.toPrecision(2))

function unknown(because: string): Limiter {
  return { ...nothing('unknown', 'no known kind'), because }
}

function nothing(kind: Limiter['kind'], title: string): Omit<Limiter, 'because'> {
  return { kind, title, capacity: null, refill: null }
}
