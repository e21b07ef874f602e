import fc from 'fast-check'
import t from 'tap'
import { EMPTY, NEVER, TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, State, Step, Terms } from '../../src/algorithm.js'
import { slidingWindow } from '../../src/algorithms/sliding-window.js'
import { howToRepeat, runs } from './kit.js'

t.comment(howToRepeat)
t.setTimeout(30_000 + 100 * runs)

const params = (terms: Terms): Params => slidingWindow.params(terms)
const step = (...inputs: Parameters<Algorithm['step']>): Step => slidingWindow.step(...inputs)
const settle = (...inputs: Parameters<Algorithm['settle']>): State => slidingWindow.settle(...inputs)
const T0 = 1_753_900_000_123

const written = (terms: Partial<Terms>): Terms => ({
  quota: 10,
  window: 60_000,
  precision: 10,
  burst: 10,
  align: false,
  maxDelay: 0,
  holdFor: 30_000,
  ...terms
})

/** The state after spending at these times, each [milliseconds after T0, units]. */
function spent(terms: Terms, spending: readonly (readonly [at: number, units: number])[]): State {
  return spending.reduce((state, [at, units]) => step(state, params(terms), T0 + at, units).state, EMPTY)
}

t.test('an entry is a count, the time of its first unit and of its latest', async t => {
  const terms = written({ window: 1000, precision: 10 })
  t.strictSame(spent(terms, [[0, 2]]), [2, T0, T0])
  t.strictSame(
    spent(terms, [
      [0, 2],
      [99, 3]
    ]),
    [5, T0, T0 + 99],
    'what comes within a sub-window joins it'
  )
  t.strictSame(
    spent(terms, [
      [0, 2],
      [99, 3],
      [100, 1]
    ]),
    [5, T0, T0 + 99, 1, T0 + 100, T0 + 100],
    'a sub-window after its first unit a new one starts'
  )
  t.strictSame(
    spent(terms, [
      [0, 2],
      [99, 3],
      [1098, 1]
    ]),
    [5, T0, T0 + 99, 1, T0 + 1098, T0 + 1098],
    'an entry counts in full until its latest unit is a window old'
  )
  t.strictSame(
    spent(terms, [
      [0, 2],
      [99, 3],
      [1099, 1]
    ]),
    [1, T0 + 1099, T0 + 1099]
  )
})

const moves = fc.array(
  fc.tuple(fc.constantFrom('press', 'edge', 'wait', 'back'), fc.integer({ min: 0, max: 200 }), fc.nat(2)),
  { maxLength: 200, size: 'max' }
)
const precision = fc.integer({ min: 1, max: 12 })

for (const clock of ['steady', 'stepping back'] as const) {
  t.test(`at most precision + 2 entries, with a clock that is ${clock}`, async t => {
    fc.assert(
      fc.property(precision, fc.integer({ min: 1, max: 200 }), moves, (precision, window, moves) => {
        const chosen = params(written({ quota: 1_000_000, window, precision }))
        const sub = Math.ceil(window / precision)
        let now = T0
        let state = EMPTY
        return moves.every(([move, milliseconds, units]) => {
          if (move === 'press') now += 1
          else if (move === 'edge') now += sub
          else if (move === 'wait') now += milliseconds % (2 * sub)
          else if (clock === 'stepping back') now -= milliseconds % (2 * sub)
          state = step(state, chosen, now, units).state
          return state.length / 3 <= precision + 2
        })
      })
    )
    t.pass()
  })
}

t.test('spent at once, all is back one window later', async t => {
  for (const precision of [1, 3, 10, 1000]) {
    const terms = params(written({ precision }))
    const { state, remaining, effectiveWindow } = step(EMPTY, terms, T0, 10)
    t.equal(remaining, 0)
    t.equal(effectiveWindow, 60_000)
    t.equal(step(state, terms, T0 + 59_999, 1).allowed, false)
    t.equal(step(state, terms, T0 + 60_000, 10).allowed, true)
  }
})

/** Units admitted to somebody who presses every millisecond for some windows. */
function pressed(terms: Terms, windows: number): number {
  const chosen = params(terms)
  let state = EMPTY
  let admitted = 0
  for (let now = T0; now < T0 + windows * terms.window; now++) {
    const { allowed, state: next } = step(state, chosen, now, 1)
    state = next
    if (allowed) admitted += 1
  }
  return admitted
}

t.test('pressed without a pause it yields at least precision / (precision + 1) of the exact log', async t => {
  for (const [quota, window] of [
    [10, 200],
    [97, 1000],
    [1000, 1000],
    [700, 997]
  ] as const) {
    for (const precision of [1, 2, 4, 10, 60]) {
      const exact = 50 * quota
      const yielded = pressed(written({ quota, window, precision }), 50)
      t.ok(yielded <= exact, `${quota} per ${window} ms, precision ${precision}: ${yielded} of ${exact}`)
      t.ok(yielded >= (exact * precision) / (precision + 1), `${yielded} of ${exact}`)
    }
  }
})

