import t from 'tap'
import { adviceOf } from '../../src/audit/advice.js'
import type { AuditResult, FieldCheck, Limiter } from '../../src/audit/result.js'
import { sample } from './sample.js'

const honest = await sample({ quota: 5, window: '10s' })

const found = (changes: Partial<AuditResult>): readonly string[] => adviceOf({ ...honest, ...changes })

const answered = (answer: FieldCheck['answer']): Partial<AuditResult> => ({
  fields: { seen: [], checks: honest.fields.checks.map(check => ({ ...check, answer })) }
})

t.test('who keeps all promises is told nothing', async t => {
  t.strictSame(found({}), [])
})

t.test('each kind of limiter that breaks its promise gets advice of its own', async t => {
  const kinds: readonly Limiter['kind'][] = ['fixed', 'counter', 'bucket', 'log', 'none', 'unknown']
  const advice = kinds.map(kind => found({ promiseKept: false, limiter: { ...honest.limiter, kind } })[0]!)
  t.equal(new Set(advice).size, kinds.length)
  t.match(advice[0], /twice the quota around each edge: a sliding window or an exact log keeps 5 in any 10s/)
  t.match(advice[4], /^Nothing was refused/)
  const bucket = (capacity: number | null): string =>
    found({ promiseKept: false, limiter: { ...honest.limiter, kind: 'bucket', capacity } })[0]!
  t.match(bucket(8), /within 10s, here 8 and more:/)
  t.match(bucket(null), /within 10s: /)
})

t.test('every lie of the fields has an advice, and doubts have where something can be done', async t => {
  t.equal(found(answered('false')).length, honest.fields.checks.length)
  t.ok(found(answered('careful')).length >= 3)
  t.strictSame(found(answered('unseen')), [])
})
