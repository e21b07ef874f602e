import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { Receipt } from '../../src/algorithm.js'
import { isLater } from '../../src/later.js'
import type { Later } from '../../src/later.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import type { Answer, Charge, Store } from '../../src/store.js'
import { FailureModes } from '../../src/stores/failure-modes.js'
import type { FailureMode } from '../../src/stores/failure-modes.js'
import { monotonic } from '../../src/stores/memory.js'
import { howToRepeat, many, mostInAnyWindow, runs } from '../algorithms/kit.js'
import type { Admission } from '../algorithms/kit.js'
import { stopProcessTime } from '../plugin/kit.js'
import type { Clock } from '../plugin/kit.js'
import {
  SharedStore,
  allowed,
  charge,
  isAdmitted,
  named,
  place,
  policy,
  receipts,
  remaining,
  total
} from './kit.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 100 * runs)

interface Guarded {
  readonly clock: Clock
  readonly there: SharedStore
  readonly modes: FailureModes
  readonly store: Synchronous
}

/** A store all of whose answers are known at once, as long as those of the one behind it are. */
type Synchronous = {
  readonly [Name in 'consume' | 'settle' | 'renew' | 'peek' | 'reset']: Known<Store[Name]>
}
type Known<F> = F extends (...given: infer Given) => Later<infer T> ? (...given: Given) => T : never

/** A store that answers as `mode` says when the one behind it does not; both go by a clock that stands still. */
function guarded(t: Test, mode: FailureMode, instances: number = 4): Guarded {
  const clock = stopProcessTime(t)
  const there = new SharedStore(clock.read)
  const modes = new FailureModes(there, mode, instances)
  modes.open()
  t.teardown(() => modes.close())
  return { clock, there, modes, store: modes as unknown as Synchronous }
}

const minute = (name: string, options: Partial<PolicyOptions> = {}): QuotaPolicy =>
  policy(name, { quota: 12, window: '1m', ...options })

const any = minute('any')
const open = minute('open', { onStoreFailure: 'open' })
const closed = minute('closed', { onStoreFailure: 'closed' })
const local = minute('local', { onStoreFailure: 'local' })
const places = policy('places', { quota: 8, algorithm: 'concurrency', holdFor: '30s' })

t.test('while the store answers, its answers are told as they are', async t => {
  const { there, store } = guarded(t, 'closed')
  const answer = store.consume([charge(any, 2), charge(places)])
  t.match(answer, {
    source: 'redis',
    limits: [
      { policy: any, remaining: 10 },
      { policy: places, remaining: 7 }
    ]
  })
  t.match(store.peek([place(any)]), { source: 'redis', limits: [{ remaining: 10 }] })
  const [ofAny, ofPlaces] = answer.limits
  t.match(store.settle([{ ...place(any), charges: ofAny!.charges, actual: 1 }]), {
    source: 'redis',
    limits: [{ policy: any, remaining: 11 }]
  })
  t.strictSame(store.renew([{ ...place(places), charges: ofPlaces!.charges }]), [ofPlaces!.charges])
  t.equal(store.reset([place(any)]), undefined)
  t.equal(there.used(any), 0)
})

t.test('open lets everything pass, and says that nobody has decided', async t => {
  const { store, there } = guarded(t, 'open')
  there.state = 'down'
  for (let i = 0; i < 20; i++) t.strictSame(store.consume([charge(any)]), { limits: [], source: 'open' })
  t.strictSame(store.peek([place(any)]), { limits: [], source: 'open' })
  there.state = 'up'
  t.strictSame(remaining(store.peek([place(any)])), [12])
})

t.test('closed refuses everything, and says when the store is tried again', async t => {
  const { store, there } = guarded(t, 'closed')
  there.state = 'down'
  t.strictSame(store.consume([charge(any)]), { limits: [], source: 'closed', retryAfter: 250 })
  t.strictSame(store.peek([place(any)]), { limits: [], source: 'closed', retryAfter: 250 })
  there.state = 'up'
  t.strictSame(remaining(store.peek([place(any)])), [12])
})

