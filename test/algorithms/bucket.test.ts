import t from 'tap'
import { EMPTY, NEVER, TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, State, Step, Terms } from '../../src/algorithm.js'
import { leakyBucket, tokenBucket } from '../../src/algorithms/bucket.js'

const params = (terms: Terms): Params => tokenBucket.params(terms)
const step = (...inputs: Parameters<Algorithm['step']>): Step => tokenBucket.step(...inputs)
const settle = (...inputs: Parameters<Algorithm['settle']>): State => tokenBucket.settle(...inputs)
const SECOND = 1000
const HOUR = 3_600_000
const YEAR = 8760 * HOUR
const T0 = 1_753_900_000_000

const terms = (quota: number, window: number, burst: number = quota): Terms => ({
  quota,
  window,
  precision: 10,
  burst,
  align: false,
  maxDelay: 0,
  holdFor: 30_000
})

/** What somebody gets who asks for one unit at each of these times. */
function asked(chosen: Params, times: readonly number[], state: State = EMPTY): readonly Step[] {
  return times.map(at => {
    const next = step(state, chosen, T0 + at, 1)
    state = next.state
    return next
  })
}

const admitted = (steps: readonly Step[]): number => steps.filter(({ allowed }) => allowed).length
const every = (milliseconds: number, times: number): number[] =>
  Array.from({ length: times }, (_, i) => i * milliseconds)

t.test('a unit weighs one window, and a tick drains as many parts as the quota has units', async t => {
  const chosen = params(terms(7, 997, 3))
  t.strictSame(chosen, [7, 997, 3 * 997, 1, 0])
  const { state } = step(EMPTY, chosen, T0, 2)
  t.strictSame(state, [1994, T0])
  t.strictSame(step(state, chosen, T0 + 142, 0).state, [1000, T0 + 142])
  t.match(step(state, chosen, T0 + 284, 0), { state: [6, T0 + 284], remaining: 2, ttl: 1 })
  t.match(step(state, chosen, T0 + 285, 0), { state: [], remaining: 3, ttl: 0 })
})

t.test('t is the time the whole rest takes to refill, or one unit', async t => {
  const chosen = params(terms(10, 60_000, 20))
  t.match(step(EMPTY, chosen, T0, 0), { remaining: 20, effectiveWindow: 120_000 })
  t.match(step(EMPTY, chosen, T0, 5), { remaining: 15, effectiveWindow: 90_000 })
  const { state, ...empty } = step(EMPTY, chosen, T0, 20)
  t.match(empty, { remaining: 0, effectiveWindow: 6000 })
  t.match(
    step(state, chosen, T0 + 8000, 0),
    { remaining: 1, effectiveWindow: 8000 },
    'what is there of the next counts'
  )
  t.match(step(state, chosen, T0 + 8000, 3), {
    allowed: false,
    remaining: 1,
    retryAfter: 10_000,
    effectiveWindow: 10_000
  })
  t.match(step(state, chosen, T0 + 8000, 21), { remaining: 1, retryAfter: NEVER, effectiveWindow: 8000 })
  t.match(step(state, chosen, T0 + 4000, 21), { remaining: 0, retryAfter: NEVER, effectiveWindow: 2000 })
})

t.test('r / t is never above quota / window', async t => {
  for (const chosen of [terms(7, 1500, 20), terms(3, 60_000, 10), terms(1000, 7, 1000)]) {
    const { quota, window, burst } = chosen
    const above = Array.from({ length: burst }, (_, units) => step(EMPTY, params(chosen), T0, units)).filter(
      ({ remaining, effectiveWindow }) => remaining * window > quota * effectiveWindow
    )
    t.strictSame(above, [], `${quota} per ${window} ms, burst ${burst}`)
  }
})

