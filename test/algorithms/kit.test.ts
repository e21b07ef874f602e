import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { EMPTY } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Terms } from '../../src/algorithm.js'
import { leakyBucket, tokenBucket } from '../../src/algorithms/bucket.js'
import { concurrency } from '../../src/algorithms/concurrency.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'
import { algorithms } from '../../src/algorithms/index.js'
import { slidingWindowCounter } from '../../src/algorithms/sliding-window-counter.js'
import { slidingWindow } from '../../src/algorithms/sliding-window.js'
import { howToRepeat, mostInAnyWindow, runs, scenario } from './kit.js'
import type { Admission, Law, Subject } from './kit.js'
import {
  agreesWithOracle,
  bound,
  boundUnderAttack,
  boundUnitByUnit,
  endedLeaseIsNotRenewed,
  idlenessIsHarmless,
  lawsOf,
  leasesAreTheirHolders,
  placesAreNotGivenBack,
  renewedLeaseLives,
  settleDown
} from './laws.js'
import { gcra, naiveCounter, naiveLog, naiveQueue } from './oracles.js'

t.comment(howToRepeat)
t.setTimeout(30_000 + 200 * runs)

const HOUR = 3_600_000
const tick = ({ window }: Terms): number => (window < HOUR ? 1 : 1000)

// Their terms, bounds, capacities and memories. A subject is a line below.
const quota = (terms: Terms): number => terms.quota
const twice = (terms: Terms): number => 2 * terms.quota
const burst = (terms: Terms): number => terms.burst
const window = (terms: Terms): number => terms.window
/** The bound is burst + quota; a tick of 1 ms is too short for the last of them. */
const burstAndQuota = (terms: Terms): number => terms.burst + terms.quota - (tick(terms) === 1 ? 1 : 0)
const refill = (terms: Terms): number =>
  Math.ceil((terms.burst * terms.window) / tick(terms) / terms.quota) * tick(terms)
const aSubWindowMore = (terms: Terms): number =>
  Math.ceil((terms.window / tick(terms)) * (1 + 1 / terms.precision)) * tick(terms)
const starts = (terms: Terms, largest: number): number => terms.quota + largest - 1
const places = ({ maxDelay, quota, window }: Terms): number => Math.floor((maxDelay * quota) / window) + 1
const emptied = ({ maxDelay, quota, window }: Terms): number => maxDelay + Math.ceil(window / quota)

const asWindow = (terms: Terms): Terms => ({ ...terms, maxDelay: 0 })
const asLog = (terms: Terms): Terms => ({ ...asWindow(terms), precision: terms.window })
const asCounter = (terms: Terms): Terms => ({
  ...asWindow(terms),
  precision: Math.min(terms.precision, terms.window)
})
const asQueue = (terms: Terms): Terms => terms
/** The leases alive at a moment are those that were taken in the last `holdFor`. */
const asLeases = (terms: Terms): Terms => ({ ...terms, window: terms.holdFor })

// prettier-ignore
const subjects = {
  'sliding-window': { algorithm: slidingWindow, kind: 'rate', terms: asWindow, bound: quota, capacity: quota, memory: window },
  'sliding-window-log': { algorithm: slidingWindow, kind: 'rate', terms: asLog, bound: quota, capacity: quota, memory: window, oracle: naiveLog },
  'sliding-window-counter': { algorithm: slidingWindowCounter, kind: 'rate', terms: asCounter, bound: twice, capacity: quota, memory: aSubWindowMore, oracle: naiveCounter },
  'fixed-window': { algorithm: fixedWindow, kind: 'rate', terms: asWindow, bound: twice, capacity: quota, memory: window },
  'token-bucket': { algorithm: tokenBucket, kind: 'rate', terms: asWindow, bound: burstAndQuota, capacity: burst, memory: refill, oracle: gcra },
  'leaky-bucket': { algorithm: leakyBucket, kind: 'rate', terms: asWindow, bound: burstAndQuota, capacity: burst, memory: refill, oracle: gcra },
  'leaky-bucket with maxDelay': { algorithm: leakyBucket, kind: 'queue', terms: asQueue, bound: starts, capacity: places, memory: emptied, oracle: naiveQueue },
  concurrency: { algorithm: concurrency, kind: 'leases', terms: asLeases, bound: quota, capacity: quota, memory: window, oracle: naiveLeases }
} as const satisfies Record<string, Subject>

