import { spawnSync } from 'node:child_process'
import { mock } from 'node:test'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { NEVER, UNKNOWN } from '../../src/algorithm.js'
import type { Receipt } from '../../src/algorithm.js'
import { compilePolicy } from '../../src/policy.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import type { Answer, Charge, Lease, ServiceLimit, Settlement } from '../../src/store.js'
import { MemoryStore, memoryStore, monotonic } from '../../src/stores/memory.js'
import { howToRepeat, runs } from '../algorithms/kit.js'

t.comment(howToRepeat)
t.setTimeout(30_000 + 100 * runs)

const T0 = 1_753_900_000_000
const DAY = 86_400_000

/** Addresses of a flood. */
const FLOOD = runs > 1000 ? 1_000_000 : 100_000

const policy = (name: string, options: PolicyOptions): QuotaPolicy => compilePolicy(name, options, [])
const charge = (policy: QuotaPolicy, units: number = 1, partition: string = 'p'): Charge => ({
  partition,
  policy,
  units
})
const allowed = ({ limits }: Answer): boolean[] => limits.map(({ allowed }) => allowed)
const remaining = ({ limits }: Answer): number[] => limits.map(({ remaining }) => remaining)

interface Clocked {
  readonly store: MemoryStore
  readonly clock: { now: number }
}

/** A store whose clock stands still until it is set. */
function storeAt(t: Test, now: number, options?: Parameters<typeof memoryStore>[0]): Clocked {
  const store = memoryStore(options)
  const clock = { now }
  store.useClock(() => clock.now)
  store.open()
  t.teardown(() => store.close())
  return { store, clock }
}

const burst = policy('burst', { quota: 5, window: '10s' })
const hourly = policy('hourly', { quota: 20, window: '1h', algorithm: 'fixed-window' })
const daily = policy('daily', { quota: 3, window: '1d', algorithm: 'token-bucket' })

t.test('one charge after the other counts, and the window gives back', async t => {
  const { store, clock } = storeAt(t, T0)
  const answers = Array.from({ length: 6 }, () => store.consume([charge(burst)]))
  t.strictSame(answers.flatMap(remaining), [4, 3, 2, 1, 0, 0])
  t.strictSame(answers.flatMap(allowed), [true, true, true, true, true, false])
  t.strictSame(answers[0], {
    source: 'memory',
    limits: [
      {
        policy: burst,
        units: 1,
        allowed: true,
        remaining: 4,
        effectiveWindow: 10_000,
        retryAfter: 0,
        delay: 0,
        charges: [{ at: T0, units: 1 }]
      }
    ]
  })
  t.match(answers[5], { limits: [{ retryAfter: 10_000, effectiveWindow: 10_000, charges: [] }] })
  clock.now = T0 + 10_000
  t.strictSame(remaining(store.consume([charge(burst, 5)])), [0])
})

t.test('partitions, names, algorithms and windows are counted apart', async t => {
  const { store } = storeAt(t, T0)
  store.consume([charge(burst, 5, 'a')])
  t.strictSame(remaining(store.consume([charge(burst, 1, 'b')])), [4])
  t.strictSame(remaining(store.consume([charge(policy('other', { quota: 5, window: '10s' }), 1, 'a')])), [4])
  t.strictSame(remaining(store.consume([charge(policy('burst', { quota: 5, window: '11s' }), 1, 'a')])), [4])
  const fixed = policy('burst', { quota: 5, window: '10s', algorithm: 'fixed-window' })
  t.strictSame(remaining(store.consume([charge(fixed, 1, 'a')])), [4])
  t.strictSame(allowed(store.consume([charge(burst, 1, 'a')])), [false])
})

t.test('names that objects have are names like others', async t => {
  const { store } = storeAt(t, T0)
  for (const partition of ['__proto__', 'constructor', 'toString', '']) {
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) {
      const odd = policy(name, { quota: 2, window: 60 })
      t.strictSame(remaining(store.consume([charge(odd, 1, partition)])), [1], `${name} of "${partition}"`)
    }
  }
})

t.test('all are charged or none', async t => {
  const { store } = storeAt(t, T0)
  const all = [charge(burst), charge(hourly), charge(daily)]
  t.strictSame(remaining(store.consume(all)), [4, 19, 2])
  store.consume(all)
  t.strictSame(remaining(store.consume(all)), [2, 17, 0])
  for (const order of [all, all.toReversed(), [all[2]!, all[0]!, all[1]!]]) {
    const { limits } = store.consume(order)
    for (const { policy, allowed, remaining, charges } of limits) {
      t.equal(allowed, policy !== daily, `${policy.name} has room or has not, whatever the others say`)
      t.equal(remaining, policy.capacity - 3)
      t.strictSame(charges, [])
    }
  }
  t.strictSame(remaining(store.peek(all)), [2, 17, 0])
})

t.test('also over several partitions', async t => {
  const { store } = storeAt(t, T0)
  const user = policy('user', { quota: 2, window: 60 })
  const together = (user1: string, address: string): Charge[] => [
    charge(user, 1, user1),
    charge(burst, 1, address)
  ]
  t.strictSame(remaining(store.consume(together('ann', 'x'))), [1, 4])
  t.strictSame(remaining(store.consume(together('ann', 'y'))), [0, 4])
  t.strictSame(allowed(store.consume(together('ann', 'x'))), [false, true])
  t.strictSame(remaining(store.peek(together('ann', 'x'))), [0, 4])
  t.strictSame(
    remaining(store.consume([charge(burst, 1, 'x'), charge(user, 1, 'bob'), charge(hourly, 1, 'x')])),
    [3, 1, 19]
  )
})

