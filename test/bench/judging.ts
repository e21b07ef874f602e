import type { Findings } from './measure.js'
import { isMet, values } from './row.js'
import type { Figures, Row } from './row.js'
import type { Samples, Stage } from './stage.js'
import { blocks, median, paired } from './statistics.js'

/** How two things that are the same came out. */
export interface Twins extends Figures {
  readonly stage: string
  readonly metric: string
  readonly names: readonly [string, string]
  readonly unit: string
  /** Whether they came out nearly the same, so that other ratios of the stage can be believed. */
  readonly alike: boolean
}

export type Verdict = 'met' | 'met, and the stretch' | 'not met' | 'inconclusive' | 'reported' | 'skipped'

/** A row, and what came out. */
export interface Result
  extends Pick<Row, 'name' | 'stage' | 'measure' | 'unit' | 'ratioUnit' | 'target' | 'stretch'>, Figures {
  /** The least and the most that the ratio was in a part of the rounds. */
  readonly range: readonly [number, number] | undefined
  readonly verdict: Verdict
}

/** Where the ratio of twins may lie. */
export const ALIKE = { least: 0.95, most: 1.05 } as const

/** Parts of the rounds that a range is made of. */
const BLOCKS = 5

/** Compares the twins of each stage that has been at work. */
export function twinsOf(findings: Findings): readonly Twins[] {
  return [...findings].flatMap(([{ name: stage, twins, metrics }, samples]) => {
    if (twins === undefined) return []
    return metrics.map(({ name: metric, unit }) => {
      const [one, other] = twins.map(twin => values(samples, twin, metric)) as [
        readonly number[],
        readonly number[]
      ]
      const ratio = paired(one, other, (a, b) => b / a)
      const alike = ratio >= ALIKE.least && ratio <= ALIKE.most
      return { stage, metric, names: twins, unit, ours: median(other), rival: median(one), ratio, alike }
    })
  })
}

/** Whether a metric of a stage came out so differently for twins that nothing can be concluded from it. */
type Uneasy = (stage: string, metric: string) => boolean

const uneasyOf =
  (twins: readonly Twins[]): Uneasy =>
  (stage, metric) =>
    twins.some(twin => !twin.alike && twin.stage === stage && twin.metric === metric)

/** What came out for each row. */
export function judge(rows: readonly Row[], findings: Findings, twins: readonly Twins[]): readonly Result[] {
  const samples = new Map([...findings].map(([{ name }, samples]) => [name, samples]))
  const uneasy = uneasyOf(twins)
  return rows.map(row => {
    const measured = samples.get(row.stage)
    if (measured === undefined || !row.subjects.every(subject => measured.has(subject)))
      return { ...row, ...NOTHING, range: undefined, verdict: 'skipped' }
    const figures = row.figures(measured)
    return {
      ...row,
      ...figures,
      range: rangeOf(row, measured),
      verdict: verdictOf(row, figures, uneasy(row.stage, row.metric))
    }
  })
}

const NOTHING: Figures = { ours: NaN, rival: NaN, ratio: NaN }

function verdictOf({ target, stretch }: Row, { ratio }: Figures, uneasy: boolean): Verdict {
  if (uneasy || !Number.isFinite(ratio)) return 'inconclusive'
  if (target === undefined) return 'reported'
  if (!isMet(target, ratio)) return 'not met'
  return stretch !== undefined && isMet(stretch, ratio) ? 'met, and the stretch' : 'met'
}

function rangeOf(row: Row, samples: Samples): Result['range'] {
  const rounds = Math.max(...row.subjects.map(subject => roundsOf(samples, subject)))
  if (rounds < 2 * BLOCKS) return undefined
  const ratios = Array.from({ length: BLOCKS }, (_, block) => row.figures(blockOf(samples, block)).ratio)
  return [Math.min(...ratios), Math.max(...ratios)]
}

const roundsOf = (samples: Samples, subject: string): number =>
  Math.max(...Object.values(samples.get(subject) ?? {}).map(({ length }) => length))

function blockOf(samples: Samples, block: number): Samples {
  return new Map(
    [...samples].map(([name, sample]) => [
      name,
      Object.fromEntries(
        Object.entries(sample).map(([metric, values]) => [metric, blocks(values, BLOCKS)[block] ?? values])
      )
    ])
  )
}

/** One subject of two commits. */
export interface Change extends Figures {
  readonly stage: string
  readonly variant: string
  readonly metric: string
  readonly unit: string
  readonly verdict: 'better' | 'worse' | 'same' | 'inconclusive'
}

/** More than this is a change. */
const CHANGE = 0.05

/** How subjects of this tree came out beside those of another commit, whose names end with `mark`. */
export function changesOf(findings: Findings, mark: string, twins: readonly Twins[]): readonly Change[] {
  const uneasy = uneasyOf(twins)
  return [...findings].flatMap(([stage, samples]) =>
    [...samples.keys()]
      .filter(name => samples.has(name + mark))
      .flatMap(name => changesOfOne(stage, samples, name, mark, uneasy))
  )
}

function changesOfOne(
  { name: stage, metrics }: Stage,
  samples: Samples,
  variant: string,
  mark: string,
  uneasy: Uneasy
): readonly Change[] {
  return metrics.map(({ name: metric, unit, better }) => {
    const now = values(samples, variant, metric)
    const then = values(samples, variant + mark, metric)
    const ratio = paired(now, then, (a, b) => a / b)
    const worse = better === 'lower' ? ratio > 1 + CHANGE : ratio < 1 - CHANGE
    const improved = better === 'lower' ? ratio < 1 - CHANGE : ratio > 1 + CHANGE
    const verdict = uneasy(stage, metric) ? 'inconclusive' : worse ? 'worse' : improved ? 'better' : 'same'
    return { stage, variant, metric, unit, ours: median(now), rival: median(then), ratio, verdict }
  })
}
