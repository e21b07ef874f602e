import t from 'tap'
import { EMPTY, NEVER, TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, State, Step, Terms } from '../../src/algorithm.js'
import { slidingWindowCounter } from '../../src/algorithms/sliding-window-counter.js'

const params = (terms: Partial<Terms>): Params => slidingWindowCounter.params({ ...usual, ...terms })
const step = (...inputs: Parameters<Algorithm['step']>): Step => slidingWindowCounter.step(...inputs)
const settle = (...inputs: Parameters<Algorithm['settle']>): State => slidingWindowCounter.settle(...inputs)
const HOUR = 3_600_000
/** A whole hour since the epoch, and the number of the minute and of the tenth of a second that start there. */
const T0 = 487_194 * HOUR
const MINUTE = T0 / 60_000
const TENTH = T0 / 100

const usual: Terms = {
  quota: 10,
  window: 1000,
  precision: 10,
  burst: 10,
  align: false,
  maxDelay: 0,
  holdFor: 30_000
}

/** The state after spending at these times, each [milliseconds after T0, units]. */
function spent(chosen: Params, spending: readonly (readonly [at: number, units: number])[]): State {
  return spending.reduce((state, [at, units]) => step(state, chosen, T0 + at, units).state, EMPTY)
}

t.test('a state is the number of its newest sub-window, and counts from it back', async t => {
  const chosen = params({ quota: 100 })
  t.strictSame(spent(chosen, [[0, 2]]), [TENTH, 2])
  const three = [
    [0, 2],
    [99, 3],
    [300, 4]
  ] as const
  t.strictSame(spent(chosen, three), [TENTH + 3, 4, 0, 0, 5])
  t.strictSame(
    step(spent(chosen, three), chosen, T0 + 900, 0).state,
    [TENTH + 3, 4, 0, 0, 5],
    'a peek adds none'
  )
  t.strictSame(spent(chosen, [...three, [1099, 1]]), [TENTH + 10, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 5])
  t.strictSame(
    spent(chosen, [...three, [1100, 1]]),
    [TENTH + 11, 1, 0, 0, 0, 0, 0, 0, 0, 4],
    'the oldest has left'
  )
  t.strictSame(spent(chosen, [...three, [1400, 1]]), [TENTH + 14, 1])
})

t.test('it holds at most precision + 1 counts', async t => {
  for (const precision of [1, 2, 7, 60]) {
    const chosen = params({ quota: 1_000_000, precision })
    const all = Array.from({ length: 5000 }, (_, at) => [at, 1] as const)
    t.equal(spent(chosen, all).length, 1 + precision + 1, `precision ${precision}`)
  }
})

t.test('the oldest counts by what the window covers of it, rounded down', async t => {
  const chosen = params({ precision: 1 })
  const state = spent(chosen, [[0, 10]])
  for (const [at, remaining, allowed, retryAfter] of [
    [999, 0, false, 2],
    [1000, 0, false, 1],
    [1001, 1, true, 0],
    [1100, 1, true, 0],
    [1101, 2, true, 0],
    [1500, 5, true, 0],
    [1900, 9, true, 0],
    [1901, 10, true, 0],
    [2000, 10, true, 0]
  ] as const) {
    t.match(step(state, chosen, T0 + at, 0), { remaining, allowed: true }, `${at} ms later`)
    t.match(step(state, chosen, T0 + at, 1), { allowed, retryAfter }, `${at} ms later`)
  }
})

t.test('a refusal is told the first ms at which its units fit, whatever has to leave', async t => {
  const chosen = params({ precision: 2 })
  const state = spent(chosen, [
    [400, 6],
    [600, 4]
  ])
  for (const [units, retryAfter] of [
    [1, 401],
    [3, 567],
    [6, 817],
    [7, 901],
    [8, 1026],
    [10, 1276]
  ] as const) {
    t.match(step(state, chosen, T0 + 600, units), { allowed: false, retryAfter, effectiveWindow: retryAfter })
    t.equal(step(state, chosen, T0 + 600 + retryAfter - 1, units).allowed, false, `${units}, a ms early`)
    t.equal(step(state, chosen, T0 + 600 + retryAfter, units).allowed, true, `${units}, in time`)
  }
  t.match(step(state, chosen, T0 + 600, 11), { retryAfter: NEVER, remaining: 0, effectiveWindow: 401 })
})