t.test('a policy that passed is not charged for one that refused, in either order', async t => {
  for (const reversed of [false, true]) {
    const { store } = storeAt(t, T0)
    const charges = [
      charge(policy('a', { quota: 10, window: 60 })),
      charge(policy('b', { quota: 2, window: 60 }))
    ]
    if (reversed) charges.reverse()
    const answers = Array.from({ length: 10 }, () => store.consume(charges))
    t.equal(answers.filter(answer => allowed(answer).every(Boolean)).length, 2)
    t.strictSame(remaining(store.peek(charges)), reversed ? [0, 8] : [8, 0])
  }
})

t.test('two quotas at once', async t => {
  const { store, clock } = storeAt(t, T0)
  const rpm = policy('rpm', { quota: 60, window: '1m' })
  const tpm = policy('tpm', { quota: 100_000, window: '1m', unit: 'tokens' })
  const ask = (tokens: number): Answer => store.consume([charge(rpm, 1), charge(tpm, tokens)])
  for (const left of [70_000, 40_000, 10_000]) t.equal(ask(30_000).limits[1]?.remaining, left)
  t.strictSame(allowed(ask(30_000)), [true, false])
  t.strictSame(remaining(ask(5000)), [56, 5000])

  clock.now += 60_000
  const answers = Array.from({ length: 70 }, () => ask(10))
  t.equal(answers.filter(answer => allowed(answer).every(Boolean)).length, 60)
  for (const answer of answers.slice(60)) t.strictSame(allowed(answer), [false, true])
  t.strictSame(remaining(answers[69]!), [0, 100_000 - 600])
})

t.test('a shadow policy takes no part in the decision', async t => {
  const { store } = storeAt(t, T0)
  const shadow = policy('shadow', { quota: 2, window: 60, mode: 'shadow' })
  const real = policy('real', { quota: 4, window: 60 })
  const answers = Array.from({ length: 5 }, () => store.consume([charge(shadow), charge(real)]))
  t.strictSame(answers.map(allowed), [
    [true, true],
    [true, true],
    [false, true],
    [false, true],
    [false, false]
  ])
  t.strictSame(
    answers.map(({ limits }) => limits.map(({ charges }) => charges.length)),
    [
      [1, 1],
      [1, 1],
      [0, 1],
      [0, 1],
      [0, 0]
    ],
    'it is charged if the call is admitted and it has room itself'
  )
  const roomy = policy('roomy', { quota: 9, window: 60, mode: 'shadow' })
  t.strictSame(
    remaining(store.consume([charge(roomy), charge(real)])),
    [9, 0],
    'not charged for what was refused'
  )
})

t.test('no units: nothing is charged, no receipt', async t => {
  const { store } = storeAt(t, T0)
  const none = policy('none', { quota: 0, window: 60 })
  t.match(store.consume([charge(burst, 0)]).limits, [{ allowed: true, remaining: 5, units: 0, charges: [] }])
  t.match(store.consume([charge(none, 0)]).limits, [{ allowed: false, remaining: 0, retryAfter: NEVER }])
  t.match(store.consume([charge(burst, 6)]).limits, [{ allowed: false, remaining: 5, retryAfter: NEVER }])
  t.strictSame(remaining(store.consume([charge(burst, 5)])), [0])
  t.strictSame(store.consume([]), { limits: [], source: 'memory' })
})

t.test('a peek changes nothing', async t => {
  const { store, clock } = storeAt(t, T0)
  t.strictSame(remaining(store.peek([charge(burst), charge(daily, 1, 'q')])), [5, 3])
  t.equal(store.size, 0, 'and opens nothing')
  store.consume([charge(burst, 3)])
  for (let i = 0; i < 3; i++) {
    t.match(store.peek([charge(burst)]), {
      source: 'memory',
      limits: [{ allowed: true, remaining: 2, effectiveWindow: 10_000, units: 0, charges: [] }]
    })
  }
  clock.now += 9999
  t.strictSame(remaining(store.peek([charge(burst)])), [2])
  t.strictSame(remaining(store.consume([charge(burst, 2)])), [0])
  clock.now += 1
  t.strictSame(remaining(store.peek([charge(burst)])), [3])
})

t.test('a reset forgets what these policies counted, and no others', async t => {
  const { store } = storeAt(t, T0)
  const both = [charge(burst, 2), charge(hourly, 2)]
  store.consume(both)
  store.consume([charge(burst, 2, 'q')])
  store.reset([charge(burst)])
  t.strictSame(remaining(store.peek(both)), [5, 18])
  t.strictSame(remaining(store.peek([charge(burst, 1, 'q')])), [3])
  store.reset([charge(daily), charge(burst, 1, 'nobody')])
  t.equal(store.size, 2)
  t.strictSame(remaining(store.consume([...both, charge(daily)])), [3, 16, 2], 'and goes on counting')
  store.reset([...both, charge(daily)])
  t.strictSame(remaining(store.peek([...both, charge(daily)])), [5, 20, 3])
})

const settlement = (policy: QuotaPolicy, charges: Settlement['charges'], actual: number): Settlement => ({
  partition: 'p',
  policy,
  charges,
  actual
})

t.test('a surplus is taken back from the latest receipt first, at most its units', async t => {
  const tokens = policy('tokens', { quota: 100, window: '1m' })
  const scenario = (actual: number): Clocked => {
    const clocked = storeAt(t, T0)
    const receipts = [30, 20, 10].flatMap((units, i) => {
      clocked.clock.now = T0 + i * 10_000
      return clocked.store.consume([charge(tokens, units)]).limits[0]!.charges
    })
    t.strictSame(receipts, [
      { at: T0, units: 30 },
      { at: T0 + 10_000, units: 20 },
      { at: T0 + 20_000, units: 10 }
    ])
    const { limits, source } = clocked.store.settle([settlement(tokens, receipts, actual)])
    t.equal(source, 'memory')
    t.match(limits, [
      { policy: tokens, allowed: true, units: 0, charges: [], remaining: Math.max(0, 100 - actual) }
    ])
    return clocked
  }
  for (const [actual, ...left] of [
    [60, 70, 90, 100],
    [55, 75, 95, 100],
    [45, 85, 100, 100],
    [30, 100, 100, 100],
    [12, 100, 100, 100],
    [0, 100, 100, 100],
    [75, 55, 75, 100]
  ] as const) {
    const { store, clock } = scenario(actual)
    const later = [60_000, 70_000, 80_000].map(at => {
      clock.now = T0 + at
      return remaining(store.peek([charge(tokens)]))[0]
    })
    t.strictSame(later, left, `what is left once the receipts leave, of ${actual} used`)
  }
})

