import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import { measured } from '../../src/audit/measures.js'
import type { AttackResult } from '../../src/audit/result.js'
import { WAYS } from '../../src/audit/ways.js'
import type { Exchange } from '../../src/audit/exchange.js'
import { EPOCH, exchanged, fields } from './kit.js'

const attack = ATTACKS[0]!

function measure(exchanges: readonly Exchange[], cost = 1): AttackResult {
  return measured({ attack, exchanges, notes: [] }, { quota: 2, window: 1000, cost, began: EPOCH - 500 })
}

t.test('an attack is measured by the times of its requests', async t => {
  const result = measure([
    exchanged({ at: 0, fields: fields(1, 1) }),
    exchanged({ at: 10, took: 5 }),
    exchanged({ at: 990, took: 2.5 }),
    exchanged({ at: 995, took: 5, status: 429, fields: { ...fields(0, 1), 'retry-after': '1' } }),
    exchanged({ at: 996, status: undefined }),
    exchanged({ at: 3000, took: 2000 })
  ])
  t.match(result, {
    name: 'drained',
    about: attack.about,
    from: 500,
    to: 5500,
    sent: 6,
    admitted: 4,
    refused: 1,
    failed: 1,
    mostInAnyWindow: 3,
    mostPossible: 3,
    excess: 1.5,
    firstSecond: 3,
    firstRefusalAfter: 1000,
    lateness: 0,
    worstWindow: { from: 500, to: 1492.5 }
  })
  t.strictSame(result.requests[0], {
    sent: 500,
    arrived: 501,
    status: 200,
    outcome: 'admitted',
    variant: null,
    available: 1,
    retryAfter: null
  })
  t.match(result.requests[3], { status: 429, outcome: 'refused', available: 0, retryAfter: 1000 })
  t.match(result.requests[4], { status: null, outcome: 'failed' })
})

t.test('units are counted, not requests, and what was refused throughout has no worst window', async t => {
  t.match(measure([exchanged({ at: 0 }), exchanged({ at: 1 })], 5), {
    admitted: 10,
    mostInAnyWindow: 10,
    mostPossible: 10,
    excess: 5,
    firstSecond: 10,
    firstRefusalAfter: null
  })
  t.match(measure([exchanged({ at: 0, status: 429 })]), { mostInAnyWindow: 0, excess: 0, worstWindow: null })
})

t.test('lateness is that of nine requests in ten, and a way around is named', async t => {
  const late = Array.from({ length: 10 }, (_, i) =>
    exchanged({ at: 100 + 10 * i, planned: 100, way: WAYS[0]! })
  )
  const result = measure(late)
  t.equal(result.lateness, 80)
  t.equal(result.requests[0]?.variant, 'head')
})
