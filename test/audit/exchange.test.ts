import t from 'tap'
import { WAYS } from '../../src/audit/ways.js'
import { exchanged, fields } from './kit.js'

const [way] = WAYS

t.test('a request was admitted, refused, or nobody knows', async t => {
  for (const [status, outcome] of [
    [200, 'admitted'],
    [304, 'admitted'],
    [401, 'admitted'],
    [404, 'admitted'],
    [403, 'admitted'],
    [429, 'refused'],
    [503, 'refused'],
    [500, 'failed'],
    [undefined, 'failed']
  ] as const) {
    t.equal(exchanged({ at: 0, status }).outcome, outcome, String(status))
  }
  t.equal(exchanged({ at: 0, status: 403, fields: fields(0, 1) }).outcome, 'refused', 'nothing is left')
  t.equal(exchanged({ at: 0, fields: { age: '1' } }).outcome, 'failed', 'a cache has answered')
})

t.test('a way around that ends elsewhere is no way around', async t => {
  t.equal(exchanged({ at: 0, way: way! }).outcome, 'admitted')
  t.equal(exchanged({ at: 0, way: way!, status: 404 }).outcome, 'failed')
  t.equal(exchanged({ at: 0, way: way!, status: 429 }).outcome, 'refused')
})

t.test('it is read what the answer tells', async t => {
  const { reading } = exchanged({ at: 0, status: 429, fields: { ...fields(0, 2), 'retry-after': '2' } })
  t.match(reading, {
    refused: true,
    retryAfter: 2000,
    told: [{ policy: 'p', quota: 10, window: 2000, available: 0 }]
  })
})