t.test('a shortfall is charged at once, beyond the quota if need be', async t => {
  const { store, clock } = storeAt(t, T0)
  const { charges } = store.consume([charge(burst, 4)]).limits[0]!
  clock.now += 4000
  t.strictSame(remaining(store.settle([settlement(burst, charges, 8)])), [0])
  t.match(store.consume([charge(burst)]).limits, [{ allowed: false, retryAfter: 6000 }])
  clock.now += 6000
  t.strictSame(remaining(store.peek([charge(burst)])), [1])
  t.match(store.peek([charge(burst)]).limits, [{ effectiveWindow: 4000 }])
  clock.now += 4000
  t.strictSame(remaining(store.peek([charge(burst)])), [5])
})

t.test('what was charged by a settlement has a receipt of its own', async t => {
  const { store, clock } = storeAt(t, T0)
  const tokens = policy('tokens', { quota: 100, window: '1m' })
  const { charges } = store.consume([charge(tokens, 30)]).limits[0]!
  clock.now = T0 + 10_000
  const more = store.settle([settlement(tokens, charges, 45)]).limits[0]!
  t.match(more, { remaining: 55, charges: [{ at: T0 + 10_000, units: 15 }] })
  t.strictSame(store.settle([settlement(tokens, charges, 30)]).limits[0]!.charges, [], 'none for what fits')
  clock.now = T0 + 20_000
  const both = [...charges, ...more.charges]
  t.strictSame(
    store.settle([settlement(tokens, both, 20)]).limits[0]!.charges,
    [],
    'nor for what is given back'
  )
  t.strictSame(remaining(store.peek([charge(tokens)])), [80])
  clock.now = T0 + 60_000
  t.strictSame(remaining(store.peek([charge(tokens)])), [100], 'it was of the latest receipt first')

  const dropped = store.settle([settlement(burst, [], 99)]).limits[0]!
  t.match(dropped.charges, [{ units: 10 }], 'of what is more than one quota of debt: none')
  t.strictSame(store.settle([settlement(burst, dropped.charges, 99)]).limits[0]!.charges, [])
  t.strictSame(remaining(store.settle([settlement(burst, dropped.charges, 3)])), [2])

  const slots = policy('slots', { quota: 5, algorithm: 'concurrency', holdFor: '10s' })
  const held = store.consume([charge(slots, 1)]).limits[0]!.charges
  clock.now += 1000
  t.strictSame(
    store.settle([settlement(slots, held, 3)]).limits[0]!.charges,
    [{ at: T0 + 71_000, units: 2 }],
    'of a lease: when it ends'
  )
})

t.test('what is charged of an overrun is whole units, as its receipt says', async t => {
  const { store, clock } = storeAt(t, T0)
  const bucket = policy('bucket', { quota: 1, window: '2s', algorithm: 'token-bucket' })
  const { charges } = store.consume([charge(bucket)]).limits[0]!
  clock.now += 1000
  t.match(store.settle([settlement(bucket, charges, 99)]).limits, [
    { remaining: 0, effectiveWindow: 3000, charges: [{ at: T0 + 1000, units: 1 }] }
  ])
})

t.test('several settlements are made in one call, each its own', async t => {
  const { store } = storeAt(t, T0)
  const receipts = store.consume([charge(burst, 4), charge(hourly, 4, 'q'), charge(daily, 3)]).limits
  const { limits } = store.settle(
    receipts.map(({ policy, charges }, i) => ({
      ...settlement(policy, charges, i),
      partition: policy === hourly ? 'q' : 'p'
    }))
  )
  t.strictSame(
    limits.map(({ remaining }) => remaining),
    [5, 19, 1]
  )
})

t.test('what was never charged, or has left, is not given back', async t => {
  const { store, clock } = storeAt(t, T0)
  const { charges } = store.consume([charge(burst, 4)]).limits[0]!
  t.strictSame(remaining(store.settle([settlement(burst, [], 0)])), [1])
  t.strictSame(remaining(store.settle([{ ...settlement(burst, charges, 0), partition: 'nobody' }])), [5])
  clock.now += 10_000
  store.consume([charge(burst, 5)])
  t.strictSame(remaining(store.settle([settlement(burst, charges, 0)])), [0])
})

/** All that count over a window; the first three give it back at once. */
const COUNTING = [
  'sliding-window',
  'sliding-window-log',
  'fixed-window',
  'sliding-window-counter',
  'token-bucket',
  'leaky-bucket'
] as const

t.test('a policy whose quota changes keeps its count', async t => {
  for (const algorithm of COUNTING) {
    const { store } = storeAt(t, T0)
    const plan = (quota: number): Charge => charge(policy('plan', { quota, window: '1h', algorithm }))
    store.consume([{ ...plan(10), units: 6 }])
    t.strictSame(remaining(store.peek([plan(20)])), [14], algorithm)
    t.strictSame(remaining(store.consume([plan(7)])), [0])
    t.match(store.consume([plan(5)]).limits, [{ allowed: false, remaining: 0 }])
    t.strictSame(remaining(store.consume([plan(20)])), [12])
  }
})