t.test('t is the time until the oldest entry leaves, or what keeps r / t at quota / window', async t => {
  const terms = written({ quota: 100 })
  const chosen = params(terms)
  const table: readonly (readonly [
    why: string,
    state: State,
    at: number,
    remaining: number,
    effectiveWindow: number
  ])[] = [
    ['nothing spent: the window', EMPTY, 0, 100, 60_000],
    ['half spent a second ago: until that leaves', spent(terms, [[0, 50]]), 1000, 50, 59_000],
    ['half spent, and about to leave: not r=50;t=1', spent(terms, [[0, 50]]), 59_500, 50, 30_000],
    [
      'the oldest of several',
      spent(terms, [
        [0, 30],
        [20_000, 30]
      ]),
      25_000,
      40,
      35_000
    ],
    ['whole seconds: 33 of 100 in 60 s are 19.8 s', spent(terms, [[0, 67]]), 59_999, 33, 20_000]
  ]
  for (const [why, state, at, remaining, effectiveWindow] of table) {
    t.match(step(state, chosen, T0 + at, 0), { allowed: true, remaining, effectiveWindow }, why)
  }
})

t.test('r / t is never above quota / window, in whole seconds', async t => {
  const spending = fc.array(fc.tuple(fc.nat(9000), fc.integer({ min: 1, max: 40 })), {
    maxLength: 20,
    size: 'max'
  })
  const window = fc.constantFrom(1, 500, 1000, 1500, 7000, 60_000)
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), window, spending, (quota, window, spending) => {
      const chosen = params(written({ quota, window }))
      let now = T0
      let state = EMPTY
      return spending.every(([wait, units]) => {
        now += wait
        const { allowed, remaining, effectiveWindow, state: next } = step(state, chosen, now, units)
        state = next
        return !allowed || remaining * Math.ceil(window / 1000) <= quota * Math.ceil(effectiveWindow / 1000)
      })
    })
  )
  t.pass()
})

t.test('a refusal waits for the entries that have to leave, whatever the cost', async t => {
  const terms = written({})
  const state = spent(terms, [
    [0, 4],
    [10_000, 3],
    [20_000, 2]
  ])
  const at = 30_000
  for (const [units, retryAfter] of [
    [2, 30_000],
    [5, 30_000],
    [6, 40_000],
    [8, 40_000],
    [9, 50_000],
    [10, 50_000]
  ] as const) {
    const refusal = step(state, params(terms), T0 + at, units)
    t.match(
      refusal,
      { allowed: false, remaining: 1, retryAfter, effectiveWindow: retryAfter },
      `${units} units`
    )
  }
  t.match(
    step(state, params(terms), T0 + at, 11),
    { allowed: false, remaining: 1, retryAfter: NEVER, effectiveWindow: 30_000 },
    'more than the quota: never; the effective window speaks of what is left'
  )
  const full = step(state, params(terms), T0 + at, 1).state
  t.match(
    step(full, params(terms), T0 + at, 11),
    { remaining: 0, retryAfter: NEVER, effectiveWindow: 30_000 },
    'or of one unit'
  )
})

t.test('what is given back leaves the entry it was charged to', async t => {
  const terms = written({ window: 1000 })
  const chosen = params(terms)
  const state = spent(terms, [
    [0, 2],
    [50, 3],
    [300, 4]
  ])
  const back = (at: number, units: number, actual: number, now: number = 400): State =>
    settle(state, chosen, T0 + now, { at: T0 + at, units }, actual)

  t.strictSame(back(50, 3, 1), [3, T0, T0 + 50, 4, T0 + 300, T0 + 300])
  t.strictSame(back(0, 2, 0), [3, T0, T0 + 50, 4, T0 + 300, T0 + 300])
  t.strictSame(back(300, 4, 0), [5, T0, T0 + 50], 'an entry with nothing left is none')
  t.strictSame(back(300, 9, 0), [5, T0, T0 + 50], 'at most its count')
  t.strictSame(back(200, 1, 0), state, 'no entry covers that time: nothing')
  t.strictSame(back(50, 3, 0, 1050), [4, T0 + 300, T0 + 300], 'the entry has left: nothing')
  t.strictSame(
    back(300, 4, 6),
    [5, T0, T0 + 50, 4, T0 + 300, T0 + 300, 2, T0 + 400, T0 + 400],
    'more is charged now'
  )
  t.strictSame(
    back(50, 3, 6, 1050),
    [4, T0 + 300, T0 + 300, 3, T0 + 1050, T0 + 1050],
    'also when the old window is over'
  )
})

