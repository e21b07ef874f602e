import { parseArgs } from 'node:util'
import type { FailureMode } from '../../src/index.js'
import type { Owner } from '../redis/servers.js'
import { Bench } from './bench.js'
import type { Ending, Period, Sight, Terms } from './bench.js'
import {
  allowance,
  brokenPromises,
  mayBeOverdue,
  missedTimes,
  overdueOf,
  rateOf,
  totalOf
} from './demands.js'
import { faults } from './faults.js'
import type { Fault } from './faults.js'

/*
 * Lets a real Redis fail in all ways, in each failure mode, and prints what a loaded app made of it. Ends with 1 if a
 * demand was not met. `--quick` does it with less load, `--fault` and `--mode` choose.
 */

const MODES: readonly FailureMode[] = ['open', 'closed', 'local']

const FULL: Terms = {
  modes: MODES,
  rate: 1000,
  quota: 3600,
  instances: 4,
  deadline: '50ms',
  seconds: { warm: 1, before: 1.5, during: 2.5, after: 1.5 },
  patience: 10
}

const QUICK: Terms = {
  ...FULL,
  rate: 400,
  quota: 600,
  seconds: { warm: 0.4, before: 0.6, during: 1.5, after: 0.8 }
}

/** Milliseconds that an app takes to close, and its process to end. */
const CLOSE = 2000

/** Of the columns. */
const WIDTHS = [27, 8, 20, 13, 14, 13, 14, 12, 13, 16, 8, 9, 15, 8, 8]

/** Milliseconds that an event loop is late where nothing is wrong: from then on, times say more of the machine. */
const BUSY = 25
const BUSY_NOTE = 'The machine had other things to do, before anything was wrong: do not trust the times.'

interface Row {
  readonly sight: Sight
  readonly ending: Ending
  readonly mode: FailureMode
}

const { values } = parseArgs({
  options: { quick: { type: 'boolean' }, fault: { type: 'string' }, mode: { type: 'string' } }
})
const terms = values.quick === true ? QUICK : FULL
const failures: string[] = []
const notes = new Set<string>()
const start = performance.now()

console.log(
  `${terms.rate} requests a second, deadline ${terms.deadline}, quota ${terms.quota} a day, ${terms.instances} instances (this is one of them)\n`
)
console.log(heading())
for (const fault of faults.filter(({ name }) => name.includes(values.fault ?? ''))) {
  for (const mode of MODES.filter(mode => mode === (values.mode ?? mode))) {
    const row = await see(fault, mode)
    console.log(line(row))
    judge(row)
  }
}
console.log(`\n${[...notes].join('\n')}`)
console.log(`\n${Math.round((performance.now() - start) / 1000)} s, ${failures.length} demands not met`)
for (const failure of failures) console.log(`  ${failure}`)
process.exitCode = failures.length === 0 ? 0 : 1

async function see(fault: Fault, mode: FailureMode): Promise<Row> {
  const endings: (() => unknown)[] = []
  const owner: Owner = { teardown: work => endings.push(work) }
  try {
    const bench = await Bench.start(owner, { ...terms, modes: [mode] }, fault)
    const sight = await bench.see(fault)
    return { sight, ending: await bench.close(), mode }
  } finally {
    for (const end of endings.toReversed()) await end()
  }
}

function judge({ sight, ending: { closed, exited, code }, mode }: Row): void {
  const about = `${sight.fault.name}, ${mode}`
  const demands = [...brokenPromises(sight), ...missedTimes(sight)]
  if (code !== 0) demands.push(`the process of the app has ended with ${code}`)
  if (closed + exited > CLOSE)
    demands.push(`the app closed in ${closed} ms and its process ended ${exited} later`)
  failures.push(...demands.map(demand => `${about}: ${demand}`))
  if ((sight.periods.before?.loop.p99 ?? 0) > BUSY) notes.add(BUSY_NOTE)
  if (sight.fault.forgets) notes.add(`${sight.fault.name}: state lost: at most one quota more.`)
}

function heading(): string {
  return [
    row(
      '',
      '',
      'requests/s',
      'added during, ms',
      '',
      'added after, ms',
      '',
      'loop, ms',
      '',
      '',
      '',
      '',
      '',
      '',
      ''
    ),
    row(
      'fault',
      'mode',
      'before/during/after',
      'p99 (of)',
      'max (of)',
      'p99 (of)',
      'max (of)',
      'p99/max',
      'overdue (of)',
      'admitted (over)',
      'unheard',
      'recovery',
      '200/429/503',
      'down/up',
      'connects'
    )
  ].join('\n')
}

function row(...cells: readonly string[]): string {
  return cells
    .map((cell, i) => cell.padEnd(WIDTHS[i]!))
    .join(' ')
    .trimEnd()
}

function line({ sight, mode }: Row): string {
  const { fault, periods, recovery, books } = sight
  const { before, during, after } = periods
  const { admitted, over, unheard, statuses } = totalOf(sight, mode)
  const rate = (period: Period | undefined): string =>
    period === undefined ? '-' : String(Math.round(rateOf(period)))
  const count = (state: string): number => books.changes.filter(change => change.state === state).length
  return row(
    fault.name,
    mode,
    `${rate(before)}/${rate(during)}/${rate(after)}`,
    ...added(sight, mode, during),
    ...added(sight, mode, after),
    `${during.loop.p99.toFixed(1)}/${during.loop.max.toFixed(1)}`,
    `${overdueOf(sight)} (${mayBeOverdue(sight)})`,
    `${admitted} (${over})`,
    unheard === undefined ? '-' : String(unheard),
    `${Math.round(recovery)} ms`,
    ['200', '429', '503'].map(status => statuses[status] ?? 0).join('/'),
    `${count('down')}/${count('up')}`,
    String(books.connections)
  )
}

/** What a decision added, and what it may. */
function added(sight: Sight, mode: FailureMode, period: Period): readonly [p99: string, max: string] {
  const { p99 = 0, max = 0 } = period.waits[mode] ?? {}
  const allowed = allowance(sight, period)
  return [`${p99.toFixed(1)} (${allowed.p99.toFixed(1)})`, `${max.toFixed(1)} (${allowed.max.toFixed(1)})`]
}