t.test('local counts here, with the share of this instance', async t => {
  const { clock, store, there } = guarded(t, 'local')
  there.state = 'down'
  const answers = Array.from({ length: 4 }, () => store.consume([charge(any)]))
  t.strictSame(answers.flatMap(remaining), [2, 1, 0, 0])
  t.strictSame(answers.flatMap(allowed), [true, true, true, false])
  t.match(answers[3], { source: 'local', limits: [{ retryAfter: 60_000 }] })
  t.match(store.peek([place(any), place(local)]), {
    source: 'local',
    limits: [{ remaining: 0 }, { remaining: 3 }]
  })
  clock.pass(60_000)
  t.strictSame(allowed(store.consume([charge(any, 3)])), [true])
  there.state = 'up'
  t.strictSame(remaining(store.peek([place(any)])), [12], 'what is counted here is not counted there')
})

t.test("a policy's own mode goes before the store's", async t => {
  for (const mode of ['open', 'closed', 'local'] as const) {
    const { store, there } = guarded(t, mode)
    there.state = 'down'
    t.equal(store.consume([charge(open)]).source, 'open')
    t.equal(store.consume([charge(closed)]).source, 'closed')
    t.equal(store.consume([charge(local)]).source, 'local')
    t.equal(store.consume([charge(any)]).source, mode)
  }
})

t.test('one policy that is closed refuses the request, and nothing is counted', async t => {
  const { store, there } = guarded(t, 'open')
  there.state = 'down'
  for (const charges of [
    [local, closed, open],
    [closed, local],
    [open, local, closed]
  ]) {
    t.strictSame(store.consume(charges.map(policy => charge(policy))), {
      limits: [],
      source: 'closed',
      retryAfter: 250
    })
    t.equal(store.peek(charges.map(policy => place(policy))).source, 'closed')
  }
  t.strictSame(remaining(store.peek([place(local)])), [3])
})

t.test('without one, those that are local decide, and those that are open are left out', async t => {
  const { store, there } = guarded(t, 'open')
  const other = minute('other', { quota: 4, onStoreFailure: 'local' })
  there.state = 'down'
  const together = [charge(open), charge(local), charge(any), charge(other)]
  const first = store.consume(together)
  t.strictSame(named(first), ['local', 'other'])
  t.strictSame(remaining(first), [2, 0])
  t.equal(first.source, 'local')
  const second = store.consume(together)
  t.strictSame(allowed(second), [true, false], 'all are charged or none')
  t.strictSame(remaining(second), [2, 0])
  t.strictSame(named(store.peek([place(open), place(other), place(local)])), ['other', 'local'])
})

t.test('a shadow policy closes nothing and refuses nothing', async t => {
  const { store, there } = guarded(t, 'closed')
  const shadows = [
    minute('a', { mode: 'shadow' }),
    minute('b', { mode: 'shadow', onStoreFailure: 'closed' }),
    minute('c', { mode: 'shadow', onStoreFailure: 'local', quota: 4 })
  ]
  const [a, b, c] = shadows.map(policy => charge(policy)) as [Charge, Charge, Charge]
  there.state = 'down'
  t.strictSame(store.consume([a, b]), { limits: [], source: 'open' })
  t.strictSame(
    store.consume([a, charge(local), b, c]).limits.map(({ allowed }) => allowed),
    [true, true]
  )
  t.strictSame(
    store.consume([a, charge(local), b, c]).limits.map(({ allowed }) => allowed),
    [true, false]
  )
  t.strictSame(remaining(store.peek([place(local)])), [1])
})

