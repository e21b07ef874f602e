import type { AttackResult, AuditResult } from './result.js'

/** A result for programs, without the single requests, of which those remain that prove the worst window. */
export function asJson({
  target,
  promise,
  attacks,
  worst,
  limiter,
  fields,
  promiseKept,
  ...more
}: AuditResult): string {
  const summaries = attacks.map(summary)
  const result = { target, promise, attacks: summaries, worst, limiter, fields, promiseKept, ...more }
  return `${JSON.stringify(result, null, 2)}\n`
}

function summary({
  requests: _,
  name,
  sent,
  admitted,
  mostInAnyWindow,
  excess,
  ...more
}: AttackResult): unknown {
  return { name, sent, admitted, mostInAnyWindow, excess, ...more }
}