t.test('windows of an hour and more tick in seconds, and are whole seconds', async t => {
  t.strictSame(params(terms(5, HOUR - 1)), [5, HOUR - 1, 5 * (HOUR - 1), 1, 0])
  const hourly = params(terms(5, HOUR))
  t.strictSame(hourly, [5, 3600, 18_000, 1000, 0])
  t.throws(
    () => params(terms(5, HOUR + 500)),
    new TermsError('a bucket with a window of an hour or more counts whole seconds, got 3600500 ms')
  )
  const { state } = step(EMPTY, hourly, T0 + 900, 5)
  t.strictSame(state, [18_000, T0 / 1000])
  t.match(
    step(state, hourly, T0 + 900, 1),
    { allowed: false, retryAfter: 719_100 },
    'to the first tick that has it'
  )
  t.match(step(state, hourly, T0 + 719_999, 1), { allowed: false, retryAfter: 1 })
  t.match(step(state, hourly, T0 + 720_000, 1), { allowed: true, remaining: 0, effectiveWindow: 720_000 })
})

t.test('12 hours and 10 years of idleness fill it and no more', async t => {
  for (const [quota, window, burst] of [
    [1_000_000_000, SECOND, 1_000_000_000],
    [1, YEAR, 1]
  ] as const) {
    const chosen = params(terms(quota, window, burst))
    const { state } = step(EMPTY, chosen, T0, burst)
    for (const idle of [12 * HOUR, 10 * YEAR, 10_000 * YEAR]) {
      const full = window > idle ? { allowed: false, remaining: 0 } : { allowed: true, remaining: burst - 1 }
      t.match(step(state, chosen, T0 + idle, 1), full, `${quota} per ${window} ms, ${idle} ms later`)
    }
  }
})

t.test('a billion a second and one a year are exact', async t => {
  const fast = params(terms(1_000_000_000, SECOND))
  const { state } = step(EMPTY, fast, T0, 1_000_000_000)
  t.match(step(state, fast, T0 + 1, 0), { remaining: 1_000_000 })
  t.match(step(state, fast, T0 + 1, 1_000_001), { allowed: false, retryAfter: 1 })
  const rest = step(state, fast, T0 + 999, 999_000_000)
  t.match(rest, { allowed: true, remaining: 0 })
  t.match(step(rest.state, fast, T0 + 1000, 1_000_000), { allowed: true, remaining: 0 })
  const one = step(EMPTY, fast, T0, 1)
  t.match(one, { state: [1000, T0], remaining: 999_999_999, ttl: 1 })

  const slow = params(terms(1, YEAR))
  const spent = step(EMPTY, slow, T0, 1).state
  t.match(step(spent, slow, T0 + YEAR - 1, 1), { allowed: false, retryAfter: 1 })
  t.match(step(spent, slow, T0 + YEAR, 1), { allowed: true })

  const years = params(terms(1_000_000, YEAR))
  t.equal(admitted(asked(years, every(SECOND, 2_000_000), step(EMPTY, years, T0, 1_000_000).state)), 63_419)
})

t.test('rounding never refills a unit early', async t => {
  const [, , , , , sixth, early, late, due] = asked(
    params(terms(6, 60_000)),
    [0, 0, 0, 0, 0, 0, 5000, 9900, 10_000]
  )
  t.match(sixth, { allowed: true, remaining: 0 })
  t.match(early, { allowed: false, retryAfter: 5000 })
  t.match(late, { allowed: false, retryAfter: 100 })
  t.match(due, { allowed: true, remaining: 0 })
})

t.test('fractions of a unit are kept, so a slow refill starves nobody', async t => {
  const steps = asked(params(terms(1, SECOND)), every(600, 21))
  t.strictSame(
    steps.map(({ allowed }) => allowed),
    steps.map((_, i) => i % 2 === 0)
  )
  const perHour = asked(params(terms(1, HOUR)), every(2_160_000, 21))
  t.equal(admitted(perHour), 11, 'nor with ticks of a second')
})

