import type { Samples } from './stage.js'

/** What a ratio should be. */
export type Bound = { readonly most: number } | { readonly least: number }

/** What was measured of ours and of a rival, and what is made of both. */
export interface Figures {
  /** In the unit of the row; `NaN` where there is none to tell. */
  readonly ours: number
  readonly rival: number
  /** What the bounds are for. */
  readonly ratio: number
}

/** One line of the table. */
export interface Row {
  /** The number of the measure; several rows may look at the same one. */
  readonly name: string
  /** The name of the stage that measures its subjects. */
  readonly stage: string
  readonly measure: string
  /** The metric of the stage that its figures are made of. */
  readonly metric: string
  /** Of the figures. */
  readonly unit: string
  /** Names of variants, besides the twins of the stage. */
  readonly subjects: readonly string[]
  readonly figures: (samples: Samples) => Figures
  /** Of a ratio that is none, but what ours is more. */
  readonly ratioUnit?: string
  readonly target?: Bound
  readonly stretch?: Bound
  /** Whether it needs a Redis. */
  readonly redis?: true
}

/** The parts of a row that say how it is made of samples. */
export type Making = Pick<Row, 'stage' | 'metric' | 'unit' | 'subjects' | 'figures' | 'ratioUnit' | 'redis'>

export const atMost = (most: number): Bound => ({ most })
export const atLeast = (least: number): Bound => ({ least })

export function isMet(bound: Bound, ratio: number): boolean {
  return 'most' in bound ? ratio <= bound.most : ratio >= bound.least
}

/** The values of a metric of one subject. */
export function values(samples: Samples, name: string, metric: string): readonly number[] {
  const found = samples.get(name)?.[metric]
  if (found === undefined) throw new Error(`nothing was measured of ${name}: ${metric}`)
  return found
}
