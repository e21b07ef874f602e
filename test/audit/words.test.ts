import t from 'tap'
import {
  excessOf,
  promiseOf,
  proofOf,
  roughly,
  secondsOf,
  verdictOf,
  windowOf
} from '../../src/audit/words.js'
import { smallResult } from './small-result.js'

t.test('lengths of time are as short as they are useful', async t => {
  t.strictSame([0, 0.2, 999, 1001, 119_000, 120_001, 7_199_000, 7_200_001].map(roughly), [
    '0ms',
    '1ms',
    '999ms',
    '2s',
    '119s',
    '3m',
    '2h',
    '3h'
  ])
  t.equal(secondsOf(1234.5678), '1.235s')
  t.strictSame(
    [0.5, 2, 60].map(window => windowOf({ window })),
    ['500ms', '2s', '1m']
  )
})

t.test('an excess of more than 1 never looks like 1', async t => {
  t.strictSame([0, 1, 1.0001, 1.9, 2].map(excessOf), ['0.00x', '1.00x', '1.01x', '1.90x', '2.00x'])
})

t.test('it is said who promised', async t => {
  const promise = { quota: 10, window: 2, policy: 'p', source: 'fields', others: [] } as const
  t.equal(promiseOf(promise), '10 per 2s are promised by its own fields, policy "p"')
  t.equal(
    promiseOf({ ...promise, source: 'both' }),
    '10 per 2s are promised by its own fields and you, policy "p"'
  )
  t.equal(promiseOf({ ...promise, policy: null, source: 'options' }), '10 per 2s are promised by you')
})

t.test('the verdict tells what is sure, and what is possible', async t => {
  t.equal(verdictOf(smallResult()), 'Broken: 3 were admitted within 2s, 1.50x of the 2 promised.')
  const kept = smallResult({ most: 2 })
  t.equal(verdictOf(kept), 'Kept: no 2s is sure to have admitted more than 2 of 2.')
  const worst = { ...kept.worst, mostPossible: 3 }
  t.equal(
    verdictOf({ ...kept, worst }),
    'Kept: no 2s is sure to have admitted more than 2 of 2; from outside, 3 cannot be ruled out.'
  )
  t.equal(
    proofOf(smallResult().worst),
    'drained: the first of the 3 was sent at 0.100s, the last was answered 0.025s later.'
  )
  t.equal(proofOf({ ...kept.worst, window: null }), undefined)
})