t.test('an overrun counts until its own units leave', async t => {
  const chosen = params(written({ window: 1000 }))
  const { state } = step(EMPTY, chosen, T0, 10)
  const debt = settle(state, chosen, T0 + 500, { at: T0, units: 10 }, 25)
  t.strictSame(debt, [10, T0, T0, 10, T0 + 500, T0 + 500], 'up to one quota of debt')
  t.match(step(debt, chosen, T0 + 500, 1), { allowed: false, remaining: 0, retryAfter: 1000 })
  t.match(step(debt, chosen, T0 + 1000, 1), { allowed: false, retryAfter: 500 })
  t.match(step(debt, chosen, T0 + 1500, 1), { allowed: true, remaining: 9 })
})

t.test('with a sub-window for each ms it is the exact log', async t => {
  const terms = written({ quota: 5, window: 1000, precision: 1000 })
  const state = spent(terms, [
    [0, 1],
    [0, 1],
    [1, 1],
    [500, 2]
  ])
  t.strictSame(state, [2, T0, T0, 1, T0 + 1, T0 + 1, 2, T0 + 500, T0 + 500], 'one entry for each ms')
  for (const [at, remaining] of [
    [999, 0],
    [1000, 2],
    [1001, 3],
    [1499, 3],
    [1500, 5]
  ] as const) {
    t.match(step(state, params(terms), T0 + at, 0), { remaining }, `${at} ms later`)
  }
  t.match(step(state, params(terms), T0 + 600, 3), { allowed: false, retryAfter: 401 })
  t.strictSame(settle(state, params(terms), T0 + 600, { at: T0 + 1, units: 1 }, 0), state.toSpliced(3, 3))
  t.strictSame(settle(state, params(terms), T0 + 600, { at: T0 + 2, units: 1 }, 0), state)
})

t.test('the log yields all of its quota to who presses without a pause', async t => {
  for (const [quota, window] of [
    [10, 200],
    [97, 1000]
  ] as const) {
    t.equal(pressed(written({ quota, window, precision: window }), 50), 50 * quota)
  }
})

t.test('the wait is for the oldest, not for the newest', async t => {
  for (const precision of [10, 60_000]) {
    const terms = written({ quota: 2, precision })
    const state = spent(terms, [
      [0, 1],
      [10_000, 1]
    ])
    t.match(step(state, params(terms), T0 + 20_000, 1), { allowed: false, retryAfter: 40_000 })
    t.match(step(state, params(terms), T0 + 60_100, 1), { allowed: true, remaining: 0 })
  }
})

t.test('10 at 59 s and 10 at 61 s: none of the second ten', async t => {
  for (const precision of [1, 10, 60_000]) {
    const terms = written({ precision })
    const state = spent(terms, [[59_000, 10]])
    t.match(step(state, params(terms), T0 + 61_000, 1), { allowed: false, remaining: 0 })
  }
})

t.test('a log of a year in ms is exact', async t => {
  const terms = written({ quota: 2, window: 31_536_000_000, precision: 31_536_000_000 })
  const state = spent(terms, [
    [0, 1],
    [1, 1]
  ])
  t.strictSame(state, [1, T0, T0, 1, T0 + 1, T0 + 1])
  t.match(step(state, params(terms), T0 + 31_535_999_999, 1), { allowed: false, retryAfter: 1 })
  t.match(step(state, params(terms), T0 + 31_536_000_000, 2), { allowed: false, remaining: 1, retryAfter: 1 })
})

t.test('terms that doubles cannot count are refused', async t => {
  const huge = 999_999_999_999_999
  t.throws(
    () => params(written({ quota: 2 ** 52 })),
    new TermsError('twice the quota must stay below 2^53, got about 9.0e+15')
  )
  t.throws(
    () => params(written({ quota: huge })),
    new TermsError('quota times window in seconds must stay below 2^53, got about 6.0e+16')
  )
  t.throws(
    () => params(written({ window: 36_525 * 86_400_000, precision: 1_000_000 })),
    new TermsError('window in milliseconds times precision must stay below 2^53, got about 3.2e+18')
  )
  t.strictSame(params(written({ quota: huge, window: 9000 })), [huge, 9000, 10])
  const chosen = params(written({ quota: huge, window: 9000 }))
  t.match(step(EMPTY, chosen, T0, huge - 1), { allowed: true, remaining: 1, effectiveWindow: 9000 })
  t.match(step(EMPTY, chosen, T0, 1), { allowed: true, remaining: huge - 1, effectiveWindow: 9000 })
})

t.test('the wait is known with the largest quota in full debt', async t => {
  const quota = 2 ** 52 - 1
  const chosen = params(written({ quota, window: 1000 }))
  const { state } = step(EMPTY, chosen, T0, 1)
  const indebted = settle(state, chosen, T0, { at: T0, units: 1 }, 2 ** 53 - 1)
  t.match(step(indebted, chosen, T0, quota), { allowed: false, retryAfter: 1000, effectiveWindow: 1000 })
})