t.test('a limit names the policy that was asked about, not its share', async t => {
  const { store, there } = guarded(t, 'local')
  there.state = 'down'
  const [ofConsume] = store.consume([charge(any)]).limits
  t.equal(ofConsume!.policy, any)
  t.equal(store.peek([place(any)]).limits[0]!.policy, any)
  t.equal(store.settle([{ ...place(any), charges: ofConsume!.charges, actual: 0 }]).limits[0]!.policy, any)
})

t.test('a share is rounded down but is at least one, and of nothing it is nothing', async t => {
  for (const [quota, instances, share] of [
    [100, 1, 100],
    [100, 3, 33],
    [100, 100, 1],
    [100, 1000, 1],
    [1, 4, 1],
    [0, 4, 0],
    [0, 1, 0]
  ] as const) {
    const { store, there } = guarded(t, 'local', instances)
    const policy = minute('policy', { quota })
    there.state = 'down'
    let admitted = 0
    while (admitted < 1000 && isAdmitted(store.consume([charge(policy)]))) admitted++
    t.equal(admitted, share, `${quota} for ${instances}`)
  }
})

t.test('the burst of a bucket is shared as its rate is', async t => {
  const { clock, store, there } = guarded(t, 'local')
  const bucket = policy('bucket', { quota: 60, window: '1m', algorithm: 'token-bucket', burst: 20 })
  const narrow = policy('narrow', { quota: 60, window: '1m', algorithm: 'token-bucket', burst: 2 })
  there.state = 'down'
  t.strictSame(allowed(store.consume([charge(bucket, 6)])), [false])
  t.strictSame(allowed(store.consume([charge(bucket, 5)])), [true])
  t.match(store.consume([charge(bucket)]), { limits: [{ allowed: false, retryAfter: 4000 }] })
  clock.pass(4000)
  t.strictSame(allowed(store.consume([charge(bucket)])), [true])
  t.strictSame(allowed(store.consume([charge(narrow)])), [true])
  t.strictSame(allowed(store.consume([charge(narrow)])), [false])
})

t.test('of a plan, each quota has its share, and all count as one', async t => {
  const { store, there } = guarded(t, 'local')
  const plan = minute('plan', { quota: () => 0 })
  const [small, large] = [plan.withQuota(8), plan.withQuota(40)]
  there.state = 'down'
  t.strictSame(remaining(store.consume([charge(large, 1)])), [9])
  t.strictSame(remaining(store.consume([charge(small, 1)])), [0])
  t.strictSame(allowed(store.consume([charge(small, 1)])), [false])
  t.strictSame(remaining(store.consume([charge(large, 8)])), [0])
})

t.test('places are shared, too', async t => {
  const { store, there } = guarded(t, 'local')
  there.state = 'down'
  const [first] = [store.consume([charge(places)]), store.consume([charge(places)])]
  t.strictSame(allowed(store.consume([charge(places)])), [false])
  store.settle([{ ...place(places), charges: receipts(first), actual: 0 }])
  t.strictSame(allowed(store.consume([charge(places)])), [true])
})

t.test(
  'however often the store fails, a window has at most the quota and one share for each instance',
  async t => {
    const clock = stopProcessTime(t)
    const WINDOW = 1000
    const plan = policy('plan', { quota: () => 0, window: WINDOW / 1000 })
    const acts = many(
      fc.record({
        wait: fc.constantFrom(0, 0, 0, 1, 50, 200, WINDOW - 1, WINDOW),
        instance: fc.nat({ max: 2 }),
        units: fc.constantFrom(1, 1, 1, 2, 5),
        outage: fc.constantFrom<'begins' | 'ends' | undefined>('begins', 'ends', undefined, undefined)
      }),
      120
    )
    const quotas = fc.integer({ min: 1, max: 20 })
    fc.assert(
      fc.property(quotas, fc.integer({ min: 1, max: 3 }), acts, (quota, instances, acts) => {
        const limit = plan.withQuota(quota)
        const first = new SharedStore(clock.read)
        const ways = [
          first,
          ...Array.from({ length: instances - 1 }, () => new SharedStore(clock.read, first.memory))
        ]
        const stores = ways.map(way => new FailureModes(way, 'local', instances))
        const admissions: Admission[] = []
        for (const { wait, instance, units, outage } of acts) {
          const i = instance % instances
          clock.pass(wait)
          if (outage !== undefined) ways[i]!.state = outage === 'begins' ? 'down' : 'up'
          const answer = known(stores[i]!.consume([charge(limit, units)]))
          if (isAdmitted(answer)) admissions.push({ at: clock.now, units })
        }
        const share = Math.max(1, Math.floor(quota / instances))
        const most = mostInAnyWindow(admissions, WINDOW)
        assert.ok(
          most <= quota + instances * share,
          `${most} admitted, of ${quota} and ${instances} x ${share}`
        )
        clock.pass(10 * WINDOW)
      })
    )
  }
)

