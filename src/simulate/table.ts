import { duration } from './duration.js'
import type { Outcome, Report, Result } from './report.js'

/** Gives text a style on a terminal, and leaves it as it is elsewhere. */
export type Paint = (style: Style, text: string) => string
export type Style = 'bold' | 'dim' | 'green' | 'red'

/** Reports for programs. Times are in milliseconds, everything that is admitted in units. */
export function asJson(reports: readonly Report[]): string {
  return `${JSON.stringify({ scenarios: reports.map(jsonReport) }, null, 2)}\n`
}

function jsonReport({
  name,
  title,
  about,
  quota,
  window,
  phases,
  arrivals,
  tenths,
  notes,
  results
}: Report): unknown {
  return {
    scenario: name,
    title,
    about,
    quota,
    window,
    requests: arrivals.length,
    notes,
    algorithms: results.map(({ contender, outcomes }) => ({
      algorithm: contender.name,
      label: contender.label,
      phases: outcomes.map(({ perTenth, ...outcome }, i) => ({
        shift: phases[i]!.shift,
        ...outcome,
        ...(tenths ? { perTenth } : {})
      }))
    }))
  }
}

/** Reports for people: a table each, phases side by side, and what the columns mean. */
export function asText(reports: readonly Report[], paint: Paint): string {
  return [...reports.map(report => textReport(report, paint)), legend(reports, paint)].join('\n')
}

function textReport(report: Report, paint: Paint): string {
  const { name, title, about, quota, window, notes } = report
  const heading = name === 'own' ? title : `${name}. ${title}`
  return [
    `${paint('bold', heading)}: quota ${quota} per ${duration(window)}`,
    about,
    '',
    ...table(report, paint),
    '',
    ...notes.flatMap(note => [note, ''])
  ].join('\n')
}

function legend(reports: readonly Report[], paint: Paint): string {
  const lines = [
    'admitted     units admitted in all',
    'any …        the most in any interval of that length, wherever it starts',
    'excess       that, divided by the quota',
    '1st second   units admitted in the second after the first request',
    'true waits   refusals after whose wait the request is admitted, and 1ms earlier is not',
    ...(reports.some(({ tenths }) => tenths)
      ? ['per tenth    units admitted in each tenth of that second']
      : []),
    ...(reports.some(hasNever) ? ['never        requests that cost more than can ever be held'] : []),
    ...(reports.some(hasQueue)
      ? ['max delay    counted when they start, which is later than they are admitted']
      : []),
    ...(reports.some(hasDrained) ? ['drained      everything was spent just before the first request'] : [])
  ]
  return `${lines.map(line => paint('dim', line)).join('\n')}\n`
}

const hasNever = ({ results }: Report): boolean => results.some(result => refusedForEver(result) > 0)
const hasQueue = ({ results }: Report): boolean => results.some(({ contender }) => contender.queues)
const hasDrained = ({ results }: Report): boolean => results.some(({ contender }) => contender.drained)

interface Column {
  readonly head: string
  readonly cell: (result: Result) => string
  readonly style?: (result: Result) => Style
}

/** Columns under one heading. */
interface Group {
  readonly head: string
  readonly columns: readonly Column[]
}

function table(report: Report, paint: Paint): string[] {
  const { results } = report
  const groups = groupsOf(report)
  const widths = groups.map(({ columns }) => columns.map(column => width(column, results)))
  const line = (cells: (group: Group, widths: readonly number[]) => string): string =>
    groups
      .map((group, i) => cells(group, widths[i]!))
      .join(GAP)
      .trimEnd()
  const heads = line(({ head }, widths) =>
    head.padEnd(widths.reduce((sum, w) => sum + w + GAP.length, -GAP.length))
  )
  return [
    ...(heads === '' ? [] : [heads]),
    line(({ columns }, widths) => columns.map(({ head }, i) => pad(head, head, widths[i]!)).join(GAP)),
    ...results.map(result =>
      line(({ columns }, widths) =>
        columns.map((column, i) => padded(column, result, widths[i]!, paint)).join(GAP)
      )
    )
  ]
}

const GAP = '  '

function groupsOf({ quota, window, phases, tenths, results }: Report): Group[] {
  const measured = phases.map(({ name }, i) => ({ head: name, columns: measures(quota, window, i) }))
  const never: Column = { head: 'never', cell: result => String(refusedForEver(result)) }
  const perTenth: Column = { head: 'per tenth', cell: ({ outcomes }) => outcomes[0]!.perTenth.join(' ') }
  return [
    { head: '', columns: [{ head: 'algorithm', cell: ({ contender }) => contender.label }] },
    ...measured,
    {
      head: '',
      columns: [
        { head: 'true waits', cell: result => waits(result).join(' of '), style: waitsStyle },
        ...(results.some(result => refusedForEver(result) > 0) ? [never] : []),
        ...(tenths ? [perTenth] : [])
      ]
    }
  ]
}

function measures(quota: number, window: number, phase: number): Column[] {
  const of = ({ outcomes }: Result): Outcome => outcomes[phase]!
  return [
    { head: 'admitted', cell: result => String(of(result).admitted) },
    { head: `any ${duration(window)}`, cell: result => String(of(result).mostInAnyWindow) },
    {
      head: 'excess',
      cell: result => hundredths(of(result).mostInAnyWindow, quota),
      style: result => (of(result).excess > 1 ? 'red' : 'green')
    },
    { head: '1st second', cell: result => String(of(result).firstSecond) }
  ]
}

/** Rounded up, so that what is more than 1 never looks like 1. */
function hundredths(most: number, quota: number): string {
  return `${(Math.ceil((most * 100) / quota) / 100).toFixed(2)}x`
}

/** The true waits and all, over all phases. */
function waits({ outcomes }: Result): [number, number] {
  return [sum(outcomes, ({ waits }) => waits.true), sum(outcomes, ({ waits }) => waits.given)]
}

function waitsStyle(result: Result): Style {
  const [kept, given] = waits(result)
  return kept === given ? 'green' : 'red'
}

const refusedForEver = ({ outcomes }: Result): number => sum(outcomes, ({ refusedForEver }) => refusedForEver)

function sum(outcomes: readonly Outcome[], number: (outcome: Outcome) => number): number {
  return outcomes.reduce((total, outcome) => total + number(outcome), 0)
}

function width({ head, cell }: Column, results: readonly Result[]): number {
  return Math.max(head.length, ...results.map(result => cell(result).length))
}

/** Painted after it was padded, for styles have no width. */
function padded({ head, cell, style }: Column, result: Result, width: number, paint: Paint): string {
  const text = pad(head, cell(result), width)
  return style === undefined ? text : paint(style(result), text)
}

/** Words start at the left of their column, numbers end at its right. */
function pad(head: string, text: string, width: number): string {
  return WORDS.includes(head) ? text.padEnd(width) : text.padStart(width)
}

const WORDS = ['algorithm', 'per tenth']
