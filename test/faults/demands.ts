import type { FailureMode } from '../../src/index.js'
import type { Period, Sight } from './bench.js'

/** Failures in a row that a breaker takes to open. */
const IN_A_ROW = 5

/** Milliseconds: the grain of timers, and the longest recovery. */
const GRAIN = 2
const RECOVERY = 2000

/** The part of the rate that has to be answered while something is wrong. */
const THROUGHPUT = 0.9

/** Connections that a process may make soon, as the first pauses between them grow from nothing, by chance. */
const SOON = 8

/** Connections a second that it may make from then on, whatever happens to them. */
const CONNECTIONS = 3

/** What one mode's clients were admitted and told in the whole time. */
export interface Total {
  readonly redis: number
  readonly local: number
  readonly admitted: number
  /** Units beyond the quota. */
  readonly over: number
  /** Units that Redis has counted and nobody was told of; `undefined`: it could not be asked, or has forgotten. */
  readonly unheard: number | undefined
  readonly statuses: Readonly<Record<string, number>>
  readonly strays: readonly string[]
}

export function totalOf({ fault, terms, warm, periods, books }: Sight, mode: FailureMode): Total {
  const all = [warm, ...periodsOf(periods).map(({ told }) => told)].flatMap(told => told.get(mode) ?? [])
  const redis = sum(all.map(({ admitted }) => admitted.redis))
  const local = sum(all.map(({ admitted }) => admitted.local))
  const admitted = redis + local + sum(all.map(({ admitted }) => admitted.open))
  const charged = books.charged[mode]
  const codes = new Set(all.flatMap(({ statuses }) => Object.keys(statuses)))
  return {
    redis,
    local,
    admitted,
    over: Math.max(0, admitted - terms.quota),
    unheard: fault.forgets || charged === undefined ? undefined : charged - redis,
    statuses: Object.fromEntries(
      [...codes].sort().map(code => [code, sum(all.map(told => told.statuses[code]))])
    ),
    strays: [...new Set(all.flatMap(({ strays }) => [...strays]))]
  }
}

/** The periods of a fault, in their order. */
export function periodsOf({ before, during, after }: Sight['periods']): readonly Period[] {
  return [...(before === undefined ? [] : [before]), during, after]
}

/** What must be true however slow the machine is, and is not: a sentence for each. */
export function brokenPromises(sight: Sight): readonly string[] {
  const { fault, terms, periods, recovery, books } = sight
  const broken: string[] = books.problems.map(problem => `the app had a problem: ${problem}`)
  const demand = (kept: boolean, otherwise: string): void => void (kept || broken.push(otherwise))
  const { warns = [] } = fault
  const states = books.changes.map(({ state }) => state)
  demand(recovery < Infinity, `Redis does not decide again within ${terms.patience} s`)
  demand(
    states.every((state, i) => state === (i % 2 === 0 ? 'down' : 'up')),
    `changes are no turns of down and up: ${states.join(', ')}`
  )
  demand(fault.momentary === true || states.includes('down'), 'nobody has noticed the fault')
  demand(
    books.lines.map(({ level, code }) => `${level} ${code}`).join() ===
      books.changes.map(({ state, code }) => `${state === 'up' ? 30 : 40} ${code}`).join(),
    `the log is not one line for each change: ${JSON.stringify(books)}`
  )
  demand(
    books.warnings.join() === warns.join(),
    `the app has warned of ${books.warnings.join(', ') || 'nothing'}`
  )
  const seconds = sum(periodsOf(periods).map(({ seconds }) => seconds))
  const connections = SOON + Math.ceil(CONNECTIONS * seconds)
  demand(books.connections <= connections, `the store has connected ${books.connections} times`)
  for (const mode of terms.modes) {
    const { redis, local, over, unheard, strays } = totalOf(sight, mode)
    const most = fault.forgets ? 2 * terms.quota : terms.quota
    const share = mode === 'local' ? terms.quota / terms.instances : 0
    const charged = books.charged[mode]
    broken.push(...strays.map(stray => `an answer is wrong: ${stray}`))
    demand(redis > 0 && redis <= most, `${mode}: Redis has admitted ${redis} of ${most}`)
    demand(local <= share, `${mode}: the process has admitted ${local} of its share of ${share}`)
    demand(mode !== 'closed' || over <= most - terms.quota, `${mode}: ${over} over the quota`)
    demand(
      charged !== undefined && charged <= terms.quota,
      `${mode}: Redis has counted ${charged} of ${terms.quota}`
    )
    demand(unheard === undefined || unheard >= 0, `${mode}: ${unheard} admitted that Redis has not counted`)
    for (const { told } of periodsOf(periods))
      demand((told.get(mode)?.answers ?? 0) > 0, `${mode}: nobody is answered`)
    const seen = periods.during.told.get(mode)?.sources[mode]
    demand(fault.momentary === true || seen !== undefined, `${mode}: nobody was answered by this mode`)
  }
  return broken
}