t.test('an outage after an outage in the same window gives nothing again', async t => {
  const { store, there } = guarded(t, 'local')
  let admitted = 0
  for (let outage = 0; outage < 10; outage++) {
    there.state = 'down'
    for (let i = 0; i < 5; i++) if (isAdmitted(store.consume([charge(any)]))) admitted++
    there.state = 'up'
  }
  t.equal(admitted, 3)
})

t.test('what was charged here is corrected here, also when the store answers again', async t => {
  const { store, there } = guarded(t, 'local')
  there.state = 'down'
  const here = store.consume([charge(any, 3)])
  there.state = 'up'
  const asked = there.calls.length
  const answer = store.settle([{ ...place(any), charges: receipts(here), actual: 1 }])
  t.match(answer, { source: 'local', limits: [{ policy: any, remaining: 2 }] })
  t.equal(there.calls.length, asked, 'and nobody is asked')
  t.equal(there.used(any), 0)
  there.state = 'down'
  t.strictSame(remaining(store.peek([place(any)])), [2])
})

t.test('what was charged there is corrected there, once it answers again', async t => {
  const { store, there } = guarded(t, 'local')
  const charges = receipts(store.consume([charge(any, 6)]))
  there.state = 'down'
  t.strictSame(store.settle([{ ...place(any), charges, actual: 2 }]).limits, [])
  t.strictSame(remaining(store.peek([place(any)])), [3], 'it gives nothing back here')
  there.state = 'up'
  t.equal(there.used(any), 6, 'what cannot be corrected stays charged')
  t.match(store.settle([{ ...place(any), charges, actual: 2 }]), {
    source: 'redis',
    limits: [{ remaining: 10 }]
  })
})

t.test('nothing to settle is settled', async t => {
  const { store, there } = guarded(t, 'closed')
  t.strictSame(store.settle([]).limits, [])
  there.state = 'down'
  t.strictSame(store.settle([]).limits, [])
})

t.test('corrections of several charges go where each was charged', async t => {
  const { store, there } = guarded(t, 'local')
  const far = receipts(store.consume([charge(any, 5)]))
  there.state = 'down'
  const near = receipts(store.consume([charge(local, 3)]))
  there.state = 'up'
  const answer = store.settle([
    { ...place(any), charges: far, actual: 1 },
    { ...place(local), charges: near, actual: 0 }
  ])
  t.strictSame(Object.fromEntries(answer.limits.map(({ policy, remaining }) => [policy.name, remaining])), {
    any: 11,
    local: 3
  })
  t.equal(there.used(any), 1)
  t.equal(there.used(local), 0)
})

t.test('of charges here and there, the latest is taken back first', async t => {
  for (const [actual, here, afar] of [
    [9, 2, 7],
    [8, 2, 6],
    [7, 2, 5],
    [6, 1, 5],
    [5, 0, 5],
    [4, 0, 4],
    [0, 0, 0]
  ] as const) {
    const { store, there } = guarded(t, 'local')
    const one = receipts(store.consume([charge(any, 5)]))
    there.state = 'down'
    const two = receipts(store.consume([charge(any, 2)]))
    there.state = 'up'
    const three = receipts(store.consume([charge(any, 2)]))
    store.settle([{ ...place(any), charges: [...one, ...two, ...three], actual }])
    t.equal(there.used(any), afar, `${actual} of 5, 2 here, and 2`)
    there.state = 'down'
    t.strictSame(remaining(store.peek([place(any)])), [3 - here])
  }
})