t.test('what is given back fades as it refills', async t => {
  const chosen = params(terms(10, 10_000))
  const charge = { at: T0, units: 8 }
  const { state } = step(EMPTY, chosen, T0, 10)
  const settled = (now: number, actual: number): Step =>
    step(settle(state, chosen, T0 + now, charge, actual), chosen, T0 + now, 0)
  t.match(settled(0, 3), { remaining: 5, state: [50_000, T0] }, 'all of it at once')
  t.match(settled(3000, 3), { remaining: 3 + 5 }, 'all of it while the rest has not refilled')
  t.match(settled(5000, 3), { remaining: 5 + 3 }, 'then as much of it as has not: 8 − 5')
  t.match(settled(7500, 3), { remaining: 8, state: [20_000, T0 + 7500] }, '8 − 7.5 and what was not spent')
  t.match(settled(8000, 3), { remaining: 8 }, 'nothing more')
  t.match(settled(9500, 3), { remaining: 9 })
  t.match(settled(3000, 0), { remaining: 3 + 5 })
  t.match(settled(60_000, 0), { remaining: 10, state: [] }, 'never above the burst')
  t.strictSame(settle(EMPTY, chosen, T0, charge, 0), [])
})

t.test('with ticks of a second, what is given back is what those ticks left', async t => {
  const chosen = params(terms(3600, HOUR, 10))
  const { state } = step(EMPTY, chosen, T0 + 900, 10)
  const charge = { at: T0 + 900, units: 10 }
  t.strictSame(settle(state, chosen, T0 + 999, charge, 0), [])
  t.strictSame(settle(state, chosen, T0 + 1000, charge, 4), [3 * 3600, T0 / 1000 + 1], '10 − 6 − 1')
  t.strictSame(settle(state, chosen, T0 + 6000, charge, 4), [], '10 − 6 − 4: only 4 of them are left')
  t.strictSame(settle(state, chosen, T0 + 5000, charge, 9), [4 * 3600, T0 / 1000 + 5])
  const last = { at: T0 + 900, units: 4 }
  t.strictSame(
    settle(state, chosen, T0 + 1000, last, 0),
    [6 * 3600, T0 / 1000 + 1],
    'a tick that began since is over'
  )
})

t.test('an overrun is paid off at quota / window, up to one burst', async t => {
  const chosen = params(terms(10, 10_000, 20))
  const { state } = step(EMPTY, chosen, T0, 20)
  const charge = { at: T0, units: 20 }
  const debt = settle(state, chosen, T0 + 1000, charge, 25)
  t.strictSame(debt, [240_000, T0 + 1000])
  t.match(step(debt, chosen, T0 + 1000, 1), {
    allowed: false,
    remaining: 0,
    retryAfter: 5000,
    effectiveWindow: 5000
  })
  t.match(step(debt, chosen, T0 + 1000, 0), { allowed: true, remaining: 0, effectiveWindow: 5000 })
  t.match(step(debt, chosen, T0 + 6000, 1), { allowed: true, remaining: 0 })
  t.strictSame(settle(state, chosen, T0 + 1000, charge, 999), [400_000, T0 + 1000])
  t.strictSame(settle(EMPTY, chosen, T0, charge, 23), [30_000, T0])
})

t.test('a clock that goes back drains nothing until it goes on', async t => {
  const chosen = params(terms(10, 10_000))
  const { state } = step(EMPTY, chosen, T0, 10)
  const back = step(state, chosen, T0 - HOUR, 1)
  t.match(back, { allowed: false, state: [100_000, T0 - HOUR], retryAfter: 1000, ttl: 10_000 })
  t.match(step(back.state, chosen, T0 - HOUR + 1000, 1), { allowed: true, remaining: 0 })
  t.strictSame(
    settle(state, chosen, T0 - HOUR, { at: T0, units: 10 }, 4),
    [40_000, T0 - HOUR],
    'and can be given back'
  )
})

t.test('without a quota there is nothing, whatever the burst; what was spent is not forgotten', async t => {
  const none = params(terms(0, 60_000, 5))
  const nothing = { allowed: false, remaining: 0, effectiveWindow: 0, retryAfter: NEVER }
  t.match(step(EMPTY, none, T0, 0), { ...nothing, state: [], ttl: 0 })
  t.match(step(EMPTY, none, T0, 1), { ...nothing, state: [], ttl: 0 })
  const { state } = step(EMPTY, params(terms(5, 60_000)), T0, 5)
  t.match(step(state, none, T0 + 1000, 1), { ...nothing, state: [300_000, T0 + 1000], ttl: 300_000 })
})

