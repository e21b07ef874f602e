import fc from 'fast-check'
import t from 'tap'
import { EMPTY } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Terms } from '../../src/algorithm.js'
import { tokenBucket } from '../../src/algorithms/bucket.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'
import { algorithms } from '../../src/algorithms/index.js'
import { slidingWindow } from '../../src/algorithms/sliding-window.js'
import { bound, boundUnderAttack, howToRepeat, laws, mostInAnyWindow, runs, settleDown } from './kit.js'
import type { Admission, Law, Subject } from './kit.js'

t.comment(howToRepeat)
t.setTimeout(30_000 + 100 * runs)

const HOUR = 3_600_000
const quota = (terms: Terms): number => terms.quota
const window = (terms: Terms): number => terms.window

const subjects: readonly Subject[] = [
  { algorithm: slidingWindow, bound: quota, capacity: quota, memory: window },
  { algorithm: fixedWindow, bound: terms => 2 * terms.quota, capacity: quota, memory: window },
  {
    algorithm: tokenBucket,
    // The bound is burst + quota; a tick of 1 ms is too short for the last of them.
    bound: ({ window, burst, quota }) => burst + quota - (window < HOUR ? 1 : 0),
    capacity: terms => terms.burst,
    memory: ({ window, burst, quota }) => {
      const tick = window < HOUR ? 1 : 1000
      return Math.ceil((burst * window) / tick / quota) * tick
    }
  }
]

for (const subject of subjects) {
  t.test(subject.algorithm.name, t => {
    for (const [name, law] of Object.entries(laws)) {
      t.test(name, async t => {
        fc.assert(law(subject))
        t.pass(`${runs} runs`)
      })
    }
    t.end()
  })
}

t.test('every algorithm is listed here', async t => {
  t.strictSame(subjects.map(({ algorithm }) => algorithm.name).toSorted(), [...algorithms.keys()].toSorted())
})

t.test('the measure agrees with its definition', async t => {
  const admission = fc.record({ at: fc.nat(30), units: fc.nat(5) })
  fc.assert(
    fc.property(
      fc.array(admission, { maxLength: 20 }),
      fc.integer({ min: 1, max: 20 }),
      (admissions, window) => {
        const within = (p: number): Admission[] => admissions.filter(({ at }) => at > p - window && at <= p)
        const counts = admissions.map(({ at }) => within(at).reduce((sum, { units }) => sum + units, 0))
        return mostInAnyWindow(admissions, window) === Math.max(0, ...counts)
      }
    )
  )
  const twice = [
    { at: 0, units: 3 },
    { at: 60, units: 4 }
  ]
  t.equal(mostInAnyWindow(twice, 60), 4, 'an admission exactly one window earlier no longer counts')
  t.equal(mostInAnyWindow(twice, 61), 7)
})

// --- Controls: what is wrong is found ---------------------------------------------------------------------------------

const [sliding, fixed, bucket] = subjects as [Subject, Subject, Subject]

/** A bucket that settles down by `less` parts. */
function refunding(
  less: (params: Params, now: number, charge: Receipt, actual: number) => number
): Algorithm {
  return {
    ...tokenBucket,
    settle(state, params, now, charge, actual) {
      const [debt = 0, last = 0] = tokenBucket.step(state, params, now, 0).state
      const left = Math.max(0, debt - less(params, now, charge, actual))
      return left === 0 ? EMPTY : [left, last]
    }
  }
}

const ticks = ([, , , tick = 1]: Params, from: number, to: number): number =>
  Math.floor(to / tick) - Math.floor(from / tick)

/** Gives back what is left of the reservation when all that was charged drains in the order it came. */
function firstComeFirstServed(): Algorithm {
  const levels = new Map<string, number>()
  const settling = refunding((params, now, { at, units }, actual) => {
    const [quota = 0, period = 0] = params
    const left = (levels.get(`${at}/${units}`) ?? 0) - ticks(params, at, now) * quota
    return Math.min((units - actual) * period, Math.max(0, left))
  })
  return {
    ...settling,
    step(state, params, now, units) {
      const step = tokenBucket.step(state, params, now, units)
      if (step.allowed && units > 0) levels.set(`${now}/${units}`, step.state[0] ?? 0)
      return step
    }
  }
}

/** Gives back what is left of the reservation, by what has drained since in parts. */
const drainedSince = (drained: (parts: number, period: number) => number): Algorithm =>
  refunding((params, now, { at, units }, actual) => {
    const [quota = 0, period = 0] = params
    const left = units * period - drained(ticks(params, at, now) * quota, period)
    return Math.min((units - actual) * period, Math.max(0, left))
  })

const wrong: readonly (readonly [name: string, law: Law, subject: Subject])[] = [
  ['a fixed window that would keep the quota in any window', bound, { ...fixed, bound: quota }],
  ['the same, drained at every step', boundUnderAttack, { ...fixed, bound: quota }],
  ['a bucket that would keep its quota in any window', bound, { ...bucket, bound: quota }],
  ['a bucket whose burst is all', bound, { ...bucket, bound: ({ quota, burst }) => Math.max(quota, burst) }],
  ['one unit less than a sliding window promises', bound, { ...sliding, bound: ({ quota }) => quota - 1 }],
  [
    'a bucket whose interval between units is rounded down',
    boundUnderAttack,
    { ...bucket, algorithm: { ...bucket.algorithm, params: floored } }
  ],
  [
    'a bucket that gives back all that was not used',
    settleDown,
    { ...bucket, algorithm: refunding(([, period = 0], _, { units }, actual) => (units - actual) * period) }
  ],
  [
    'a bucket that gives back first come, first served',
    settleDown,
    { ...bucket, algorithm: firstComeFirstServed() }
  ],
  [
    'a bucket that counts what has drained since in whole units',
    settleDown,
    { ...bucket, algorithm: drainedSince((parts, period) => Math.floor(parts / period) * period) }
  ],
  [
    'a fixed window that gives back what a window before was charged',
    settleDown,
    { ...fixed, algorithm: { ...fixedWindow, settle: blindly } }
  ],
  [
    'a sliding window that counts from the first unit of an entry',
    bound,
    { ...sliding, algorithm: { ...slidingWindow, step: forgetful } }
  ]
]

for (const [name, law, subject] of wrong) {
  t.test(`found: ${name}`, async t => {
    const { failed, errorInstance } = fc.check(law(subject), { numRuns: 50_000, endOnFailure: true })
    t.ok(failed)
    t.match(errorInstance, { message: /^admitted \d+ in a window, at most \d+ are promised$/ })
  })
}

function floored(terms: Terms): Params {
  const [, , burst = 0, tick = 1] = bucket.algorithm.params(terms)
  return [1, Math.max(1, Math.floor(terms.window / tick / terms.quota)), burst, tick]
}

function blindly(state: State, _: Params, __: number, charge: Receipt, actual: number): State {
  const [count = 0, start = 0] = state
  const left = count - charge.units + actual
  return left <= 0 ? EMPTY : [left, start]
}

function forgetful(
  ...[state, params, now, units]: Parameters<Algorithm['step']>
): ReturnType<Algorithm['step']> {
  return slidingWindow.step(
    state.map((number, i) => (i % 3 === 2 ? state[i - 1]! : number)),
    params,
    now,
    units
  )
}