t.test('whatever is settled, what is taken back here and there is exactly the surplus', async t => {
  const clock = stopProcessTime(t)
  const wide = policy('wide', { quota: 1_000_000, window: '1h' })
  const acts = many(
    fc.record({ units: fc.integer({ min: 1, max: 9 }), here: fc.boolean(), wait: fc.nat({ max: 100 }) }),
    8
  )
  fc.assert(
    fc.property(acts, fc.nat({ max: 100 }), (acts, actual) => {
      const there = new SharedStore(clock.read)
      const store = new FailureModes(there, 'local', 2)
      const charges = acts.flatMap(({ units, here, wait }) => {
        clock.pass(wait)
        there.state = here ? 'down' : 'up'
        return receipts(known(store.consume([charge(wide, units)])))
      })
      there.state = 'up'
      known(store.settle([{ ...place(wide), charges, actual }]))
      const shortfall = Math.max(0, actual - total(charges))
      const kept = keptOf(charges, actual)
      const expected = (here: boolean): number =>
        acts.reduce((sum, act, i) => sum + (act.here === here ? kept[i]! : 0), 0)
      assert.equal(there.used(wide), expected(false) + shortfall, 'a shortfall is charged there')
      there.state = 'down'
      const [left] = remaining(known(store.peek([place(wide)])))
      assert.equal(500_000 - left!, expected(true))
    })
  )
})

t.test('what is spent is charged there, whatever was charged here before', async t => {
  const { store, there } = guarded(t, 'local')
  there.state = 'down'
  const here = receipts(store.consume([charge(any, 2)]))
  there.state = 'up'
  const answer = store.settle([{ ...place(any), charges: here, actual: 7 }])
  t.equal(there.used(any), 5)
  t.strictSame(total(receipts(answer)), 5)
  store.settle([{ ...place(any), charges: [...here, ...receipts(answer)], actual: 1 }])
  t.equal(there.used(any), 0, 'and can be given back from where it was charged')
  there.state = 'down'
  t.strictSame(remaining(store.peek([place(any)])), [2])
})

t.test('what is spent in an outage is counted here, if the policy is local', async t => {
  const { store, there } = guarded(t, 'local')
  const far = receipts(store.consume([charge(any, 4)]))
  there.state = 'down'
  const answer = store.settle([{ ...place(any), charges: far, actual: 6 }])
  t.match(answer, { source: 'local', limits: [{ policy: any, remaining: 1, charges: [{ units: 2 }] }] })
  const again = store.settle([{ ...place(any), charges: [], actual: 3 }])
  t.match(
    again,
    { source: 'local', limits: [{ remaining: 0, charges: [{ units: 3 }] }] },
    'beyond the share, too'
  )
  there.state = 'up'
  t.equal(there.used(any), 4)
  const charges = [...far, ...receipts(answer), ...receipts(again)]
  store.settle([{ ...place(any), charges, actual: 3 }])
  t.equal(there.used(any), 3)
  there.state = 'down'
  t.strictSame(remaining(store.peek([place(any)])), [3], 'all of it was given back where it was counted')
})

t.test('what is spent in an outage is counted nowhere, if the policy is open or closed', async t => {
  const { store, there } = guarded(t, 'local')
  there.state = 'down'
  for (const policy of [open, closed]) {
    t.strictSame(receipts(store.settle([{ ...place(policy), charges: [], actual: 2 }])), [])
    t.strictSame(store.settle([{ ...place(policy), charges: [], actual: 2 }]).limits, [])
  }
  there.state = 'up'
  t.equal(there.used(open) + there.used(closed), 0)
})