/** What the decision may add to a request in a period: the deadline, and what the event loop is late. */
export function allowance(
  { terms }: Sight,
  { loop }: Period
): { readonly p99: number; readonly max: number } {
  const deadline = Number.parseInt(String(terms.deadline), 10)
  // When the time is over, the replies that have arrived by then are read before anybody gives up: a timer may be late by
  // one turn of the loop, and that takes another.
  const allowed = (late: number): number => deadline + 2 * late + GRAIN
  return { p99: allowed(loop.p99), max: allowed(loop.max) }
}

/** Requests that may wait until their deadline: those on the way when a fault begins, until the breaker opens. */
export function mayBeOverdue(sight: Sight): number {
  const { terms, periods, books } = sight
  const downs = books.changes.filter(({ state }) => state === 'down').length
  const longest = Math.max(...periodsOf(periods).map(period => allowance(sight, period).max))
  return Math.max(1, downs) * Math.ceil((terms.rate * longest) / 1000 + IN_A_ROW)
}

/** What has to be true on a machine that has the time, and is not. */
export function missedTimes(sight: Sight): readonly string[] {
  const { terms, periods, recovery } = sight
  const missed: string[] = []
  const demand = (kept: boolean, otherwise: string): void => void (kept || missed.push(otherwise))
  demand(recovery <= RECOVERY, `Redis decides again after ${ms(recovery)} instead of ${RECOVERY} ms`)
  for (const [name, period] of Object.entries<Period>(periods)) {
    const allowed = allowance(sight, period)
    for (const [mode, wait] of Object.entries(period.waits)) {
      const about = `${name}, ${mode}: a decision adds`
      demand(wait.p99 <= allowed.p99, `${about} ${ms(wait.p99)} in 99 of 100, more than ${ms(allowed.p99)}`)
      demand(wait.max <= allowed.max, `${about} up to ${ms(wait.max)}, more than ${ms(allowed.max)}`)
    }
    const rate = rateOf(period)
    demand(rate >= THROUGHPUT * terms.rate, `${name}: ${Math.round(rate)} requests a second are answered`)
  }
  const overdue = overdueOf(sight)
  const most = mayBeOverdue(sight)
  demand(overdue <= most, `${overdue} requests wait until their deadline, more than ${most}`)
  return missed
}

/** Requests that were answered in a second. */
export function rateOf({ told, seconds }: Period): number {
  return sum([...told.values()].map(({ answers }) => answers)) / seconds
}

/** Requests that waited until their deadline. */
export function overdueOf({ periods }: Sight): number {
  const waits = periodsOf(periods).flatMap(({ waits }) => Object.values(waits))
  return sum(waits.map(({ overdue }) => overdue))
}

const sum = (numbers: readonly (number | undefined)[]): number =>
  numbers.reduce<number>((total, number) => total + (number ?? 0), 0)

const ms = (time: number): string => `${time.toFixed(1)} ms`
