import type { AttackResult, AuditPromise, AuditResult, FieldCheck } from './result.js'
import { excessOf, promiseOf, verdictOf, windowOf } from './words.js'

/** How much is a failure: more than was promised, or also what fields say that is not true. */
export type Severity = 'promise' | 'fields'

/** A result for build servers, as JUnit writes it: a test case for each attack, and one for each field. */
export function asJUnit(result: AuditResult, severity: Severity): string {
  const { target, promise, attacks, fields, took, startedAt } = result
  const cases = [
    ...attacks.map(attack => attackCase(attack, promise)),
    ...fields.checks.map(check => fieldCase(check, severity))
  ]
  const counts = `tests="${cases.length}" failures="${count(cases, '<failure')}" errors="0" skipped="${count(cases, '<skipped')}"`
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="fastify-quota audit" ${counts} time="${took / 1000}">`,
    `  <testsuite name="${escaped(target)}" ${counts} time="${took / 1000}" timestamp="${startedAt}">`,
    ...cases.map(text => text.replaceAll(/^/gm, '    ')),
    `    <system-out>${escaped(`${promiseOf(promise)}. ${verdictOf(result)}`)}</system-out>`,
    '  </testsuite>',
    '</testsuites>',
    ''
  ].join('\n')
}

function attackCase(attack: AttackResult, promise: AuditPromise): string {
  const { name, about, from, to, mostInAnyWindow, excess } = attack
  const message = `${mostInAnyWindow} admitted within ${windowOf(promise)}, ${excessOf(excess)} of the ${promise.quota} promised`
  const inside = excess > 1 ? failure(message, `${name} ${about}. ${message}.`) : ''
  return testCase('attacks', name, (to - from) / 1000, inside)
}

function fieldCase({ name, question, answer, detail }: FieldCheck, severity: Severity): string {
  const text = `${question} ${answer}: ${detail}`
  const inside = {
    true: '',
    unseen: `<skipped message="${escaped(detail)}"/>`,
    careful: `<system-out>${escaped(text)}</system-out>`,
    false: severity === 'fields' ? failure(detail, text) : `<system-out>${escaped(text)}</system-out>`
  }[answer]
  return testCase('fields', name, 0, inside)
}

function failure(message: string, text: string): string {
  return `<failure message="${escaped(message)}">${escaped(text)}</failure>`
}

function testCase(group: string, name: string, time: number, inside: string): string {
  const open = `<testcase classname="audit.${group}" name="${escaped(name)}" time="${time.toFixed(3)}"`
  return inside === '' ? `${open}/>` : `${open}>\n  ${inside}\n</testcase>`
}

const count = (cases: readonly string[], element: string): number =>
  cases.filter(text => text.includes(element)).length

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Without what XML 1.0 has no way to write. */
function escaped(text: string): string {
  return text
    .replaceAll(/[&<>"]/g, character => ENTITIES[character]!)
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]/g, '\ufffd')
}
