import { CannotMeasureError } from './errors.js'
import type { Exchange } from './exchange.js'
import { measured, since } from './measures.js'
import type { Plan } from './plan.js'
import { resemblance } from './resemblance.js'
import type { AttackResult, AuditPromise, AuditResult, WorstWindow } from './result.js'
import type { Run } from './runner.js'
import { fieldsReport } from './truth.js'

/** All that was seen. */
export interface Evidence {
  readonly target: string
  readonly promise: AuditPromise
  readonly plan: Plan
  readonly cost: number
  /** The request that asked for the promise. */
  readonly first: Exchange
  readonly runs: readonly Run[]
  /** When the audit ended, in milliseconds of the epoch. */
  readonly ended: number
  /** Milliseconds by which a window may look longer than the server takes it to be. */
  readonly tolerance: number
}

/**
 * What the evidence proves.
 *
 * @throws {CannotMeasureError} when it proves nothing.
 */
export function judge(evidence: Evidence): AuditResult {
  const { target, promise, plan, cost, first, runs, ended, tolerance } = evidence
  const { window } = plan.terms
  const began = first.sent
  const measure = { quota: promise.quota, window: window - tolerance, cost, began }
  const results = runs.map(run => measured(run, measure))
  const worst = worstOf(results)
  const promiseKept = worst.mostInAnyWindow <= promise.quota
  if (promiseKept) provable(results, window)
  const exchanges = [first, ...runs.flatMap(run => run.exchanges)]
  return {
    target,
    startedAt: new Date(began).toISOString(),
    took: since(began, ended),
    promise,
    attacks: results,
    worst,
    limiter: resemblance({ window, cost, runs, results }),
    fields: fieldsReport({ exchanges, cost, window }),
    promiseKept,
    notes: notes(evidence, results)
  }
}

/** The one with the most that is sure, and among those the most that is possible. */
function worstOf(results: readonly AttackResult[]): WorstWindow {
  const [worst] = results.toSorted(
    (a, b) => b.mostInAnyWindow - a.mostInAnyWindow || b.mostPossible - a.mostPossible
  )
  const { name, mostInAnyWindow, mostPossible, excess, worstWindow, requests } = worst!
  const evidence = requests.filter(
    ({ outcome, sent, arrived }) =>
      worstWindow !== null && outcome === 'admitted' && sent >= worstWindow.from && arrived <= worstWindow.to
  )
  return { name, mostInAnyWindow, mostPossible, excess, window: worstWindow, evidence }
}

/** What was broken is proven by few requests; that nothing was broken needs all. */
function provable(results: readonly AttackResult[], window: number): void {
  const sent = results.reduce((sum, result) => sum + result.sent, 0)
  const failed = results.reduce((sum, result) => sum + result.failed, 0)
  if (2 * failed > sent) {
    throw new CannotMeasureError(
      `${failed} of ${sent} requests failed, so nobody knows what would be admitted`
    )
  }
  const idle = results.filter(({ admitted }) => admitted === 0).length
  if (2 * idle > results.length) {
    throw new CannotMeasureError(
      `${idle} of ${results.length} attacks were admitted nothing, though a window had passed without a request: ` +
        'somebody else spends the quota, another one lasts longer, or it counts on another clock'
    )
  }
  const late = Math.min(...results.map(({ lateness }) => lateness))
  if (late > TOO_LATE * window) {
    throw new CannotMeasureError(
      `this machine sent requests ${Math.round(late)} ms late, too late for a window of ${window} ms`
    )
  }
}

/** In windows. */
const TOO_LATE = 0.25

function notes({ plan, promise, first, runs }: Evidence, results: readonly AttackResult[]): string[] {
  const { window } = plan.terms
  return [
    ...firstNote(first),
    ...plan.leftOut.map(({ name, why }) => `${name} was left out: ${why}.`),
    ...runs.flatMap(({ attack, notes }) => notes.map(note => `${attack.name} ${note}.`)),
    ...results
      .filter(({ lateness }) => lateness > TOO_LATE * window)
      .map(
        ({ name, lateness }) =>
          `${name} was sent up to ${Math.round(lateness)} ms late, so it shows less than it might.`
      ),
    ...results
      .filter(({ failed }) => failed > 0)
      .map(({ name, failed, sent }) => `${failed} of ${sent} requests of ${name} failed.`),
    ...otherPolicies(promise, runs),
    ...around(results)
  ]
}

function firstNote({ status, outcome }: Exchange): string[] {
  if (outcome === 'refused') return ['The first request was refused already: others use the same quota.']
  return status !== undefined && status >= 400
    ? [`The first request was answered with ${status}: it is not what usual clients ask for.`]
    : []
}

/** Refusals that the attacked policy is not to blame for, and that so may have hidden it. */
function otherPolicies({ policy }: AuditPromise, runs: readonly Run[]): string[] {
  if (policy === null) return []
  const refusals = runs.flatMap(({ exchanges }) => exchanges).filter(({ outcome }) => outcome === 'refused')
  const blamed = refusals.map(({ reading }) =>
    reading.told.filter(({ available }) => available === 0).map(limit => limit.policy)
  )
  const others = blamed.filter(names => names.length > 0 && !names.includes(policy))
  const names = [...new Set(others.flat())].map(name => `"${name}"`).join(', ')
  return others.length === 0
    ? []
    : [
        `${others.length} of ${refusals.length} refusals were by ${names}, behind which "${policy}" may admit more.`
      ]
}

function around(results: readonly AttackResult[]): string[] {
  return results.flatMap(({ name, requests }) => {
    const ways = requests.filter(({ variant }) => variant !== null && name === `bypass-${variant}`)
    const through = ways.filter(({ outcome }) => outcome === 'admitted').length
    return through === 0
      ? []
      : [`${name}: ${through} of ${ways.length} requests were admitted after all was spent.`]
  })
}