t.test('a clock that goes back gives nothing back, and a refusal is enough to notice', async t => {
  for (const algorithm of COUNTING.slice(0, 3)) {
    const { store, clock } = storeAt(t, T0)
    const minute = charge(policy('minute', { quota: 1, window: '1m', algorithm }))
    store.consume([minute])
    clock.now = T0 - DAY
    t.match(store.consume([minute]).limits, [{ allowed: false, retryAfter: 60_000 }], algorithm)
    clock.now = T0 - DAY + 60_000
    t.strictSame(allowed(store.consume([minute])), [true], 'one window later it is over')
  }
})

t.test('without another clock it counts by one that never goes back', async t => {
  const wall = Date.now()
  const reading = monotonic()
  t.ok(Number.isInteger(reading) && Math.abs(reading - wall) < 60_000, `${reading} is near ${wall}`)
  const store = memoryStore()
  t.teardown(() => store.close())
  const { at } = store.consume([charge(burst)]).limits[0]!.charges[0]!
  t.ok(Number.isInteger(at) && at >= reading && at <= monotonic())
})

t.test('a lease is held until it is released, or has ended', async t => {
  const { store, clock } = storeAt(t, T0)
  const slots = policy('slots', { quota: 2, algorithm: 'concurrency', holdFor: '10s' })
  const first = store.consume([charge(slots)]).limits[0]!
  t.match(first, {
    allowed: true,
    remaining: 1,
    effectiveWindow: 0,
    charges: [{ at: T0 + 10_000, units: 1 }]
  })
  clock.now = T0 + 4000
  const second = store.consume([charge(slots)]).limits[0]!
  t.match(store.consume([charge(slots)]).limits, [{ allowed: false, retryAfter: UNKNOWN, charges: [] }])
  t.match(store.consume([charge(slots, 3)]).limits, [{ allowed: false, retryAfter: NEVER }])
  t.strictSame(remaining(store.settle([settlement(slots, second.charges, 0)])), [1])
  t.strictSame(remaining(store.consume([charge(slots)])), [0])
  clock.now = T0 + 10_000
  t.strictSame(remaining(store.peek([charge(slots)])), [1], 'the holder of the first has died')
  t.strictSame(
    remaining(store.settle([settlement(slots, first.charges, 0)])),
    [1],
    'its late release is none'
  )
  clock.now = T0 + 14_000
  t.strictSame(remaining(store.peek([charge(slots)])), [2])
})

t.test('leases are renewed in one call, each under its new receipt', async t => {
  const { store, clock } = storeAt(t, T0)
  const slots = policy('slots', { quota: 5, algorithm: 'concurrency', holdFor: '10s' })
  const uploads = policy('uploads', { quota: 9, algorithm: 'concurrency', holdFor: '60s' })
  const [one, two] = store.consume([charge(slots, 2), charge(uploads, 4, 'q')]).limits
  clock.now = T0 + 6000
  const three = store.consume([charge(slots, 1)]).limits[0]!
  clock.now = T0 + 9000
  const lease = (
    policy: QuotaPolicy,
    charges: Settlement['charges'],
    partition: string = 'p'
  ): Omit<Settlement, 'actual'> => ({ policy, charges, partition })
  const renewed = store.renew([
    lease(slots, [...one!.charges, ...three.charges]),
    lease(uploads, two!.charges, 'q'),
    lease(slots, one!.charges, 'nobody')
  ])
  t.strictSame(renewed, [
    [
      { at: T0 + 19_000, units: 2 },
      { at: T0 + 19_000, units: 1 }
    ],
    [{ at: T0 + 69_000, units: 4 }],
    []
  ])
  t.strictSame(remaining(store.peek([charge(slots), charge(uploads, 0, 'q')])), [2, 5], 'no more is held')
  clock.now = T0 + 18_999
  t.strictSame(remaining(store.peek([charge(slots)])), [2])
  t.strictSame(remaining(store.settle([settlement(slots, renewed[0]!, 1)])), [4])
  clock.now = T0 + 19_000
  t.strictSame(remaining(store.peek([charge(slots)])), [5])
  t.strictSame(store.renew([lease(slots, renewed[0]!)]), [[]], 'what has ended has no receipt')
  t.strictSame(remaining(store.peek([charge(slots)])), [5], 'and is not taken again')
  t.strictSame(store.renew([]), [])
})

t.test('many leases of one partition are renewed with one step', async t => {
  const { store, clock } = storeAt(t, T0)
  const options: PolicyOptions = { quota: 2000, algorithm: 'concurrency', holdFor: '10s' }
  const slots = policy('slots', options)
  const receipts = Array.from({ length: 1000 }, (_, i) => {
    clock.now = T0 + i
    return store.consume([charge(slots)]).limits[0]!.charges
  })
  store.consume([charge(slots, 1, 'q')])
  let steps = 0
  const counted: QuotaPolicy = {
    ...slots,
    algorithm: {
      ...slots.algorithm,
      step(...inputs) {
        steps++
        return slots.algorithm.step(...inputs)
      }
    }
  }
  clock.now = T0 + 5000
  const leases = receipts.map(charges => ({ partition: 'p', policy: counted, charges }))
  const inTurn = leases.toSpliced(500, 0, { partition: 'q', policy: counted, charges: [] })
  const started = performance.now()
  const renewed = store.renew(inTurn)
  const took = performance.now() - started
  t.ok(took < 2000, `${took} ms`)
  t.equal(steps, 2, 'one for each partition')
  t.strictSame(
    renewed,
    inTurn.map(({ charges }) => charges.map(() => ({ at: T0 + 15_000, units: 1 })))
  )
  clock.now = T0 + 14_999
  t.strictSame(remaining(store.peek([charge(slots)])), [1000])
  clock.now = T0 + 15_000
  t.strictSame(remaining(store.peek([charge(slots)])), [2000])

  const together = [
    { partition: 'p', policy: counted, charges: store.consume([charge(slots)]).limits[0]!.charges }
  ]
  steps = 0
  store.renew([{ ...together[0]!, charges: Array.from({ length: 50 }, () => together[0]!.charges[0]!) }])
  t.equal(steps, 1, 'nor one for each receipt')
})

