import t from 'tap'
import { EMPTY, NEVER, UNKNOWN } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Step } from '../../src/algorithm.js'
import { concurrency } from '../../src/algorithms/concurrency.js'

const T0 = 1_753_900_000_123
const HOUR = 3_600_000
const HOLD = 1000

const params = (quota: number, holdFor: number = HOLD): Params =>
  concurrency.params({ quota, holdFor, window: 0, precision: 10, burst: quota, align: false, maxDelay: 0 })
const step = (...inputs: Parameters<Algorithm['step']>): Step => concurrency.step(...inputs)
const chosen = params(5)

/** The state after leases were taken at these times, each [milliseconds after T0, units]. */
function held(taken: readonly (readonly [at: number, units: number])[]): State {
  return taken.reduce((state, [at, units]) => step(state, chosen, T0 + at, units).state, EMPTY)
}

/** The receipt of a lease that was taken so many milliseconds after T0. */
const lease = (at: number, units: number): Receipt => ({
  at: concurrency.receiptAt!(chosen, T0 + at),
  units
})
const settled = (state: State, now: number, charge: Receipt, actual: number): State =>
  concurrency.settle(state, chosen, T0 + now, charge, actual)
const renewed = (state: State, now: number, charge: Receipt): { state: State; charge: Receipt } =>
  concurrency.renew!(state, chosen, T0 + now, charge)

t.test('a state is units and when they end; the receipt of a lease is its end', async t => {
  t.strictSame(chosen, [5, HOLD])
  t.strictSame(lease(7, 2), { at: T0 + 1007, units: 2 })
  const first = step(EMPTY, chosen, T0, 2)
  t.strictSame(first, {
    allowed: true,
    state: [2, T0 + 1000],
    remaining: 3,
    effectiveWindow: 0,
    retryAfter: 0,
    delay: 0,
    ttl: 1000
  })
  t.strictSame(step(first.state, chosen, T0, 1).state, [3, T0 + 1000], 'leases that end together are one')
  t.match(step(first.state, chosen, T0 + 400, 1), {
    state: [2, T0 + 1000, 1, T0 + 1400],
    remaining: 2,
    ttl: 1000
  })
  t.match(step(first.state, chosen, T0 + 400, 0), { state: first.state, remaining: 3, ttl: 600 }, 'a peek')
})

t.test('nobody knows when a place becomes free: no wait, no window', async t => {
  const full = held([[0, 5]])
  t.match(step(full, chosen, T0 + 1, 1), {
    allowed: false,
    remaining: 0,
    retryAfter: UNKNOWN,
    effectiveWindow: 0
  })
  t.match(step(full, chosen, T0 + 1, 5), { allowed: false, retryAfter: UNKNOWN })
  t.match(step(full, chosen, T0 + 1, 6), { allowed: false, retryAfter: NEVER })
  t.match(step(EMPTY, chosen, T0 + 1, 6), {
    allowed: false,
    remaining: 5,
    retryAfter: NEVER,
    effectiveWindow: 0
  })
})

t.test('a lease that nobody releases ends by itself', async t => {
  const state = held([
    [0, 2],
    [400, 3]
  ])
  t.match(step(state, chosen, T0 + 999, 1), { allowed: false, remaining: 0 })
  t.match(step(state, chosen, T0 + 1000, 2), { allowed: true, state: [3, T0 + 1400, 2, T0 + 2000] })
  t.match(step(state, chosen, T0 + 1399, 0), { remaining: 2, ttl: 1 })
  t.match(step(state, chosen, T0 + 1400, 0), { remaining: 5, state: [], ttl: 0 })
})

t.test('a release ends its own lease, or so many of its units', async t => {
  const state = held([
    [0, 2],
    [300, 1],
    [400, 2]
  ])
  t.strictSame(settled(state, 500, lease(300, 1), 0), [2, T0 + 1000, 2, T0 + 1400])
  t.strictSame(settled(state, 500, lease(400, 2), 1), [2, T0 + 1000, 1, T0 + 1300, 1, T0 + 1400])
  t.strictSame(settled(state, 500, lease(400, 2), 2), state)
  t.strictSame(settled(state, 500, lease(400, 9), 0), [2, T0 + 1000, 1, T0 + 1300], 'and none of others')
  t.strictSame(settled(state, 1300, lease(300, 1), 0), [2, T0 + 1400], 'it has ended')
  t.strictSame(settled(state, 1200, lease(0, 2), 0), [1, T0 + 1300, 2, T0 + 1400], 'nor after its end')
  t.strictSame(settled(EMPTY, 500, lease(400, 2), 0), [])
  t.strictSame(settled(held([[400, 2]]), 500, lease(0, 2), 0), [2, T0 + 1400], 'never one that ends later')
})

t.test('what turns out to be more is a lease of its own, up to one quota of debt', async t => {
  const state = held([[0, 4]])
  t.strictSame(settled(state, 500, lease(0, 4), 6), [4, T0 + 1000, 2, T0 + 1500])
  t.strictSame(settled(state, 500, lease(0, 4), 99), [4, T0 + 1000, 6, T0 + 1500])
  t.match(step(settled(state, 500, lease(0, 4), 99), chosen, T0 + 1000, 1), { allowed: false, remaining: 0 })
  t.strictSame(settled(state, 1000, lease(0, 4), 6), [2, T0 + 2000])
})