t.test('terms that doubles cannot count are refused', async t => {
  t.throws(
    () => params(terms(1, 60_000, 51_000_000_000)),
    new TermsError('three times burst times window in milliseconds must stay below 2^53, got about 9.2e+15')
  )
  t.throws(
    () => params(terms(1000, 24 * HOUR, 35_000_000_000)),
    new TermsError('three times burst times window in seconds must stay below 2^53, got about 9.1e+15')
  )
  t.throws(
    () => params(terms(1, YEAR, 100_000)),
    new TermsError('the milliseconds in which that drains must stay below 2^53, got about 9.5e+15')
  )
  t.strictSame(params(terms(1, 60_000, 50_000_000_000)), [1, 60_000, 50_000_000_000 * 60_000, 1, 0])
  t.strictSame(params(terms(0, YEAR, 0)), [0, YEAR / 1000, 0, 1000, 0])
})

t.test('a leaky bucket that meters is the token bucket', async t => {
  for (const chosen of [terms(7, 997, 3), terms(100, SECOND), terms(5, HOUR, 9), terms(0, 60_000, 2)]) {
    t.strictSame(leakyBucket.params(chosen), params(chosen))
    for (const units of [0, 1, 3, 10]) {
      const state: State = [2 * chosen.window, T0 - 1]
      t.strictSame(
        leakyBucket.step(state, params(chosen), T0, units),
        step(state, params(chosen), T0, units),
        `${units} of ${chosen.quota} per ${chosen.window} ms`
      )
    }
  }
})

// --- A queue ----------------------------------------------------------------------------------------------------------

const queueing = (quota: number, window: number, maxDelay: number): Params =>
  leakyBucket.params({ ...terms(quota, window), maxDelay })

/** What those get who ask for so many units at these times, each [milliseconds after T0, units]. */
function queued(
  chosen: Params,
  asked: readonly (readonly [at: number, units: number])[]
): readonly (number | false)[] {
  let state = EMPTY
  return asked.map(([at, units]) => {
    const next = leakyBucket.step(state, chosen, T0 + at, units)
    state = next.state
    return next.allowed && next.delay
  })
}

const ones = (times: readonly number[]): (readonly [number, number])[] => times.map(at => [at, 1])

t.test('a queue holds what starts within maxDelay, and starts it at the pace of the quota', async t => {
  const chosen = queueing(10, SECOND, 500)
  t.equal(leakyBucket.capacity(chosen), 6, '500 ms at one each 100 ms, and the one that starts')
  t.strictSame(queued(chosen, ones(every(0, 8))), [0, 100, 200, 300, 400, 500, false, false])
  t.strictSame(queued(chosen, ones([0, 0, 30, 30, 150, 150, 150, 150, 150])), [
    0,
    100,
    170,
    270,
    250,
    350,
    450,
    false,
    false
  ])
  t.strictSame(
    queued(chosen, ones(every(100, 6))),
    Array(6).fill(0),
    'who comes at the pace waits for nobody'
  )
  t.strictSame(queued(chosen, ones(every(90, 6))), [0, 10, 20, 30, 40, 50])
})

t.test('a delay is rounded up to the ms, without ever adding up', async t => {
  t.strictSame(queued(queueing(3, 10, 10), ones(every(0, 5))), [0, 4, 7, 10, false])
  t.strictSame(queued(queueing(7, SECOND, 1000), ones(every(0, 8))), [0, 143, 286, 429, 572, 715, 858, 1000])
  t.strictSame(queued(queueing(1000, 7, 1), ones(every(0, 200))).at(-1), false)
  t.strictSame(queued(queueing(1000, 7, 1), ones(every(0, 143))).at(-1), 1, 'many start in the same ms')
})

