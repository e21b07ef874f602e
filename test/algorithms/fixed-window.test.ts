import t from 'tap'
import { EMPTY, NEVER, TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, State, Step, Terms } from '../../src/algorithm.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'

const params = (terms: Terms): Params => fixedWindow.params(terms)
const step = (...inputs: Parameters<Algorithm['step']>): Step => fixedWindow.step(...inputs)
const settle = (...inputs: Parameters<Algorithm['settle']>): State => fixedWindow.settle(...inputs)
const MINUTE = 60_000
/** A whole minute since the epoch. */
const T0 = 29_231_667 * MINUTE

const written = (terms: Partial<Terms>): Terms => ({
  quota: 10,
  window: MINUTE,
  precision: 10,
  burst: 10,
  align: false,
  maxDelay: 0,
  holdFor: 30_000,
  ...terms
})
const own = params(written({}))
const clock = params(written({ align: true }))

t.test('a window opens with the first request after the last one closed', async t => {
  const first = step(EMPTY, own, T0 + 17_000, 3)
  t.match(first, { state: [3, T0 + 17_000], remaining: 7, effectiveWindow: MINUTE, ttl: MINUTE })
  const second = step(first.state, own, T0 + 76_999, 3)
  t.match(second, { state: [6, T0 + 17_000], remaining: 4, effectiveWindow: 1, ttl: 1 })
  const third = step(second.state, own, T0 + 77_000, 3)
  t.match(third, { state: [3, T0 + 77_000], remaining: 7, effectiveWindow: MINUTE })
  const idle = step(third.state, own, T0 + 500_000, 1)
  t.match(idle, { state: [1, T0 + 500_000], remaining: 9, effectiveWindow: MINUTE })
})

t.test('aligned, it opens on the clock: at multiples of the window since the epoch', async t => {
  const first = step(EMPTY, clock, T0 + 17_000, 3)
  t.match(first, { state: [3, T0], remaining: 7, effectiveWindow: 43_000, ttl: 43_000 })
  const last = step(first.state, clock, T0 + 59_999, 8)
  t.match(last, { allowed: false, remaining: 7, retryAfter: 1, effectiveWindow: 1 })
  t.match(step(last.state, clock, T0 + MINUTE, 8), { allowed: true, state: [8, T0 + MINUTE], remaining: 2 })
  t.match(step(EMPTY, clock, T0 + 59_999, 0), { state: [], remaining: 10, effectiveWindow: 1, ttl: 0 })
  const days = params(written({ align: true, window: 86_400_000 }))
  t.match(step(EMPTY, days, Date.parse('2026-03-01T18:00:00Z'), 1), {
    state: [1, Date.parse('2026-03-01T00:00:00Z')],
    effectiveWindow: 6 * 3_600_000
  })
})

t.test('both sides of an edge are counted apart: twice the quota within two milliseconds', async t => {
  for (const terms of [own, clock]) {
    const { state } = step(EMPTY, terms, T0, 1)
    const before = step(state, terms, T0 + MINUTE - 1, 9)
    const after = step(before.state, terms, T0 + MINUTE, 10)
    t.same([before.allowed, after.allowed], [true, true])
  }
})

t.test('a refusal waits for the window to end, more than the quota for ever', async t => {
  const { state } = step(EMPTY, own, T0, 8)
  t.match(step(state, own, T0 + 10_000, 3), {
    allowed: false,
    remaining: 2,
    retryAfter: 50_000,
    effectiveWindow: 50_000
  })
  t.match(step(state, own, T0 + 10_000, 11), {
    allowed: false,
    remaining: 2,
    retryAfter: NEVER,
    effectiveWindow: 50_000
  })
})

t.test('a clock that goes back before the start of a window starts it there', async t => {
  for (const terms of [own, clock]) {
    const { state } = step(EMPTY, terms, T0, 10)
    const back = step(state, terms, T0 - 3_600_000, 1)
    t.match(back, { allowed: false, state: [10, T0 - 3_600_000], remaining: 0, retryAfter: MINUTE })
    t.match(step(back.state, terms, T0 - 3_600_000 + MINUTE, 10), { allowed: true })
  }
})

t.test('a charge is corrected in the window that contains it, if that is still stored', async t => {
  const { state } = step(EMPTY, own, T0, 8)
  const settled = (at: number, actual: number, now: number): State =>
    settle(state, own, T0 + now, { at: T0 + at, units: 5 }, actual)
  t.strictSame(settled(0, 2, 1000), [5, T0])
  t.strictSame(settled(MINUTE - 1, 2, MINUTE - 1), [5, T0])
  t.strictSame(settled(-1, 2, 1000), [8, T0], 'of an earlier window: nothing')
  t.strictSame(settled(MINUTE, 2, 1000), [8, T0], 'of a later one: nothing')
  t.strictSame(settled(0, 2, MINUTE), [], 'the window has ended')
  t.strictSame(settle(state, own, T0, { at: T0, units: 8 }, 0), [])
  t.strictSame(settle(state, own, T0, { at: T0, units: 9 }, 0), [], 'never below nothing')
  t.strictSame(settle(EMPTY, own, T0, { at: T0, units: 9 }, 0), [])
})

t.test('an overrun is charged to the window of now, up to one quota of debt', async t => {
  const { state } = step(EMPTY, own, T0, 8)
  const settled = (actual: number, now: number, terms: typeof own = own): State =>
    settle(state, terms, T0 + now, { at: T0, units: 8 }, actual)
  t.strictSame(settled(13, 1000), [13, T0])
  t.strictSame(settled(99, 1000), [20, T0])
  t.strictSame(settled(13, MINUTE + 5000), [5, T0 + MINUTE + 5000], 'a new one, when the old one is over')
  t.strictSame(settled(13, MINUTE + 5000, clock), [5, T0 + MINUTE])
  const answer: Step = step(settled(13, 1000), own, T0 + 2000, 1)
  t.match(answer, { allowed: false, remaining: 0, retryAfter: 58_000 })
})

t.test('terms that doubles cannot count are refused', async t => {
  t.throws(
    () => params(written({ quota: 2 ** 52 })),
    new TermsError('twice the quota must stay below 2^53, got about 9.0e+15')
  )
  t.strictSame(params(written({ quota: 999_999_999_999_999 })), [999_999_999_999_999, MINUTE, 0])
  t.strictSame(clock, [10, MINUTE, 1])
})