/** Leases that nobody releases are a log; but nobody says when one will end. */
function naiveLeases(terms: Terms): ReturnType<typeof naiveLog> {
  const log = naiveLog(terms)
  return (now, units) => {
    const { allowed, remaining } = log(now, units)
    return { allowed: allowed!, remaining: remaining! }
  }
}

for (const [name, subject] of Object.entries<Subject>(subjects)) {
  t.test(name, t => {
    for (const [name, law] of Object.entries(lawsOf(subject))) {
      t.test(name, async t => {
        fc.assert(law(subject))
        t.pass(`${runs} runs`)
      })
    }
    t.end()
  })
}

t.test('every algorithm is listed here', async t => {
  const listed = new Set(Object.values<Subject>(subjects).map(({ algorithm }) => algorithm.name))
  t.strictSame([...listed].toSorted(), [...algorithms.keys()].toSorted())
})

t.test('token bucket, leaky bucket and GCRA are one algorithm, said in three ways', async t => {
  const asked = fc.array(fc.record({ after: fc.nat(60_000), share: fc.nat(1000) }), {
    maxLength: 30,
    size: 'max'
  })
  fc.assert(
    fc.property(scenario(0), asked, fc.boolean(), ({ terms, start }, asked, dense) => {
      const chosen = asWindow(terms)
      const names = [tokenBucket, leakyBucket] as const
      const params = names.map(algorithm => algorithm.params(chosen))
      const states = names.map(() => EMPTY)
      const virtual = gcra(chosen)
      let now = start
      for (const { after, share } of asked) {
        now += dense ? after % 9 : after
        const units = Math.floor((share * (chosen.burst + 1)) / 1000)
        const expected = virtual(now, units)
        const answers = names.map((algorithm, i) => {
          const { state, allowed, remaining, retryAfter } = algorithm.step(states[i]!, params[i]!, now, units)
          states[i] = state
          return allowed || retryAfter < 0 ? { allowed, remaining } : { allowed, remaining, retryAfter }
        })
        assert.deepEqual(answers, [expected, expected])
      }
    })
  )
  t.pass('the same verdicts, remaining units and waits, whenever units arrive')
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

const {
  'sliding-window': sliding,
  'sliding-window-log': log,
  'sliding-window-counter': counter,
  'fixed-window': fixed,
  'token-bucket': bucket,
  'leaky-bucket with maxDelay': queue,
  concurrency: leases
} = subjects

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

/** The same subject with another algorithm. */
const by = (subject: Subject, change: Partial<Algorithm>): Subject => ({
  ...subject,
  algorithm: { ...subject.algorithm, ...change }
})

const promised = /^admitted \d+ in a window, at most \d+ are promised$/
const held = /^what is not held|^renewed, all of it|^\d+ of -?\d+/

const wrong: readonly (readonly [name: string, law: Law, subject: Subject, message: RegExp])[] = [
  ['a fixed window that would keep the quota in any window', bound, { ...fixed, bound: quota }, promised],
  ['the same, drained at every step', boundUnderAttack, { ...fixed, bound: quota }, promised],
  ['a weighted counter that would keep it', bound, { ...counter, bound: quota }, promised],
  [
    'a weighted counter that looks back one sub-window only',
    boundUnderAttack,
    by(counter, { params: shortSighted }),
    promised
  ],
  ['a bucket that would keep its quota in any window', bound, { ...bucket, bound: quota }, promised],
  [
    'a bucket whose burst is all',
    bound,
    { ...bucket, bound: ({ quota, burst }) => Math.max(quota, burst) },
    promised
  ],
  ['one unit less than a sliding window promises', bound, { ...sliding, bound: less }, promised],
  ['one unit less than a queue promises', boundUnitByUnit, { ...queue, bound: less }, promised],
  [
    'a bucket whose interval between units is rounded down',
    boundUnderAttack,
    by(bucket, { params: floored }),
    promised
  ],
  [
    'a bucket that gives back all that was not used',
    settleDown,
    {
      ...bucket,
      algorithm: refunding(([, period = 0], _, { units }, actual) => (units - actual) * period)
    },
    promised
  ],
  [
    'a bucket that gives back first come, first served',
    settleDown,
    { ...bucket, algorithm: firstComeFirstServed() },
    promised
  ],
  [
    'a bucket that counts what has drained since in whole units',
    settleDown,
    { ...bucket, algorithm: drainedSince((parts, period) => Math.floor(parts / period) * period) },
    promised
  ],
  [
    'a fixed window that gives back what a window before was charged',
    settleDown,
    by(fixed, { settle: blindly }),
    promised
  ],
  [
    'a sliding window that counts from the first unit of an entry',
    bound,
    by(sliding, { step: forgetful }),
    promised
  ],
  ['a log whose entries leave one ms early', bound, by(log, { step: hasty }), promised],
  ['the same, against the naive log', agreesWithOracle, by(log, { step: hasty }), /deep-equal/],
  ['a queue that starts at once', boundUnitByUnit, by(queue, { step: unpaced }), promised],
  ['a queue that starts a ms early', boundUnitByUnit, by(queue, { step: impatient }), promised],
  ['a queue that gives places back', placesAreNotGivenBack, by(queue, { settle: leaving }), /deep-equal/],
  ['a lease that never ends', idlenessIsHarmless, by(leases, { step: immortal }), /strictly equal/],
  ['a lease that ends one ms early', bound, by(leases, { step: mortal }), promised],
  ["a release of somebody else's lease", leasesAreTheirHolders, by(leases, { settle: stealing }), held],
  [
    'a renewal that keeps the old lease, too',
    renewedLeaseLives,
    by(leases, { renew: doubling }),
    /^nothing more is held|^released by/
  ],
  ['a renewal of a lease that has ended', endedLeaseIsNotRenewed, by(leases, { renew: reviving }), /equal/]
]

for (const [name, law, subject, message] of wrong) {
  t.test(`found: ${name}`, async t => {
    const { failed, errorInstance } = fc.check(law(subject), { numRuns: 50_000, endOnFailure: true })
    t.ok(failed)
    t.match(errorInstance, { message })
  })
}

function less(terms: Terms): number {
  return terms.quota - 1
}

/** A window of one sub-window, and the part of the one before. */
function shortSighted(terms: Terms): Params {
  const window = Math.max(1, Math.floor(terms.window / terms.precision / tick(terms))) * tick(terms)
  return slidingWindowCounter.params({ ...terms, window, precision: 1 })
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

type StepInputs = Parameters<Algorithm['step']>
type StepOf = ReturnType<Algorithm['step']>

function forgetful(...[state, params, now, units]: StepInputs): StepOf {
  const entries = state.map((number, i) => (i % 3 === 2 ? state[i - 1]! : number))
  return slidingWindow.step(entries, params, now, units)
}

function hasty(...[state, params, now, units]: StepInputs): StepOf {
  const [, window = 0] = params
  const entries = state.filter((_, i) => state[i - (i % 3) + 2]! + window - 1 > now)
  return slidingWindow.step(entries, params, now, units)
}

function unpaced(...inputs: StepInputs): StepOf {
  return { ...leakyBucket.step(...inputs), delay: 0 }
}

function impatient(...inputs: StepInputs): StepOf {
  const step = leakyBucket.step(...inputs)
  return { ...step, delay: Math.max(0, step.delay - 1) }
}

function leaving(state: State, params: Params, now: number, charge: Receipt, actual: number): State {
  const [, period = 0] = params
  const [debt = 0, at = 0] = leakyBucket.step(state, params, now, 0).state
  const left = debt - Math.max(0, charge.units - actual) * period
  return left <= 0 ? EMPTY : [left, at]
}

function immortal(...[state, params, now, units]: StepInputs): StepOf {
  const [, holdFor = 0] = params
  const forever = state.map((number, i) => (i % 2 === 1 ? Math.max(number, now + holdFor) : number))
  return concurrency.step(forever, params, now, units)
}

function mortal(...[state, params, now, units]: StepInputs): StepOf {
  const alive = state.filter((_, i) => state[i - (i % 2) + 1]! - 1 > now)
  return concurrency.step(alive, params, now, units)
}

function stealing(state: State, params: Params, now: number, charge: Receipt, actual: number): State {
  const [, expiry = 0] = concurrency.step(state, params, now, 0).state
  return concurrency.settle(state, params, now, { ...charge, at: expiry }, actual)
}

function doubling(...[state, params, now, charge]: Parameters<NonNullable<Algorithm['renew']>>): {
  readonly state: State
  readonly charge: Receipt
} {
  const { charge: renewed } = concurrency.renew!(state, params, now, charge)
  return {
    state: concurrency.settle(state, params, now, { at: now, units: 0 }, renewed.units),
    charge: renewed
  }
}

function reviving(...[state, params, now, charge]: Parameters<NonNullable<Algorithm['renew']>>): {
  readonly state: State
  readonly charge: Receipt
} {
  const at = now + params[1]!
  const { units } = charge
  return {
    state: concurrency.settle(state, params, now, { at: now, units: 0 }, units),
    charge: { at, units }
  }
}
