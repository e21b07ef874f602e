import t from 'tap'
import { Strikes } from '../../../src/client/limits/strikes.js'

t.test('refusals in a row are counted, and forgotten with the first request that is served', async t => {
  const strikes = new Strikes()
  for (const expected of [1, 2, 3]) {
    strikes.sent(expected)
    t.equal(strikes.refused(expected), expected)
  }
  strikes.sent(4)
  t.equal(strikes.served(4), true)
  strikes.sent(5)
  t.equal(strikes.refused(5), 1)
})

t.test('requests that were on their way when a refusal came in are part of it', async t => {
  const strikes = new Strikes()
  for (const sequence of [1, 2, 3, 4]) strikes.sent(sequence)
  t.strictSame(
    [1, 2, 3].map(sequence => strikes.refused(sequence)),
    [1, 1, 1]
  )
  t.equal(strikes.served(4), false, 'and one that is served forgives nothing')
  strikes.sent(5)
  t.equal(strikes.refused(5), 2)
})

t.test('a request that is met late changes nothing about which was sent last', async t => {
  const strikes = new Strikes()
  strikes.sent(9)
  strikes.sent(3)
  strikes.refused(3)
  t.equal(strikes.served(9), false)
})
