import { ALIKE } from './judging.js'
import type { Change, Result, Twins } from './judging.js'
import type { Bound } from './row.js'

/** All that came out of a run. */
export interface Report {
  readonly node: string
  readonly rounds: number
  readonly seconds: number
  readonly twins: readonly Twins[]
  /** Against rivals. */
  readonly results: readonly Result[]
  /** Against another commit. */
  readonly changes: readonly Change[]
  /** What could not be measured, a sentence each. */
  readonly notes: readonly string[]
}

/** For programs. */
export function asJson(report: object): string {
  return `${JSON.stringify(report, (_key, value: unknown) => (typeof value === 'function' ? undefined : value), 2)}\n`
}

/** For people. */
export function asText({ node, rounds, seconds, twins, results, changes, notes }: Report): string {
  const tables = [
    results.length > 0
      ? table(RESULTS, [...results.map(resultCells), ...twins.map(twinCells)], words(RESULTS))
      : [],
    changes.length > 0
      ? table(CHANGES, [...changes.map(changeCells), ...twins.map(changedTwinCells)], words(CHANGES))
      : []
  ]
  const foot = `Node.js ${node}, ${rounds} rounds, ${Math.round(seconds)} s. A/A: two that are the same; outside of ${ALIKE.least} to ${ALIKE.most}, nothing is concluded from it.`
  return [...tables.filter(lines => lines.length > 0), notes, [foot]]
    .filter(lines => lines.length > 0)
    .map(lines => `${lines.join('\n')}\n`)
    .join('\n')
}

type Cells = readonly string[]

const RESULTS: Cells = [
  '',
  'measure',
  'ours',
  'rival',
  'unit',
  'ratio',
  'in parts',
  'target',
  'stretch',
  'verdict'
]
const CHANGES: Cells = ['group', 'subject', 'now', 'then', 'unit', 'ratio', 'verdict']

/** Columns of words; the others are of numbers, which end at the right. */
const WORDS = ['', 'measure', 'group', 'subject', 'unit', 'verdict']
const words = (heads: Cells): readonly number[] =>
  heads.flatMap((head, i) => (WORDS.includes(head) ? [i] : []))

function resultCells(result: Result): Cells {
  const { name, measure, ours, rival, unit, ratio, ratioUnit = '', range, target, stretch, verdict } = result
  const parts = range === undefined ? '' : range.map(number).join('–')
  return [
    name,
    measure,
    number(ours),
    number(rival),
    unit,
    number(ratio) + ratioUnit,
    parts,
    bound(target),
    bound(stretch),
    verdict
  ]
}

function twinCells({ stage, metric, names, ours, rival, unit, ratio, alike }: Twins): Cells {
  const measure = `${stage}, ${metric}: ${names.toReversed().join(', to ')}`
  const verdict = alike ? 'alike' : 'not alike'
  return ['A/A', measure, number(ours), number(rival), unit, number(ratio), '', '', '', verdict]
}

function changeCells({ stage, variant, metric, ours, rival, unit, ratio, verdict }: Change): Cells {
  return [
    stage,
    `${variant}: ${metric}`,
    number(ours),
    number(rival),
    unit,
    number(ratio),
    verdict === 'same' ? '' : verdict
  ]
}

function changedTwinCells({ stage, metric, names, ours, rival, unit, ratio, alike }: Twins): Cells {
  return [
    stage,
    `A/A, ${metric}: ${names.join(', ')}`,
    number(ours),
    number(rival),
    unit,
    number(ratio),
    alike ? '' : 'not alike'
  ]
}

/** Three digits that say something. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const size = Math.abs(value)
  if (size >= 100) return value.toFixed(0)
  if (size >= 10) return value.toFixed(1)
  return size >= 0.1 || size === 0 ? value.toFixed(2) : value.toPrecision(2)
}

function bound(bound: Bound | undefined): string {
  if (bound === undefined) return ''
  return 'most' in bound ? `≤ ${bound.most}` : `≥ ${bound.least}`
}

/** Lines of cells below one another; the columns of words begin at the left, and all others end at the right. */
export function table(heads: Cells, rows: readonly Cells[], ofWords: readonly number[]): readonly string[] {
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map(cells => cells[i]!.length)))
  return [heads, ...rows].map(cells =>
    cells
      .map((cell, i) => (ofWords.includes(i) ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd()
  )
}