t.test('places taken here are renewed here, in the outage and after it', async t => {
  const { clock, store, there } = guarded(t, 'local')
  there.state = 'down'
  let charges = receipts(store.consume([charge(places)]))
  for (const state of ['down', 'up', 'up', 'down'] as const) {
    there.state = state
    clock.pass(20_000)
    const asked = there.calls.length
    const [renewed] = store.renew([{ ...place(places), charges }])
    t.strictSame(renewed, [{ at: monotonic() + 30_000, units: 1 }])
    t.equal(there.calls.length, asked, 'nobody else is asked')
    charges = renewed!
  }
  clock.pass(30_000)
  t.strictSame(store.renew([{ ...place(places), charges }]), [[]], 'one that has ended has no receipt')
})

t.test('places taken there are renewed there, and taken to live while it does not answer', async t => {
  const { clock, store, there } = guarded(t, 'local')
  const charges = receipts(store.consume([charge(places)]))
  clock.pass(20_000)
  there.state = 'down'
  t.strictSame(store.renew([{ ...place(places), charges }]), [charges])
  there.state = 'up'
  t.strictSame(store.renew([{ ...place(places), charges }]), [[{ at: clock.now + 30_000, units: 1 }]])
  clock.pass(60_000)
  t.strictSame(store.renew([{ ...place(places), charges }]), [[]])
})

t.test('places taken here and there are renewed together, and each stays where it is', async t => {
  const { clock, store, there } = guarded(t, 'local')
  const far = receipts(store.consume([charge(places)]))
  there.state = 'down'
  const near = receipts(store.consume([charge(places, 2)]))
  there.state = 'up'
  clock.pass(20_000)
  const leases = [
    { ...place(places), charges: far },
    { ...place(places), charges: [...far, ...near] },
    { ...place(places), charges: near },
    { ...place(places), charges: [] }
  ]
  const renewed = store.renew(leases.slice(1))
  t.strictSame(
    renewed.map(total),
    [3, 0, 0],
    'the second lease was the same places, and they have a new end by now'
  )
  t.equal(there.used(places), 1)
  clock.pass(20_000)
  t.equal(there.used(places), 1, 'it was renewed')
  there.state = 'down'
  t.strictSame(remaining(store.peek([place(places)])), [0], 'and so were those here')
  store.settle([{ ...place(places), charges: renewed[0]!, actual: 0 }])
  t.strictSame(remaining(store.peek([place(places)])), [2])
  there.state = 'up'
  t.equal(there.used(places), 1)
})

t.test('no lease is renewed by asking nobody', async t => {
  const { store, there } = guarded(t, 'local')
  t.strictSame(store.renew([]), [])
  t.strictSame(store.renew([{ ...place(places), charges: [] }]), [[]])
  t.strictSame(there.calls, [])
})

t.test('places that were granted too late are free again', async t => {
  for (const mode of ['open', 'local'] as const) {
    const { store, there } = guarded(t, mode)
    there.state = 'slow'
    const answer = store.consume([charge(places), charge(any, 2)])
    t.equal(answer.source, mode)
    there.state = 'up'
    there.arrive()
    t.equal(there.used(places), 0)
    t.equal(there.used(any), 2, 'what has passed meanwhile stays charged')
    t.strictSame(there.calls.slice(1), ['settle'])
  }
})

t.test('what was charged too late for a request that was refused is given back, all of it', async t => {
  const { store, there } = guarded(t, 'open')
  there.state = 'slow'
  t.equal(store.consume([charge(any, 2), charge(closed, 3), charge(places)]).source, 'closed')
  there.state = 'up'
  there.arrive()
  t.strictSame(
    [any, closed, places].map(policy => there.used(policy)),
    [0, 0, 0]
  )
})