t.test('a lease is taken with all other charges or not at all', async t => {
  const { store } = storeAt(t, T0)
  const slots = policy('slots', { quota: 1, algorithm: 'concurrency' })
  const both = [charge(slots), charge(daily)]
  t.strictSame(remaining(store.consume(both)), [0, 2])
  t.strictSame(allowed(store.consume(both)), [false, true])
  t.strictSame(remaining(store.peek(both)), [0, 2])
  store.reset([charge(slots)])
  store.consume([charge(daily, 2)])
  t.match(store.consume(both).limits, [{ allowed: true, remaining: 1, charges: [] }, { allowed: false }])
})

t.test('what waits in a queue is told how long, and keeps its place', async t => {
  const { store, clock } = storeAt(t, T0)
  const queue = policy('queue', { quota: 1, window: '1s', algorithm: 'leaky-bucket', maxDelay: '2s' })
  const answers = Array.from({ length: 4 }, () => store.consume([charge(queue)]).limits[0]!)
  t.strictSame(
    answers.map(({ allowed, delay, retryAfter }) => [allowed, delay, retryAfter]),
    [
      [true, 0, 0],
      [true, 1000, 0],
      [true, 2000, 0],
      [false, 0, 1000]
    ]
  )
  t.match(store.settle([settlement(queue, answers[2]!.charges, 0)]).limits, [{ remaining: 0, delay: 0 }])
  clock.now += 1000
  t.match(store.consume([charge(queue), charge(daily, 4)]).limits, [
    { allowed: true, delay: 0, remaining: 1 }
  ])
  t.match(store.consume([charge(queue)]).limits, [{ allowed: true, delay: 2000 }])
})

// --- How much it holds ------------------------------------------------------------------------------------------------

/** Warnings of a full store while `work` is done. */
async function warnings(work: () => void): Promise<readonly string[]> {
  const heard: string[] = []
  const listeners = process.rawListeners('warning') as ((warning: Error) => void)[]
  process.removeAllListeners('warning')
  process.on('warning', (warning: Error & { code?: string }) => {
    if (warning.code === 'FST_QUOTA_MEMORY_FULL') heard.push(warning.message)
  })
  work()
  await new Promise(resolve => setImmediate(resolve))
  process.removeAllListeners('warning')
  for (const listener of listeners) process.on('warning', listener)
  return heard
}

/** What some work returns that may warn. */
async function during<T>(work: () => T): Promise<T> {
  let result: T | undefined
  await warnings(() => (result = work()))
  return result!
}

t.test('never more than maxPartitions, or than one call needs', async t => {
  const calls = fc.array(fc.array(fc.nat(40), { minLength: 1, maxLength: 4 }), { maxLength: 80, size: 'max' })
  const holds = fc.property(
    fc.integer({ min: 1, max: 20 }),
    calls,
    fc.boolean(),
    (maxPartitions, calls, settles) => {
      const store = memoryStore({ maxPartitions })
      let now = T0
      store.useClock(() => (now += 700))
      const sizes = calls.map(partitions => {
        if (settles) store.settle(partitions.map(p => ({ ...settlement(burst, [], 1), partition: `${p}` })))
        else store.consume(partitions.map(p => charge(burst, 1, `${p}`)))
        return store.size
      })
      store.close()
      return Math.max(0, ...sizes) <= Math.max(maxPartitions, 4)
    }
  )
  await warnings(() => fc.assert(holds))

  const { store } = storeAt(t, T0, { maxPartitions: 100 })
  await warnings(() => {
    for (let i = 0; i < 10_000; i++) store.consume([charge(burst, 1, `${i}`)])
  })
  t.equal(store.size, 100)
})

t.test('the partitions of one call do not push each other out', async t => {
  const { store } = storeAt(t, T0, { maxPartitions: 1 })
  const three = ['a', 'b', 'c'].map(partition => charge(burst, 5, partition))
  t.strictSame(allowed(store.consume(three)), [true, true, true])
  t.equal(store.size, 3)
  t.strictSame(allowed(store.consume(three)), [false, false, false])
  await warnings(() => store.consume([charge(burst, 1, 'd')]))
  t.equal(store.size, 3)
})

t.test('nor does a newcomer push out who comes in the same call, but later in it', async t => {
  const { store } = storeAt(t, T0, { maxPartitions: 2 })
  store.consume([charge(burst, 1, 'known')])
  store.consume([charge(burst, 2, 'other')])
  await warnings(() => store.consume([charge(burst, 1, 'new'), charge(burst, 1, 'known')]))
  t.strictSame(remaining(store.peek([charge(burst, 0, 'known')])), [3], 'although it has most to spare')
  t.strictSame([store.use.partitions, store.use.evicted], [2, 1])
})

t.test('what has expired makes room first', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 10 })
  const heard = await warnings(() => {
    for (let i = 0; i < 10; i++) store.consume([charge(i === 7 ? burst : hourly, 1, `${i}`)])
    clock.now += 10_000
    store.consume([charge(hourly, 1, 'new')])
  })
  t.equal(store.size, 10)
  for (const i of [0, 1, 2, 3, 4, 5, 6, 8, 9, 'new']) {
    t.strictSame(remaining(store.peek([charge(hourly, 1, `${i}`)])), [19], `${i} is still there`)
  }
  t.strictSame(heard, [], 'and nobody has to be told')
})