t.test('a renewed lease lives as long as a new one, under a new receipt', async t => {
  const state = held([
    [0, 2],
    [400, 1]
  ])
  const first = renewed(state, 900, lease(0, 2))
  t.strictSame(first, { state: [1, T0 + 1400, 2, T0 + 1900], charge: lease(900, 2) })
  t.match(step(first.state, chosen, T0 + 1899, 0), { remaining: 3 })
  t.match(step(first.state, chosen, T0 + 1900, 0), { remaining: 5 })
  const second = renewed(first.state, 1800, first.charge)
  t.strictSame(second, { state: [2, T0 + 2800], charge: lease(1800, 2) })
  t.strictSame(settled(second.state, 1900, second.charge, 0), [])
  t.strictSame(settled(first.state, 1000, lease(0, 2), 0), first.state, 'the old receipt has ended')
  t.strictSame(renewed(state, 400, lease(400, 1)), { state, charge: lease(400, 1) }, 'in the same ms')
})

t.test('a lease that has ended is not renewed, nor one that is not there', async t => {
  const state = held([
    [0, 2],
    [400, 1]
  ])
  t.strictSame(renewed(state, 1000, lease(0, 2)), { state: [1, T0 + 1400], charge: lease(1000, 0) })
  t.strictSame(renewed(EMPTY, 500, lease(0, 2)), { state: [], charge: lease(500, 0) })
  t.strictSame(renewed(held([[400, 1]]), 500, lease(0, 2)), { state: [1, T0 + 1400], charge: lease(500, 0) })
  t.strictSame(
    renewed(held([[400, 1]]), 500, lease(400, 3)).charge,
    lease(500, 1),
    'as many units as there are'
  )
})

t.test('a clock that goes back keeps nobody longer than a new lease', async t => {
  const state = held([
    [0, 2],
    [400, 1]
  ])
  const back = step(state, chosen, T0 - HOUR, 1)
  t.match(back, { state: [4, T0 - HOUR + 1000], remaining: 1, ttl: 1000 }, 'all end by then')
  t.strictSame(step(state, chosen, T0 + 100, 0).state, [2, T0 + 1000, 1, T0 + 1100])
  t.match(step(back.state, chosen, T0 - HOUR + 1000, 0), { remaining: 5 })
})

t.test(
  'after that a receipt ends what ends last before it: as many units, maybe those of others',
  async t => {
    const back = step(held([[0, 2]]), chosen, T0 - HOUR, 0).state
    t.strictSame(settled(back, -HOUR + 10, lease(0, 2), 0), [], 'alone, its own')
    const others = step(back, chosen, T0 - HOUR + 10, 3).state
    t.strictSame(others, [2, T0 - HOUR + 1000, 3, T0 - HOUR + 1010])
    t.strictSame(settled(others, -HOUR + 20, lease(0, 2), 0), [2, T0 - HOUR + 1000, 1, T0 - HOUR + 1010])
    t.strictSame(
      renewed(back, -HOUR + 10, lease(0, 2)),
      { state: [2, T0 - HOUR + 1010], charge: { at: T0 - HOUR + 1010, units: 2 } },
      'and a renewal makes the receipt right again'
    )
  }
)

t.test('a decision takes as long as there are leases, and not their square', async t => {
  const many = params(1000, HOUR)
  const take = (state: State, at: number): State => step(state, many, T0 + at, 1).state
  const state = Array.from({ length: 1000 }, (_, at) => at).reduce(take, EMPTY)
  t.equal(state.length, 2000)
  const started = performance.now()
  for (let i = 0; i < 200; i++) t.equal(step(state, many, T0 + 1000, 1).allowed, false)
  const took = performance.now() - started
  t.ok(took < 2000, `${took} ms`)

  const ages = 100_000
  const long = Array.from({ length: 2 * ages }, (_, i) => (i % 2 === 0 ? 1 : T0 + 1000 + i))
  const begun = performance.now()
  t.match(step(long, params(ages, HOUR), T0, 1), { allowed: false, remaining: 0, ttl: 1000 + 2 * ages - 1 })
  const later = performance.now() - begun
  t.ok(later < 2000, `${later} ms for ${ages}`)
})

t.test('another quota, or another time to hold, keeps the leases', async t => {
  const state = held([[0, 4]])
  t.match(step(state, params(9), T0 + 1, 5), { allowed: true, remaining: 0 })
  t.match(step(state, params(3), T0 + 1, 1), { allowed: false, remaining: 0, retryAfter: UNKNOWN })
  t.match(step(state, params(3), T0 + 1, 0), { allowed: true, remaining: 0 })
  t.strictSame(step(state, params(5, 100), T0 + 1, 0).state, [4, T0 + 101])
  t.strictSame(step(state, params(5, HOUR), T0 + 1, 1).state, [4, T0 + 1000, 1, T0 + 1 + HOUR])
})

t.test('without a quota there is nothing; who is there stays', async t => {
  const nothing = { allowed: false, remaining: 0, effectiveWindow: 0, retryAfter: NEVER }
  t.match(step(EMPTY, params(0), T0, 0), { ...nothing, state: [], ttl: 0 })
  t.match(step(held([[0, 4]]), params(0), T0 + 1, 1), { ...nothing, state: [4, T0 + 1000], ttl: 999 })
  t.equal(concurrency.capacity(params(0)), 0)
})
