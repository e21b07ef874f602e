import t from 'tap'
import { Account } from '../../src/client/account.js'
import { SpendingLimit } from '../../src/client/limits/spending.js'
import { Ticket } from '../../src/client/ticket.js'
import { exact, spend } from './limits/kit.js'

const ticket = (costs: Readonly<Record<string, number>> = { requests: 1 }, priority = 0): Ticket =>
  new Ticket({ route: 'GET /', costs }, priority, () => {})

const account = new Account(undefined, { ...spend, ...exact })

t.test('tickets go by priority, then by their first arrival', async t => {
  const [first, second, urgent] = [ticket(), ticket(), ticket({ requests: 1 }, 5)]
  first.arrived(1)
  second.arrived(2)
  urgent.arrived(3)
  first.arrived(4)
  t.ok(first.compare(second) < 0)
  t.ok(second.compare(first) > 0)
  t.ok(urgent.compare(first) < 0)
  t.ok(first.compare(urgent) > 0)
  t.ok(urgent.compareArrival(first) > 0)
})

t.test('tickets of the same route, costs and priority are alike, until one comes again', async t => {
  const [one, other] = [ticket(), ticket()]
  one.arrived(1)
  other.arrived(2)
  t.equal(one.likeness, other.likeness)
  t.not(one.likeness, ticket({ requests: 2 }).likeness)
  t.not(one.likeness, ticket({ requests: 1 }, 1).likeness)
  one.refused(account, [])
  t.not(one.likeness, other.likeness)
  t.equal(one.comesAgain, true)
})

t.test('what a refusal keeps it from is over when its time is', async t => {
  const one = ticket()
  t.strictSame(one.blocks(account, 0), [])
  one.refused(account, [{ limit: undefined, policy: 'p', at: 1000 }])
  t.match(one.blocks(account, 999), [{ policy: 'p', at: 1000 }])
  t.strictSame(one.blocks(account, 1000), [])
})

t.test('it is due when others have spent what it needs itself', async t => {
  const limit = new SpendingLimit('tokens', spend, exact)
  const one = ticket({ tokens: 10 })
  one.overtaken(limit, 4)
  t.equal(one.isDue(limit), false)
  one.overtaken(limit, 6)
  t.equal(one.isDue(limit), true)
})
