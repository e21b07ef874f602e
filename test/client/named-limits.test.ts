import t from 'tap'
import { Gate } from '../../src/client/limits/gate.js'
import { HoldingLimit } from '../../src/client/limits/holding.js'
import { SpendingLimit } from '../../src/client/limits/spending.js'
import { NamedLimits } from '../../src/client/named-limits.js'
import { nothingTold } from '../../src/client/told.js'
import { exact, say, spend } from './limits/kit.js'

const limits = (): NamedLimits => new NamedLimits({ ...spend, ...exact })

t.test('a limit is made once of what is told, and is of the kind of its unit', async t => {
  const all = limits()
  const requests = all.told(say({ policy: 'a', quota: 10 }))
  t.ok(requests.limit instanceof SpendingLimit)
  t.equal(requests.limit.unit, 'requests')
  t.equal(all.told(say({ policy: 'a', available: 9 })), requests)
  t.ok(all.told(say({ policy: 'b', unit: 'concurrent-requests' })).limit instanceof HoldingLimit)
  t.equal(all.told(say({ policy: 'c', unit: 'tokens', available: 1 })).limit.unit, 'tokens')
})

t.test('a policy that only has a name is a limit without numbers, until it has some', async t => {
  const all = limits()
  const bare = all.named('a', nothingTold('a'))
  t.ok(bare.limit instanceof Gate)
  t.equal(all.named('a', nothingTold('a')), bare)
  t.equal(all.told(nothingTold('a')), bare)
  const known = all.told(say({ policy: 'a', available: 1 }))
  t.ok(known.limit instanceof SpendingLimit)
  t.equal(all.named('a', nothingTold('a')), known)
})

t.test('a unit that is told later makes another limit of it', async t => {
  const all = limits()
  const guessed = all.told(say({ policy: 'a', available: 1 }))
  const known = all.told(say({ policy: 'a', unit: 'tokens', available: 1 }))
  t.not(known, guessed)
  t.equal(known.limit.unit, 'tokens')
  t.equal(all.told(say({ policy: 'a', available: 1 })), known, 'and one that is left out changes nothing')
})

t.test(
  'each partition of a policy has a limit of its own, and the last one seen is the likely one',
  async t => {
    const all = limits()
    const mine = all.told(say({ policy: 'a', partitionKey: 'x', available: 1 }))
    const yours = all.told(say({ policy: 'a', partitionKey: 'y', available: 1 }))
    const daily = all.told(say({ policy: 'daily', available: 1 }))
    t.not(mine, yours)
    t.strictSame([...all.likely], [yours, daily])
    all.told(say({ policy: 'a', partitionKey: 'x', available: 1 }))
    t.strictSame([...all.likely], [daily, mine])
  }
)