t.test('what is given back late is given back where it was charged', async t => {
  const { store, there } = guarded(t, 'closed')
  known(there.consume([charge(any, 1, 'ann'), charge(closed, 1, 'bob')], () => {}))
  there.state = 'slow'
  store.consume([charge(any, 4, 'ann'), charge(closed, 4, 'bob')])
  there.state = 'up'
  there.arrive()
  t.equal(there.used(any, 'ann'), 1)
  t.equal(there.used(closed, 'bob'), 1)
})

t.test('a late answer with nothing to give back asks for nothing', async t => {
  const { store, there } = guarded(t, 'open')
  known(there.consume([charge(closed, 12)], () => {}))
  there.state = 'slow'
  store.consume([charge(any)])
  store.consume([charge(any), charge(closed)])
  store.consume([charge(any, 0), charge(places, 0)])
  there.state = 'up'
  const asked = there.calls.length
  there.arrive()
  t.equal(there.calls.length, asked)
  t.equal(there.used(any), 1)
})

t.test('places that are released in an outage are free when the store answers again', async t => {
  for (const [call, ask] of Object.entries<(store: Synchronous) => unknown>({
    consume: store => store.consume([charge(any)]),
    peek: store => store.peek([place(any)]),
    settle: store => store.settle([{ ...place(any), charges: [], actual: 1 }]),
    reset: store => store.reset([place(any)])
  })) {
    const { store, there } = guarded(t, 'local')
    const two = receipts(store.consume([charge(places, 2)]))
    const three = receipts(store.consume([charge(places, 3)]))
    there.state = 'down'
    store.settle([{ ...place(places), charges: two, actual: 0 }])
    store.settle([{ ...place(places), charges: three, actual: 1 }])
    ask(store)
    there.state = 'up'
    t.equal(there.used(places), 5)
    ask(store)
    t.equal(there.used(places), 1, call)
    const asked = there.calls.length
    ask(store)
    t.equal(there.calls.length, asked + 1, 'they are given back once')
  }
})

t.test('or when somebody says that it answers again', async t => {
  const { modes, store, there } = guarded(t, 'closed')
  const charges = receipts(store.consume([charge(places, 2)]))
  there.state = 'down'
  store.settle([{ ...place(places), charges, actual: 0 }])
  modes.repay()
  there.state = 'up'
  t.equal(there.used(places), 2)
  modes.repay()
  t.equal(there.used(places), 0)
  const asked = there.calls.length
  modes.repay()
  t.equal(there.calls.length, asked, 'nobody is asked where there is nothing to give back')
})

t.test('a release that the store may have heard of is not sent again', async t => {
  const { store, there } = guarded(t, 'local')
  const charges = receipts(store.consume([charge(places, 2)]))
  there.state = 'slow'
  store.settle([{ ...place(places), charges, actual: 0 }])
  there.state = 'up'
  store.peek([place(any)])
  t.equal(there.used(places), 2, 'it ends by itself')
})

t.test('nothing but a release is sent again', async t => {
  const { store, there } = guarded(t, 'open')
  const spent = receipts(store.consume([charge(any, 5)]))
  const held = receipts(store.consume([charge(places, 2)]))
  there.state = 'down'
  store.settle([
    { ...place(any), charges: spent, actual: 0 },
    { ...place(any), charges: [], actual: 2 },
    { ...place(places), charges: held, actual: 2 },
    { ...place(places), charges: held, actual: 3 }
  ])
  there.state = 'up'
  store.peek([place(any)])
  t.equal(there.used(any), 5)
  t.equal(there.used(places), 2)
  t.strictSame(there.calls.slice(-2), ['settle', 'peek'])
})

