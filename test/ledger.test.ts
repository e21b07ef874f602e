import t from 'tap'
import { Ledger, follow } from '../src/ledger.js'
import { compilePolicy } from '../src/policy.js'
import type { QuotaPolicy } from '../src/policy.js'
import { memoryStore } from '../src/stores/memory.js'
import type { MemoryStore } from '../src/stores/memory.js'

const policy = (name: string, options: object = {}): QuotaPolicy =>
  compilePolicy(name, { quota: 10, window: '10s', ...options }, [])

const [a, b, trial] = [policy('a'), policy('b'), policy('trial', { mode: 'shadow' })]

function book(): {
  ledger: Ledger
  store: MemoryStore
  charge: (...units: [QuotaPolicy, number][]) => number
} {
  const store = memoryStore()
  t.teardown(() => store.close())
  store.useClock(() => 1000)
  const ledger = new Ledger(store)
  const charge = (...units: [QuotaPolicy, number][]): number => {
    const charges = units.map(([policy, units]) => ({ partition: 'global', policy, units }))
    return ledger.open(charges, store.consume(charges), 'stage').length
  }
  return { ledger, store, charge }
}

const remaining = (store: MemoryStore, policy: QuotaPolicy): number =>
  store.peek([{ partition: 'global', policy }]).limits[0]!.remaining

t.test('what was admitted has an account, be it of no units; what was refused has none', async t => {
  const { ledger, charge } = book()
  t.equal(charge([a, 3], [trial, 11], [b, 0]), 2)
  t.strictSame(
    ledger.accounts.map(({ policy, charges, closed, held }) => [policy.name, charges, closed, held]),
    [
      ['a', [{ at: 1000, units: 3 }], false, 0],
      ['b', [], false, 0]
    ]
  )
  t.equal(charge([a, 1], [b, 11]), 0)
})

t.test('the accounts of a policy are those of its counter, whatever its quota', async t => {
  const { ledger, charge } = book()
  charge([a, 3])
  charge([a.withQuota(20), 4], [b, 1])
  t.strictSame(
    ledger.of(a.withQuota(7)).map(({ charges }) => charges[0]?.units),
    [3, 4]
  )
})

t.test('a release closes what is open, all in one call, and asks nobody about nothing', async t => {
  const { ledger, store, charge } = book()
  charge([a, 3], [b, 4])
  charge([b, 2], [trial, 0])
  t.strictSame(
    (ledger.release(ledger.accounts) as readonly { remaining: number }[]).map(limit => limit.remaining),
    [10, 6 + 2, 10]
  )
  store.settle = () => t.fail('asked') as never
  t.strictSame(ledger.release(ledger.accounts), [])
  t.strictSame(ledger.settle([], 5), [])
})

t.test('accounts that are partly closed are settled to what the open ones used', async t => {
  const { ledger, store, charge } = book()
  charge([a, 3])
  charge([a, 4])
  ledger.settle(ledger.accounts.slice(0, 1), 1)
  ledger.settle(ledger.of(a), 2)
  t.equal(remaining(store, a), 7)
  t.throws(() => ledger.settle(ledger.of(a), 2), { code: 'FST_QUOTA_SETTLED' })
})

t.test('a spend joins the account that is open, else it opens one', async t => {
  const { ledger, store } = book()
  ledger.spend('global', a, 2)
  ledger.spend('global', a, 3)
  ledger.spend('global', a, 0)
  t.match(ledger.accounts, [{ charges: [{ units: 2 }, { units: 3 }] }])
  t.equal(ledger.accounts.length, 1)
  ledger.settle(ledger.of(a), 4)
  t.equal(remaining(store, a), 6)
  t.throws(() => ledger.spend('global', a, 1), {
    code: 'FST_QUOTA_SETTLED',
    message: /policy "a" is settled for this request already/
  })
})

t.test('further charges of a body join the account of their policy, unless it is closed', async t => {
  const { ledger, store, charge } = book()
  charge([a, 0], [b, 2])
  const more = (units: number): void =>
    ledger.extend(
      store.consume([
        { partition: 'global', policy: a, units },
        { partition: 'global', policy: trial, units }
      ])
    )
  more(3)
  more(4)
  t.match(ledger.accounts, [{ charges: [{ units: 3 }, { units: 4 }] }, { charges: [{ units: 2 }] }])
  ledger.settle(ledger.of(a), 5)
  more(1)
  t.equal(ledger.accounts.length, 2)
  t.equal(remaining(store, a), 4)
})

t.test('what is being renewed is closed when its new receipts are known', async t => {
  const slots = compilePolicy('slots', { quota: 3, algorithm: 'concurrency' }, [])
  const { ledger, store, charge } = book()
  charge([slots, 2])
  const [account] = ledger.accounts
  follow(
    account!,
    new Promise(resolve => setImmediate(resolve)).then(() => {
      account!.charges = [...store.renew([account!])[0]!]
    })
  )
  store.useClock(() => 2000)
  const released = ledger.release(ledger.accounts)
  t.equal(account?.closed, 'given back')
  t.equal(remaining(store, slots), 1)
  await released
  t.equal(remaining(store, slots), 3)
})