t.test('a refusal takes as long as there are sub-windows, and not their square', async t => {
  const precision = 200_000
  const chosen = params({ quota: precision, window: precision, precision })
  const now = 1_000_000 // early, so that `precision` parts to a ms stay below 2^53
  const full: State = [now, ...Array.from({ length: precision }, () => 1)]
  t.match(step(full, chosen, now, 1), { allowed: false, retryAfter: 2 })
  const started = performance.now()
  t.match(step(full, chosen, now, precision), { allowed: false, retryAfter: precision + 1, remaining: 0 })
  t.match(step(full, chosen, now, precision / 2), { allowed: false, retryAfter: precision / 2 + 1 })
  const took = performance.now() - started
  t.ok(took < 2000, `${took} ms for ${precision}`)
})

t.test('t is the time that what is left is worth at the rate of the quota', async t => {
  const chosen = params({ quota: 100, window: 60_000, precision: 1 })
  const state: State = [MINUTE + 1, 30, 80]
  t.match(step(state, chosen, T0 + 75_000, 0), { remaining: 10, effectiveWindow: 6000 })
  t.match(step(state, chosen, T0 + 75_000, 11), { remaining: 10, retryAfter: 1, effectiveWindow: 1 })
  t.match(step(state, chosen, T0 + 75_000, 101), { remaining: 10, retryAfter: NEVER, effectiveWindow: 6000 })
  t.match(step(EMPTY, chosen, T0 + 75_000, 0), { remaining: 100, effectiveWindow: 60_000, ttl: 0 })
  t.match(step(EMPTY, chosen, T0 + 75_000, 100), { remaining: 0, effectiveWindow: 45_001, ttl: 105_000 })
})

t.test('10 at 59 s and 10 at 61 s: at most one of the second ten', async t => {
  const burst = [[59_000, 10]] as const
  const chosen = params({ window: 60_000 })
  const state = spent(chosen, burst)
  t.match(step(state, chosen, T0 + 61_000, 1), { allowed: false, remaining: 0 })
  const coarse = params({ window: 60_000, precision: 1 })
  const first = step(spent(coarse, burst), coarse, T0 + 61_000, 1)
  t.match(first, { allowed: true, remaining: 0 })
  t.match(step(first.state, coarse, T0 + 61_000, 1), { allowed: false })
})

t.test('sub-windows that are no whole ms are as long as they are', async t => {
  const chosen = params({ precision: 3, quota: 9 })
  t.strictSame(spent(chosen, [[333, 1]]), [(T0 / 1000) * 3, 1])
  t.strictSame(spent(chosen, [[334, 1]]), [(T0 / 1000) * 3 + 1, 1])
  t.strictSame(spent(chosen, [[666, 1]]), [(T0 / 1000) * 3 + 1, 1])
  t.strictSame(spent(chosen, [[667, 1]]), [(T0 / 1000) * 3 + 2, 1])
  const state = spent(chosen, [[0, 9]])
  t.match(step(state, chosen, T0, 1), { retryAfter: 1001, ttl: 1334 })
  t.match(step(state, chosen, T0 + 1000, 1), { allowed: false, retryAfter: 1 })
  t.match(step(state, chosen, T0 + 1333, 0), { remaining: 9, ttl: 1 })
  t.match(step(state, chosen, T0 + 1334, 0), { state: [], ttl: 0 })
})

t.test('windows of an hour and more tick in seconds, and are whole seconds', async t => {
  const hourly = params({ window: HOUR, precision: 1 })
  t.strictSame(params({ window: HOUR - 1 }), [10, HOUR - 1, 10, 1])
  t.strictSame(hourly, [10, 3600, 1, 1000])
  t.throws(
    () => params({ window: HOUR + 500 }),
    new TermsError('a weighted window of an hour or more must be whole seconds, got 3600500 ms')
  )
  const state = spent(hourly, [[0, 10]])
  t.match(step(state, hourly, T0 + 900, 1), { allowed: false, retryAfter: HOUR + 100 })
  t.match(step(state, hourly, T0 + HOUR + 999, 1), { allowed: false, retryAfter: 1 })
  t.match(step(state, hourly, T0 + HOUR + 1000, 1), { allowed: true, remaining: 0, effectiveWindow: 360_000 })
})

