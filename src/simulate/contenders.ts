import type { Algorithm, Params } from '../algorithm.js'
import { leakyBucket, tokenBucket } from '../algorithms/bucket.js'
import { fixedWindow } from '../algorithms/fixed-window.js'
import { slidingWindowCounter } from '../algorithms/sliding-window-counter.js'
import { slidingWindow } from '../algorithms/sliding-window.js'
import { duration } from './duration.js'

/** An algorithm with its terms: one row of a table. */
export interface Contender {
  readonly name: Name
  /** Its name and those of its options that tell it from others. */
  readonly label: string
  readonly algorithm: Algorithm
  readonly params: Params
  /** Whether it delays requests instead of refusing them. */
  readonly queues: boolean
  /** Whether all it can hold is spent just before the first request. Otherwise nobody has used it yet. */
  readonly drained: boolean
}

/** The algorithms that count over time. What `concurrency` admits depends on how long requests last. */
export const NAMES = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
] as const
export type Name = (typeof NAMES)[number]

export interface Settings {
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
  /** Sub-windows of the two counting windows, each of which makes a contender. */
  readonly precisions: readonly number[]
  /** Capacity of the buckets; left out: the quota. */
  readonly burst?: number | undefined
  /** Milliseconds that the leaky bucket queues for; left out: it refuses. */
  readonly maxDelay?: number | undefined
  readonly drained: boolean
}

/** The options of a contender that its label names. */
interface Options {
  readonly precision?: number
  readonly exact?: true
  readonly align?: true
  readonly burst?: number
  readonly maxDelay?: number
}

/** The settings that mean something to an algorithm; all know quota, window and drained. */
export function knows(name: Name, { maxDelay }: Pick<Settings, 'maxDelay'>): readonly (keyof Settings)[] {
  if (name === 'sliding-window' || name === 'sliding-window-counter') return ['precisions']
  if (name === 'token-bucket') return ['burst']
  if (name === 'leaky-bucket') return maxDelay === undefined ? ['burst', 'maxDelay'] : ['maxDelay']
  return []
}

/**
 * The contenders of an algorithm's name: one for each precision, a fixed window both from its first request and on the
 * clock, else one.
 * @throws {TermsError} when the terms cannot be computed exactly.
 */
export function contenders(name: Name, settings: Settings): Contender[] {
  return variants(name, settings).map(options => contender(name, settings, options))
}

function variants(name: Name, { quota, precisions, burst = quota, maxDelay }: Settings): Options[] {
  switch (name) {
    case 'sliding-window':
    case 'sliding-window-counter':
      return precisions.map(precision => ({ precision }))
    case 'sliding-window-log':
      return [{ exact: true }]
    case 'fixed-window':
      return [{}, { align: true }]
    case 'token-bucket':
      return [{ burst }]
    case 'leaky-bucket':
      return [maxDelay === undefined ? { burst } : { maxDelay }]
  }
}

const ALGORITHMS: Readonly<Record<Name, Algorithm>> = {
  'sliding-window': slidingWindow,
  'sliding-window-log': slidingWindow,
  'sliding-window-counter': slidingWindowCounter,
  'fixed-window': fixedWindow,
  'token-bucket': tokenBucket,
  'leaky-bucket': leakyBucket
}

function contender(name: Name, { quota, window, drained }: Settings, options: Options): Contender {
  const { precision, exact = false, align = false, burst, maxDelay } = options
  const algorithm = ALGORITHMS[name]
  const params = algorithm.params({
    quota,
    window,
    precision: exact ? window : (precision ?? 1),
    burst: burst ?? quota,
    align,
    maxDelay: maxDelay ?? 0,
    holdFor: 0
  })
  const details = [
    precision === undefined ? [] : `precision ${precision}`,
    align ? 'aligned to the clock' : [],
    burst === undefined ? [] : `burst ${burst}`,
    maxDelay === undefined ? [] : `max delay ${duration(maxDelay)}`,
    drained ? 'drained' : []
  ].flat()
  return {
    name,
    label: [name, ...details].join(', '),
    algorithm,
    params,
    queues: maxDelay !== undefined,
    drained
  }
}
