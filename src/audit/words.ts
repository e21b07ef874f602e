import { duration } from '../simulate/duration.js'
import type { AuditPromise, AuditResult, WorstWindow } from './result.js'

/** A window in seconds, as the options write it. */
export const windowOf = ({ window }: Pick<AuditPromise, 'window'>): string => duration(window * 1000)

/** A point in time, as seconds since the audit began. */
export const secondsOf = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(3)}s`

/** Milliseconds for a reader: exact below a second, then less and less. */
export function roughly(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.ceil(milliseconds)}ms`
  const seconds = Math.ceil(milliseconds / 1000)
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 120 ? `${minutes}m` : `${Math.ceil(minutes / 60)}h`
}

/** More than 1 never looks like 1. */
export const excessOf = (excess: number): string => `${(Math.ceil(excess * 100 - 1e-6) / 100).toFixed(2)}x`

/** Units from what is sure to what is possible. */
export function spreadOf(
  { mostInAnyWindow, mostPossible }: Pick<WorstWindow, 'mostInAnyWindow' | 'mostPossible'>,
  between: string
): string {
  return [...new Set([mostInAnyWindow, mostPossible])].join(between)
}

/** What is promised and by whom, without a full stop. */
export function promiseOf(promise: AuditPromise): string {
  const { quota, policy, source } = promise
  const name = policy === null ? '' : `, policy "${policy}"`
  const who = { fields: `its own fields${name}`, options: 'you', both: `its own fields and you${name}` }[
    source
  ]
  return `${quota} per ${windowOf(promise)} are promised by ${who}`
}

/** Whether the promise was kept, as a sentence. */
export function verdictOf({ promise, worst, promiseKept }: AuditResult): string {
  const { quota } = promise
  const { mostInAnyWindow, mostPossible } = worst
  const window = windowOf(promise)
  if (promiseKept) {
    const uncertain = mostPossible > quota ? `; from outside, ${mostPossible} cannot be ruled out` : ''
    return `Kept: no ${window} is sure to have admitted more than ${mostInAnyWindow} of ${quota}${uncertain}.`
  }
  return `Broken: ${mostInAnyWindow} were admitted within ${window}, ${excessOf(worst.excess)} of the ${quota} promised.`
}

/** The requests that prove it, as a sentence; `undefined`: nothing was admitted. */
export function proofOf({ name, mostInAnyWindow, window }: WorstWindow): string | undefined {
  if (window === null) return undefined
  const length = secondsOf(window.to - window.from)
  return `${name}: the first of the ${mostInAnyWindow} was sent at ${secondsOf(window.from)}, the last was answered ${length} later.`
}