t.test('so many releases are kept, the latest ones', async t => {
  const { store, there } = guarded(t, 'open')
  const many = policy('many', { quota: 20_000, algorithm: 'concurrency' })
  const charges = receipts(store.consume([charge(many, 10_020)]))
  there.state = 'down'
  const releases = Array.from({ length: 10_010 }, (_, i) => ({
    ...place(many),
    charges: [{ ...charges[0]!, units: i < 10 ? 2 : 1 }],
    actual: 0
  }))
  store.settle(releases.slice(0, 6))
  store.settle(releases.slice(6))
  there.state = 'up'
  store.peek([place(any)])
  t.equal(there.used(many), 20)
})

t.test('places that were granted too late in an outage are free after it', async t => {
  const { store, there } = guarded(t, 'open')
  there.state = 'slow'
  store.consume([charge(places)])
  there.state = 'down'
  there.arrive()
  t.equal(there.used(places), 1)
  there.state = 'up'
  store.peek([place(any)])
  t.equal(there.used(places), 0)
})

t.test('what cannot be given back late stays charged until it ends by itself', async t => {
  const { clock, store, there } = guarded(t, 'open')
  there.state = 'slow'
  store.consume([charge(places)])
  t.doesNotThrow(() => there.arrive())
  t.equal(there.used(places), 1)
  clock.pass(30_000)
  t.equal(there.used(places), 0)
})

t.test('a reset forgets what was counted here and there', async t => {
  const { store, there } = guarded(t, 'local')
  store.consume([charge(any, 12)])
  there.state = 'down'
  store.consume([charge(any, 3)])
  t.equal(store.reset([place(any)]), undefined, 'it fails no more than other calls do')
  t.strictSame(remaining(store.peek([place(any)])), [3])
  there.state = 'up'
  t.equal(there.used(any), 12)
  store.reset([place(any)])
  t.equal(there.used(any), 0)
})

t.test('what is known at once is answered at once, what is not is waited for', async t => {
  const { clock } = guarded(t, 'local')
  const there = new SharedStore(clock.read)
  const store = new FailureModes(there, 'local', 4)
  for (const state of ['up', 'down'] as const) {
    for (const later of [false, true]) {
      Object.assign(there, { state, later })
      const calls = [
        store.consume([charge(any)]),
        store.peek([place(any)]),
        store.settle([{ ...place(any), charges: [], actual: 1 }]),
        store.renew([{ ...place(places), charges: [{ at: clock.now + 30_000, units: 1 }] }]),
        store.reset([place(any)])
      ]
      for (const call of calls)
        t.equal(isLater<unknown>(call), later, `${state}, ${later ? 'later' : 'at once'}`)
      await Promise.all(calls.map(async call => call))
    }
  }
})

t.test('answers that come later are the same', async t => {
  const { store: now, there: here } = guarded(t, 'local')
  const clock = stopProcessTime(t)
  const there = new SharedStore(clock.read)
  there.later = true
  const later: Store = new FailureModes(there, 'local', 4)
  const mixed: Receipt[] = []
  for (const state of ['up', 'down', 'up', 'down'] as const) {
    there.state = state
    here.state = state
    const [a, b] = [now.consume([charge(any, 2)]), await later.consume([charge(any, 2)])]
    t.strictSame(alike(a), alike(b))
    mixed.push(...receipts(b))
    t.strictSame(alike(now.peek([place(any)])), alike(await later.peek([place(any)])))
  }
  there.state = 'up'
  await later.settle([{ ...place(any), charges: mixed, actual: 1 }])
  t.equal(there.used(any), 1)
})

/** Units of each receipt that are kept of `actual`: the first ones. */
function keptOf(charges: readonly Receipt[], actual: number): readonly number[] {
  let left = actual
  return charges.map(({ units }) => {
    const kept = Math.min(left, units)
    left -= kept
    return kept
  })
}

function known<T>(value: Later<T>): T {
  assert.ok(!isLater(value))
  return value
}

/** What an answer says, without its times. */
const alike = ({ limits, source }: Answer): unknown => [
  source,
  limits.map(({ policy, allowed, remaining, charges }) => [policy.name, allowed, remaining, total(charges)])
]
