import t from 'tap'
import { costsAsMuch, unitsOf } from '../../src/client/costs.js'
import { HoldingLimit } from '../../src/client/limits/holding.js'
import { SpendingLimit } from '../../src/client/limits/spending.js'
import { exact, spend } from './limits/kit.js'

const limit = (unit: string): SpendingLimit => new SpendingLimit(unit, spend, exact)

t.test('a request costs what is said, and of a unit that nobody named at least one', async t => {
  t.equal(unitsOf({ requests: 1, tokens: 900 }, limit('tokens')), 900)
  t.equal(unitsOf({ requests: 1, tokens: 0 }, limit('tokens')), 0)
  t.equal(unitsOf({ requests: 1 }, limit('tokens')), 1)
  t.equal(unitsOf({ requests: 5 }, new HoldingLimit(exact)), 1, 'and always one place')
})

t.test('a request costs as much as another one only in every unit', async t => {
  t.equal(costsAsMuch({ requests: 1, tokens: 5 }, { requests: 1, tokens: 5 }), true)
  t.equal(costsAsMuch({ requests: 1, tokens: 6 }, { requests: 1, tokens: 5 }), true)
  t.equal(costsAsMuch({ requests: 1, tokens: 4 }, { requests: 1, tokens: 5 }), false)
  t.equal(costsAsMuch({ requests: 2, tokens: 4 }, { requests: 1, tokens: 5 }), false)
  t.equal(costsAsMuch({ requests: 1 }, { requests: 1, tokens: 2 }), false)
  t.equal(costsAsMuch({ requests: 1, tokens: 0 }, { requests: 1 }), false)
})
