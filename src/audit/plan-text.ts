import { wrapped } from './as-text.js'
import type { Paint } from './as-text.js'
import type { AuditPlan } from './plan.js'
import { promiseOf, roughly } from './words.js'

/** A plan for people: what each attack sends, and how long it takes with the idleness before it. */
export function planAsText({ target, promise, plan }: AuditPlan, paint: Paint): string {
  const rows = plan.attacks.map(({ attack, requests, time }) => [
    attack.name,
    String(requests),
    roughly(time)
  ])
  const lines = [['attack', 'requests', 'at most'], ...rows].map(
    ([name = '', requests = '', time = '']) =>
      `${name.padEnd(16)}  ${requests.padStart(8)}  ${time.padStart(7)}`
  )
  const abouts = plan.attacks.flatMap(({ attack }) =>
    wrapped(attack.about, ' '.repeat(18)).map((line, i) =>
      i === 0 ? attack.name.padEnd(18) + line.trimStart() : line
    )
  )
  return [
    paint('bold', target),
    ...wrapped(`${promiseOf(promise)}.`),
    '',
    paint('bold', lines[0]!),
    ...lines.slice(1),
    '',
    ...abouts,
    '',
    ...plan.leftOut.flatMap(({ name, why }) => wrapped(`${name} is left out: ${why}.`)),
    ...wrapped(
      `${plan.requests} requests and ${roughly(plan.time)} at most. This was a dry run: nothing was attacked.`
    ),
    ''
  ].join('\n')
}

/** A plan for programs. Times are in milliseconds. */
export function planAsJson({ target, promise, plan }: AuditPlan): string {
  const { attacks, leftOut, requests, time } = plan
  const summaries = attacks.map(({ attack, requests, time }) => ({
    name: attack.name,
    about: attack.about,
    requests,
    time
  }))
  return `${JSON.stringify({ target, promise, attacks: summaries, leftOut, requests, time }, null, 2)}\n`
}