t.test('then who has most left, and of those what would expire first', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 10 })
  await warnings(() => {
    for (let i = 0; i < 10; i++) {
      clock.now = T0 + ((i + 4) % 10)
      store.consume([charge(hourly, 1, `${i}`)])
    }
    store.consume([charge(hourly, 1, 'new')])
  })
  const gone = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].filter(
    i => remaining(store.peek([charge(hourly, 1, `${i}`)]))[0] === 20
  )
  t.strictSame(gone, [6])
})

t.test('who is refused is not forgotten for others he makes up', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 1000 })
  const two = policy('two', { quota: 2, window: '1h' })
  const heard = await warnings(() => {
    for (let i = 0; i < 3; i++) store.consume([charge(two, 1, 'blocked')])
    for (let i = 0; i < 3000; i++) {
      clock.now += 1
      store.consume([charge(two, 1, `made up ${i}`)])
    }
  })
  t.equal(store.size, 1000)
  t.strictSame(allowed(store.consume([charge(two, 1, 'blocked')])), [false])
  t.strictSame(allowed(store.consume([charge(two, 1, 'honest')])), [true])
  t.equal(heard.length, 1, 'one warning')
  t.match(heard[0], /^the memory store is full with 1000 partitions: .* raise maxPartitions or maxBytes/)

  clock.now += 3_600_000 - 1500
  await warnings(() => {
    for (let i = 0; i < 1000; i++) store.consume([charge(two, 1, `later ${i}`)])
  })
  t.strictSame(remaining(store.peek([charge(two, 1, 'blocked')])), [2], 'until its quota is there again')
})

t.test('who holds all the leases is not forgotten for others he makes up', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 100 })
  const slots = policy('slots', { quota: 1, algorithm: 'concurrency', holdFor: '10s' })
  const two = policy('two', { quota: 2, window: '1h' })
  await warnings(() => {
    store.consume([charge(slots, 1, 'holder')])
    for (let i = 0; i < 300; i++) store.consume([charge(two, 1, `made up ${i}`)])
  })
  t.strictSame(allowed(store.consume([charge(slots, 1, 'holder')])), [false])
  clock.now += 10_000
  t.strictSame(allowed(store.consume([charge(slots, 1, 'holder')])), [true], 'until they have ended')
})

t.test('who has released all the leases is protected no longer', async t => {
  const { store } = storeAt(t, T0, { maxPartitions: 10 })
  const slots = policy('slots', { quota: 1, algorithm: 'concurrency', holdFor: '1h' })
  const heard = await warnings(() => {
    for (let i = 0; i < 9; i++) store.consume([charge(hourly, 1, `${i}`)])
    const { charges } = store.consume([charge(slots)]).limits[0]!
    store.settle([settlement(slots, charges, 0)])
    store.consume([charge(hourly, 1, 'new')])
  })
  t.strictSame(heard, [])
  t.strictSame(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 'new'].map(i => remaining(store.peek([charge(hourly, 1, `${i}`)]))[0]),
    Array.from({ length: 10 }, () => 19)
  )
})

t.test('a million addresses do not wash away who is refused, and others are served', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 10_000, maxBytes: 4_000_000 })
  const five = policy('five', { quota: 5, window: '1h' })
  const ask = (partition: string): boolean[] => allowed(store.consume([charge(five, 1, partition)]))
  await warnings(() => {
    for (let i = 0; i < 5; i++) ask('refused')
    ask('known')
    for (let i = 0; i < FLOOD; i++) {
      if (i % 100 === 0) clock.now += 1
      ask(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
    }
  })
  t.strictSame(ask('refused'), [false])
  t.strictSame(ask('known'), [true])
  t.strictSame(ask('newcomer'), [true])
  t.equal(store.use.partitions, 10_000)
  t.ok(store.use.bytes <= 4_000_000, `${store.use.bytes} bytes`)
  t.ok(store.use.evicted >= FLOOD + 3 - 10_000)
  t.equal(store.use.shared, 0)
})

t.test('who is refused by a lower quota than before has nothing to spare', async t => {
  const { store } = storeAt(t, T0, { maxPartitions: 2 })
  const ten = policy('ten', { quota: 10, window: '1h' })
  const ask = (by: QuotaPolicy, partition: string): boolean[] =>
    allowed(store.consume([charge(by, 1, partition)]))
  await warnings(() => {
    for (let i = 0; i < 4; i++) ask(ten, 'lowered')
    for (let i = 0; i < 8; i++) ask(ten, 'other')
    t.strictSame(ask(ten.withQuota(4), 'lowered'), [false])
    ask(ten, 'newcomer')
    t.strictSame(ask(ten.withQuota(4), 'lowered'), [false], 'and is not forgotten')
  })
})

t.test('while all who are held have spent their quota, newcomers share one', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 100 })
  const three = policy('three', { quota: 3, window: '1h' })
  const ask = (partition: string): Answer => store.consume([charge(three, 1, partition)])
  await warnings(() => {
    for (let i = 0; i < 100; i++) for (let j = 0; j < 3; j++) ask(`${i}`)
    t.strictSame(remaining(ask('a')), [2])
    t.strictSame(remaining(ask('b')), [1], 'together with the one before')
    t.strictSame(allowed(ask('7')), [false], 'and who was refused is refused')
  })
  t.strictSame([store.use.evicted, store.use.shared], [0, 2])
  clock.now += 3_600_000
  t.strictSame(remaining(ask('a')), [2], 'until there is room again')
  t.equal(store.use.shared, 2)
})