t.test('what is given back leaves the sub-window that it was charged to', async t => {
  const chosen = params({ quota: 20 })
  const state = spent(chosen, [
    [0, 5],
    [300, 4]
  ])
  const back = (at: number, units: number, actual: number, now: number = 400): State =>
    settle(state, chosen, T0 + now, { at: T0 + at, units }, actual)
  t.strictSame(back(50, 5, 2), [TENTH + 3, 4, 0, 0, 2])
  t.strictSame(back(0, 9, 0), [TENTH + 3, 4], 'at most its count')
  t.strictSame(back(399, 4, 0), [TENTH, 5])
  t.strictSame(back(100, 1, 0), state, 'nothing was charged to this one')
  t.strictSame(back(-100, 1, 0), state, 'it has left')
  t.strictSame(back(400, 1, 0), state, 'none yet')
  t.strictSame(back(500, 1, 0), state, 'nor of a later one')
  t.strictSame(back(0, 5, 2, 1050), [TENTH + 3, 4, 0, 0, 2])
  t.strictSame(back(0, 5, 2, 1100), [TENTH + 3, 4], 'the window covers nothing of it any more')
  t.strictSame(settle(EMPTY, chosen, T0, { at: T0, units: 5 }, 0), [])
})

t.test('an overrun is charged now, up to one quota of debt', async t => {
  const chosen = params({})
  const { state } = step(EMPTY, chosen, T0, 8)
  const more = (actual: number, now: number): State =>
    settle(state, chosen, T0 + now, { at: T0, units: 8 }, actual)
  t.strictSame(more(11, 50), [TENTH, 11])
  t.strictSame(more(11, 150), [TENTH + 1, 3, 8])
  t.strictSame(more(99, 150), [TENTH + 1, 12, 8])
  t.strictSame(more(99, 1050), [TENTH + 10, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8], 'half of the 8 have left')
  t.match(step(more(99, 150), chosen, T0 + 150, 1), { allowed: false, remaining: 0, retryAfter: 967 })
})

t.test('a clock that goes back counts as one what is later', async t => {
  const chosen = params({})
  const state = spent(chosen, [
    [0, 1],
    [250, 2],
    [999, 3]
  ])
  const back = (at: number): State => step(state, chosen, T0 + at, 0).state
  t.strictSame(back(900), state)
  t.strictSame(back(899), [TENTH + 8, 3, 0, 0, 0, 0, 0, 2, 0, 1])
  t.strictSame(back(250), [TENTH + 2, 5, 0, 1])
  t.strictSame(back(199), [TENTH + 1, 5, 1])
  t.strictSame(back(99), [TENTH, 6])
  t.strictSame(back(-HOUR), [TENTH - HOUR / 100, 6])
  t.match(step(state, chosen, T0 - HOUR, 10), { allowed: false, retryAfter: 1084, ttl: 1100 })

  const full = spent(params({ precision: 1 }), [[0, 10]])
  t.match(
    step(full, params({ precision: 1 }), T0 - 1, 0),
    { remaining: 0 },
    'though it ends in the last ms of a sub-window: nothing is given back'
  )
})

t.test('without a quota there is nothing; what was spent is not forgotten', async t => {
  const none = params({ quota: 0 })
  const nothing = { allowed: false, remaining: 0, effectiveWindow: 0, retryAfter: NEVER }
  t.match(step(EMPTY, none, T0, 0), { ...nothing, state: [], ttl: 0 })
  const state = spent(params({}), [[0, 5]])
  t.match(step(state, none, T0 + 50, 1), { ...nothing, state, ttl: 1050 })
})

t.test('terms that doubles cannot count, and sub-windows without a ms, are refused', async t => {
  t.throws(
    () => params({ quota: 51_000_000_000, window: 60_000 }),
    new TermsError('three times quota times window in milliseconds must stay below 2^53, got about 9.2e+15')
  )
  t.throws(
    () => params({ quota: 35_000_000_000, window: 24 * HOUR }),
    new TermsError('three times quota times window in seconds must stay below 2^53, got about 9.1e+15')
  )
  t.throws(
    () => params({ window: 9 }),
    new TermsError('10 sub-windows need a window of as many ms, got 9 ms')
  )
  t.strictSame(params({ window: 10 }), [10, 10, 10, 1])
  const large = params({ quota: 50_000_000_000, window: 60_000 })
  const { state } = step(EMPTY, large, T0, 49_999_999_999)
  t.match(step(state, large, T0 + 62_999, 0), { remaining: 24_991_666_668 })
  t.match(step(state, large, T0 + 62_999, 24_991_666_669), { allowed: false, retryAfter: 1 })
})
