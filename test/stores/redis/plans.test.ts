import t from 'tap'
import { compilePolicy } from '../../../src/policy.js'
import type { QuotaPolicy } from '../../../src/policy.js'
import { Plans } from '../../../src/stores/redis/plans.js'

const burst = compilePolicy('burst', { quota: 5, window: '10s' }, [])
const daily = compilePolicy('daily', { quota: 100, window: '1d' }, [])
const plan = compilePolicy('plan', { quota: () => 1, window: '10s' }, [])

t.test('policies that come together in one order have one plan, whoever they are asked for', async t => {
  const plans = new Plans('caller')
  const known = plans.of([burst, daily], [1, 1])
  t.match(known, {
    keys: 1,
    clock: 'caller',
    parts: [
      { key: 1, told: false },
      { key: 1, told: false }
    ]
  })
  t.equal(plans.of([burst, daily], [1, 1]), known)
  const same = compilePolicy('burst', { quota: 5, window: 10 }, [])
  t.equal(plans.of([same, daily], [1, 1]), known, 'policies that say the same are the same')
  const others = [
    plans.of([daily, burst], [1, 1]),
    plans.of([burst, daily], [1, 2]),
    plans.of([burst], [1]),
    plans.of([compilePolicy('burst', { quota: 6, window: '10s' }, [])], [1]),
    plans.of([compilePolicy('burst', { quota: 5, window: '10s', mode: 'shadow' }, [])], [1])
  ]
  t.equal(new Set([known, ...others]).size, 6)
  t.equal(others[1]!.keys, 2)
})

t.test(
  'quotas of a plan, and reduced ones, are told with each call and need no plan of their own',
  async t => {
    const plans = new Plans('server')
    t.equal(plans.told(burst), undefined)
    t.strictSame(plans.told(plan.withQuota(7)), ['7', '10000', '10'])
    t.equal(plans.of([plan.withQuota(7)], [1]), plans.of([plan.withQuota(8)], [1]))
    t.match(plans.of([plan.withQuota(7)], [1]), { parts: [{ told: true }] })
    const reduced = (factor: number): QuotaPolicy => daily.reducedBy({ factor, reason: 'load' })
    t.strictSame(plans.told(reduced(0.5)), ['50', '86400000', '10'])
    t.equal(plans.of([reduced(0.5)], [1]), plans.of([reduced(0.25)], [1]))
  }
)

t.test('a policy that is asked twice about one partition, and too many of them, have none', async t => {
  const plans = new Plans('server')
  for (let i = 0; i < 2; i++) t.equal(plans.of([burst, burst], [1, 1]), undefined)
  t.ok(plans.of([burst, burst], [1, 2]))
  const many = Array.from({ length: 9 }, (_, i) => compilePolicy(`many${i}`, '5/10s', []))
  t.equal(
    plans.of(
      many,
      many.map(() => 1)
    ),
    undefined
  )
  t.ok(
    plans.of(
      many.slice(1),
      many.slice(1).map(() => 1)
    )
  )
})

t.test('where policies come and go, there is an end to plans, and to texts that are kept', async t => {
  const plans = new Plans('server')
  const policy = (quota: number): QuotaPolicy => compilePolicy('any', { quota, window: '10s' }, [])
  const first = plans.of([policy(1)], [1])
  for (let quota = 2; quota <= 256; quota++) t.ok(plans.of([policy(quota)], [1]))
  t.equal(plans.of([policy(257)], [1]), undefined)
  t.equal(plans.of([policy(1)], [1]), first, 'those that are known stay')
  for (let quota = 258; quota <= 1024; quota++) t.equal(plans.told(policy(quota)), undefined)
  t.strictSame(plans.told(policy(1025)), ['1025', '10000', '10'])
})