t.test('what newcomers share is given back and renewed there', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 1 })
  const slots = policy('slots', { quota: 2, algorithm: 'concurrency', holdFor: '10s' })
  const one = policy('one', { quota: 1, window: '1h' })
  const place = (partition: string): ServiceLimit => store.consume([charge(slots, 1, partition)]).limits[0]!
  const lease = (partition: string, charges: readonly Receipt[]): Lease => ({
    partition,
    policy: slots,
    charges
  })
  store.consume([charge(one, 1, 'spent')])
  const [a, b] = await during(() => [place('a'), place('b')] as const)
  t.strictSame([a.remaining, b.remaining, place('c').allowed], [1, 0, false], 'one quota for all of them')
  clock.now += 5000
  const [renewed] = store.renew([lease('a', a.charges)])
  clock.now += 5000
  t.equal(place('c').allowed, true, 'b has ended, a was renewed')
  t.equal(place('d').allowed, false)
  clock.now += 3_600_000 - 20_000
  const [again] = store.renew([lease('a', renewed!)])
  t.strictSame(again, [], 'what has ended is not renewed')
  const e = place('e')
  t.equal(place('f').remaining, 0)
  store.settle([{ ...settlement(slots, e.charges, 0), partition: 'e' }])
  t.equal(place('g').allowed, true, 'the place of e')
})

t.test('a charge is corrected where it was counted, although its partition has found room since', async t => {
  const { store, clock } = storeAt(t, T0, { maxPartitions: 1 })
  const spent = policy('spent', { quota: 1, window: '1s' })
  const hundred = policy('hundred', { quota: 100, window: '1h' })
  store.consume([charge(spent, 1, 'spent')])
  const shared = await during(() => store.consume([charge(hundred, 10, 'a')]).limits[0]!)
  clock.now += 1000
  const own = store.consume([charge(hundred, 20, 'a')]).limits[0]!
  t.equal(own.remaining, 80, 'a partition of its own')
  const both = [...shared.charges, ...own.charges]
  const { limits } = store.settle([{ ...settlement(hundred, both, 5), partition: 'a' }])
  t.strictSame(limits[0]!.remaining, 100)
  t.strictSame(remaining(store.peek([charge(hundred, 0, 'a')])), [100])
  const owed = store.settle([{ ...settlement(hundred, limits[0]!.charges, 7), partition: 'a' }])
  t.strictSame(remaining(owed), [93], 'what more was used is charged to its own')
})

t.test('what was charged to a partition that was forgotten is not given back to newcomers', async t => {
  const { store } = storeAt(t, T0, { maxPartitions: 1 })
  const slots = policy('slots', { quota: 5, algorithm: 'concurrency', holdFor: '1h' })
  const ten = policy('ten', { quota: 10, window: '1h' })
  const own = store.consume([charge(ten, 4, 'a'), charge(slots, 2, 'a')]).limits
  await warnings(() => {
    store.consume([charge(ten, 9, 'b')])
    store.consume([charge(ten, 6, 'c'), charge(slots, 2, 'c')])
  })
  t.equal(store.use.evicted, 1, 'a has made room for b')
  t.equal(store.use.shared, 1, 'b makes room for nobody')
  for (const { policy, charges } of own) {
    if (policy === slots) t.strictSame(store.renew([{ partition: 'a', policy, charges }]), [[]])
    store.settle([{ ...settlement(policy, charges, 0), partition: 'a' }])
  }
  t.strictSame(
    remaining(store.consume([charge(ten, 0, 'd'), charge(slots, 0, 'd')])),
    [4, 3],
    'newcomers have as much as before'
  )
})

t.test('another store warns for itself', async t => {
  const fill = (): void => {
    const { store } = storeAt(t, T0, { maxPartitions: 1 })
    for (let i = 0; i < 5; i++) store.consume([charge(burst, 1, `${i}`)])
  }
  t.equal((await warnings(fill)).length, 1)
  t.equal((await warnings(fill)).length, 1)
})

/** Timers that go off when they are told to, for stores made meanwhile. */
function mockTimers(t: Test): (milliseconds: number) => void {
  mock.timers.enable({ apis: ['setInterval', 'setImmediate'] })
  t.teardown(() => mock.timers.reset())
  return milliseconds => mock.timers.tick(milliseconds)
}

t.test('a sweep drops what has expired and nothing else', async t => {
  const tick = mockTimers(t)
  const { store, clock } = storeAt(t, T0)
  for (let i = 0; i < 1000; i++) store.consume([charge(i % 4 === 0 ? hourly : burst, 1, `${i}`)])
  clock.now = T0 + 9999
  tick(1000)
  t.equal(store.size, 1000)
  clock.now = T0 + 10_000
  tick(999)
  t.equal(store.size, 1000)
  tick(1)
  t.equal(store.size, 250)
  clock.now = T0 + 3_600_000
  tick(1000)
  t.equal(store.size, 0)
  store.consume([charge(burst, 1, 'new')])
  t.equal(store.size, 1)
  clock.now += 10_000
  tick(2000)
  t.equal(store.size, 0, 'and goes on')
})

t.test('a charge keeps its partition as long as the longest of its policies counts', async t => {
  const tick = mockTimers(t)
  const { store, clock } = storeAt(t, T0)
  store.consume([charge(hourly)])
  store.consume([charge(burst)])
  clock.now = T0 + 3_599_999
  tick(1000)
  t.strictSame(remaining(store.peek([charge(hourly)])), [19])
  clock.now += 1
  tick(1000)
  t.equal(store.size, 0)
})