t.test('who costs more starts when all of its units would have', async t => {
  const chosen = queueing(10, SECOND, 500)
  t.strictSame(
    queued(chosen, [
      [0, 3],
      [0, 1],
      [0, 2],
      [0, 3]
    ]),
    [200, 300, 500, false]
  )
  t.strictSame(
    queued(chosen, [
      [0, 6],
      [99, 1],
      [100, 1]
    ]),
    [500, false, 500]
  )
  t.match(leakyBucket.step(EMPTY, chosen, T0, 7), { allowed: false, retryAfter: NEVER, remaining: 6 })
})

t.test('r is what can be queued, t the time it drains in', async t => {
  const chosen = queueing(10, SECOND, 500)
  t.match(leakyBucket.step(EMPTY, chosen, T0, 0), { remaining: 6, effectiveWindow: 600, delay: 0, ttl: 0 })
  const four = leakyBucket.step(EMPTY, chosen, T0, 4)
  t.match(four, { remaining: 2, effectiveWindow: 200, delay: 300, ttl: 400 })
  t.match(leakyBucket.step(four.state, chosen, T0 + 50, 0), { remaining: 2, delay: 0 }, 'nobody waits for 0')
  const full = leakyBucket.step(four.state, chosen, T0 + 50, 2)
  t.match(full, { remaining: 0, delay: 450, effectiveWindow: 50 })
  t.match(leakyBucket.step(full.state, chosen, T0 + 50, 2), {
    retryAfter: 150,
    delay: 0,
    effectiveWindow: 150
  })
  t.match(leakyBucket.step(full.state, chosen, T0 + 200, 2), { allowed: true, delay: 500 })
})

t.test(
  'with windows of an hour and more, too, nobody starts early, nor waits for a second to end',
  async t => {
    const hourly = queueing(2, HOUR, HOUR)
    t.strictSame(hourly, [2, HOUR, 3 * HOUR, 1, 1])
    t.strictSame(queued(hourly, [...ones([900, 900, 901, 1000]), [HOUR / 2 + 900, 1], [HOUR / 2 + 900, 1]]), [
      0,
      HOUR / 2,
      HOUR - 1,
      false,
      HOUR,
      false
    ])
    t.strictSame(
      queued(hourly, ones([900, 900, 900, 1.5 * HOUR, 1.5 * HOUR + 900])),
      [0, HOUR / 2, HOUR, 900, HOUR / 2],
      'a queue that has drained within the second has not at its start'
    )
    t.strictSame(queued(queueing(1, HOUR + 500, 1), ones([0, HOUR + 498, HOUR + 499])), [0, false, 1])
  }
)

t.test('a place in a queue is not given back; what turns out to be more is queued', async t => {
  const chosen = queueing(10, SECOND, 500)
  const { state } = leakyBucket.step(EMPTY, chosen, T0, 4)
  const charge = { at: T0, units: 4 }
  for (const actual of [0, 1, 4]) t.strictSame(leakyBucket.settle(state, chosen, T0, charge, actual), state)
  t.strictSame(leakyBucket.settle(state, chosen, T0 + 100, charge, 5), [4000, T0 + 100])
  t.strictSame(leakyBucket.settle(state, chosen, T0 + 100, charge, 99), [12_000, T0 + 100], 'twice the queue')
})

t.test('a queue without a quota holds nothing; a clock that goes back leaves it as it is', async t => {
  const none = queueing(0, SECOND, 500)
  t.match(leakyBucket.step(EMPTY, none, T0, 1), { allowed: false, retryAfter: NEVER, remaining: 0, delay: 0 })
  t.equal(leakyBucket.capacity(none), 0)
  const chosen = queueing(10, SECOND, 500)
  const { state } = leakyBucket.step(EMPTY, chosen, T0, 4)
  t.match(leakyBucket.step(state, chosen, T0 - HOUR, 1), { allowed: true, delay: 400 })
})

t.test('a queue that doubles cannot count is refused', async t => {
  t.throws(
    () => queueing(2_000_000, HOUR, 2_000_000_000),
    new TermsError('three times quota times maxDelay in milliseconds must stay below 2^53, got about 1.2e+16')
  )
})
