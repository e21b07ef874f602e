import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import type { Exchange } from '../../src/audit/exchange.js'
import { makePlan } from '../../src/audit/plan.js'
import type { AuditResult } from '../../src/audit/result.js'
import { judge } from '../../src/audit/verdict.js'
import type { Evidence } from '../../src/audit/verdict.js'
import { EPOCH, USUAL, exchanged } from './kit.js'

const attacks = ATTACKS.filter(({ name }) => name === 'drained' || name === 'parallel')
const plan = makePlan(attacks, { quota: 2, window: 1000, precision: 20 }, USUAL, {
  maxRequests: 1000,
  maxTime: 60_000
})

interface Seen {
  readonly drained: readonly Exchange[]
  readonly parallel: readonly Exchange[]
  readonly first?: Exchange
  readonly tolerance?: number
}

function evidence({ drained, parallel, first = exchanged({ at: 0 }), tolerance = 0 }: Seen): Evidence {
  return {
    target: 'http://127.0.0.1/items',
    promise: { quota: 2, window: 1, policy: 'p', source: 'fields', others: [] },
    plan,
    cost: 1,
    first,
    runs: [
      { attack: attacks[0]!, exchanges: drained, notes: [] },
      { attack: attacks[1]!, exchanges: parallel, notes: ['was told to wait 9 s, and did not'] }
    ],
    ended: EPOCH + 10_000,
    tolerance
  }
}

const verdict = (seen: Seen): AuditResult => judge(evidence(seen))
const burst = (at: number, statuses: readonly number[]): readonly Exchange[] =>
  statuses.map((status, i) => exchanged({ at: at + i, planned: at, status }))

t.test('a promise is kept if no window is sure to have more', async t => {
  const result = verdict({ drained: burst(2000, [200, 200, 429]), parallel: burst(5000, [200, 429]) })
  t.match(result, {
    promiseKept: true,
    took: 10_000,
    worst: { name: 'drained', mostInAnyWindow: 2, excess: 1, evidence: { length: 2 } },
    notes: ['parallel was told to wait 9 s, and did not.']
  })
})

t.test('a promise is broken by the attack with the most, with its requests as evidence', async t => {
  const result = verdict({
    drained: burst(2000, [200, 200, 429]),
    parallel: burst(5000, [200, 200, 200, 429])
  })
  t.match(result, {
    promiseKept: false,
    worst: { name: 'parallel', mostInAnyWindow: 3, excess: 1.5, window: { from: 5000, to: 5003 } }
  })
  t.strictSame(
    result.worst.evidence.map(({ sent }) => sent),
    [5000, 5001, 5002]
  )
})

t.test('what clocks may differ by is not held against anybody', async t => {
  const early = [...burst(2000, [200, 200, 429]), exchanged({ at: 2998.5 })]
  const parallel = burst(5000, [200, 429])
  t.notOk(verdict({ drained: early, parallel }).promiseKept)
  t.ok(verdict({ drained: early, parallel, tolerance: 1 }).promiseKept)
})

t.test('where most requests fail or find nothing, nobody knows', async t => {
  const failing = burst(2000, [200, 500, 500, 500])
  t.throws(() => verdict({ drained: failing, parallel: burst(5000, [200, 500]) }), {
    code: 'CANNOT_MEASURE',
    message: '4 of 6 requests failed, so nobody knows what would be admitted'
  })
  t.throws(() => verdict({ drained: burst(2000, [429]), parallel: burst(5000, [429]) }), {
    message: /^2 of 2 attacks were admitted nothing/
  })
  const broken = [...failing, ...burst(2010, [200, 200])]
  t.notOk(
    verdict({ drained: broken, parallel: burst(5000, [500, 500, 500, 500]) }).promiseKept,
    'but what is proven stays so'
  )
})

t.test('a machine that is late everywhere cannot measure, and is told where it was late', async t => {
  const late = (at: number): readonly Exchange[] => [
    exchanged({ at, planned: at - 300 }),
    exchanged({ at: at + 1, planned: at - 300, status: 429 })
  ]
  t.throws(() => verdict({ drained: late(2000), parallel: late(5000) }), {
    message: 'this machine sent requests 301 ms late, too late for a window of 1000 ms'
  })
  t.match(verdict({ drained: late(2000), parallel: burst(5000, [200, 429]) }).notes, [
    /told to wait/,
    'drained was sent up to 301 ms late, so it shows less than it might.'
  ])
})

t.test('notes tell what a reader should know', async t => {
  const other = exchanged({
    at: 2002,
    status: 429,
    fields: { ratelimit: '"q";r=0;t=1', 'ratelimit-policy': '"q";q=5;w=5' }
  })
  const { notes } = verdict({
    first: exchanged({ at: 0, status: 404 }),
    drained: [...burst(2000, [200, 500]), other],
    parallel: burst(5000, [200, 429])
  })
  t.strictSame(notes, [
    'The first request was answered with 404: it is not what usual clients ask for.',
    'parallel was told to wait 9 s, and did not.',
    '1 of 3 requests of drained failed.',
    '1 of 2 refusals were by "q", behind which "p" may admit more.'
  ])
  const refused = verdict({
    first: exchanged({ at: 0, status: 429 }),
    drained: burst(2000, [200]),
    parallel: burst(5000, [200])
  })
  t.match(refused.notes, [
    'The first request was refused already: others use the same quota.',
    /told to wait/
  ])
})