t.test('a partition that has given everything back goes with the next sweep', async t => {
  const tick = mockTimers(t)
  const { store } = storeAt(t, T0)
  const slots = policy('slots', { quota: 2, algorithm: 'concurrency', holdFor: '1h' })
  const bucket = policy('bucket', { quota: 3, window: '1h', algorithm: 'token-bucket' })
  const counter = policy('counter', { quota: 3, window: '1h', algorithm: 'sliding-window-counter' })
  const log = policy('log', { quota: 3, window: '1h' })
  const all = [slots, bucket, counter, log, hourly]
  for (const [i, policy] of all.entries()) {
    const [one, two] = ['a', 'b'].map(name => store.consume([charge(policy, 2, `${name}${i}`)]).limits[0]!)
    store.settle([{ ...settlement(policy, one!.charges, 0), partition: `a${i}` }])
    store.settle([{ ...settlement(policy, two!.charges, 1), partition: `b${i}` }])
  }
  t.equal(store.size, 10)
  tick(1000)
  t.equal(store.size, 5)
  for (const [i, policy] of all.entries()) {
    t.strictSame(remaining(store.peek([charge(policy, 0, `b${i}`)])), [policy.capacity - 1], policy.name)
    store.reset([charge(policy, 0, `b${i}`)])
  }
  tick(2000)
  t.equal(store.size, 0, 'nor what was forgotten')

  const { charges } = store.consume([charge(slots, 2), charge(hourly)]).limits[0]!
  store.settle([settlement(slots, charges, 0)])
  tick(2000)
  t.strictSame(remaining(store.peek([charge(slots), charge(hourly)])), [2, 19], 'another policy counts it')
  store.reset([charge(slots), charge(daily)])
  tick(2000)
  t.equal(store.size, 1)
  store.reset([charge(hourly)])
  tick(2000)
  t.equal(store.size, 0)
})

t.test('two hundred thousand that expire together are gone within seconds, in small steps', async t => {
  const tick = mockTimers(t)
  const { store, clock } = storeAt(t, T0, { maxPartitions: 300_000 })
  const second = policy('second', { quota: 5, window: '1s' })
  for (let i = 0; i < 200_000; i++) store.consume([charge(second, 1, `${i}`)])
  for (let i = 0; i < 1000; i++) store.consume([charge(hourly, 1, `living ${i}`)])
  t.equal(store.size, 201_000)
  clock.now += 1000
  for (let seconds = 0; seconds < 2; seconds++) tick(1000)
  t.equal(store.size, 1000)
})

t.test('what lives is looked at a quarter in a round', async t => {
  const tick = mockTimers(t)
  const { store, clock } = storeAt(t, T0)
  for (let i = 0; i < 40_000; i++) store.consume([charge(i < 20_000 ? hourly : burst, 1, `${i}`)])
  clock.now += 10_000
  const sizes = Array.from({ length: 5 }, () => {
    tick(1000)
    return store.size
  })
  t.equal(sizes[0], 40_000, 'the first round met the living only')
  t.ok(sizes[1]! >= 20_000 && sizes[2] === 20_000, sizes.join())
})

// --- Its life ---------------------------------------------------------------------------------------------------------

t.test('it keeps no process alive', async t => {
  const module = new URL('../../src/stores/memory.js', import.meta.url)
  const script = `import { memoryStore } from ${JSON.stringify(module.href)}; memoryStore().open(); console.log('done')`
  const { status, stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    timeout: 20_000
  })
  t.equal(signal, null, fileURLToPath(module))
  t.equal(status, 0)
  t.equal(stdout, 'done\n')
})

t.test('a closed one leaves no timer', async t => {
  const active = process.getActiveResourcesInfo().toSorted()
  for (let i = 0; i < 200; i++) {
    const store = memoryStore()
    store.open()
    store.close()
  }
  t.strictSame(process.getActiveResourcesInfo().toSorted(), active)

  const tick = mockTimers(t)
  let swept = 0
  const stores = Array.from({ length: 200 }, () => {
    const store = memoryStore()
    store.open()
    store.consume([charge(burst)])
    store.useClock(() => (swept += 1))
    return store
  })
  tick(1000)
  t.equal(swept, 200)
  for (const store of stores) store.close()
  tick(10_000)
  t.equal(swept, 200, 'nor one that is only not waited for')
})

t.test('it sweeps from the first app that opens it to the last that closes it', async t => {
  const tick = mockTimers(t)
  const store = memoryStore()
  let swept = 0
  store.useClock(() => (swept += 1))
  const sweeps = (): number => {
    const before = swept
    tick(1000)
    return swept - before
  }
  t.equal(sweeps(), 0, 'nobody has opened it')
  store.close()
  store.open()
  t.equal(sweeps(), 1)
  store.open()
  t.equal(sweeps(), 1, 'one timer for all')
  store.close()
  t.equal(sweeps(), 1, 'one app is left')
  store.close()
  t.equal(sweeps(), 0)
  store.close()
  store.open()
  t.equal(sweeps(), 1, 'closed once too often, it can be opened again')
  store.close()
  t.equal(sweeps(), 0)
})

t.test('options are checked', async t => {
  const refused = (options: unknown, message: string): void => {
    t.throws(() => memoryStore(options as object), { code: 'FST_QUOTA_OPTION', message })
  }
  const range = 'memoryStore: maxPartitions must be an integer from 1 to 16777215, got'
  refused({ maxPartitions: 0 }, `${range} 0`)
  refused({ maxPartitions: 1.5 }, `${range} 1.5`)
  refused({ maxPartitions: 2 ** 24 }, `${range} 16777216`)
  refused({ maxPartitions: '10' }, `${range} "10"`)
  refused({ maxBytes: 1 }, 'memoryStore: maxBytes must be an integer from 1024 to 1099511627776, got 1')
  refused({ max: 10 }, 'memoryStore: unknown option "max" with the value 10; did you mean "maxPartitions"?')
  refused(
    { maxPartition: 10 },
    'memoryStore: unknown option "maxPartition" with the value 10; did you mean "maxPartitions"?'
  )
  refused([], 'memoryStore: options must be an object, got []')
  for (const maxPartitions of [1, 2 ** 24 - 1]) {
    const store = memoryStore({ maxPartitions })
    t.type(store, MemoryStore)
    store.close()
  }
})
