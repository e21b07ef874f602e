import assert from 'node:assert/strict'
import fc from 'fast-check'
import { EMPTY, NEVER, UNKNOWN } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Step, Terms } from '../../src/algorithm.js'
import type { Oracle } from './oracles.js'

/** What every algorithm has to keep: it passes by being listed as a {@link Subject}. */
export interface Subject {
  readonly algorithm: Algorithm
  readonly kind: 'rate' | 'queue' | 'leases'
  /** What it is tried with, of terms that were made for all. */
  terms(terms: Terms): Terms
  /** The most units that start in any window, if no charge is of more than `largest`. */
  bound(terms: Terms, largest: number): number
  /** The most units it can hold at once. */
  capacity(terms: Terms): number
  /** Milliseconds after which nothing that was charged counts any more. */
  memory(terms: Terms): number
  /** The same limiter in its plainest form, if it has one. */
  readonly oracle?: (terms: Terms) => Oracle
}

/** A property of one subject that generated traffic has to confirm. */
export type Law = (subject: Subject) => fc.IProperty<[Scenario, ...unknown[]]>

/** Units that were admitted, and when they start. */
export interface Admission {
  readonly at: number
  readonly units: number
}

/**
 * The measure: for each admission at p the units admitted in (p − window, p], of these the most. It knows
 * nothing of the limiter, so it can judge any.
 */
export function mostInAnyWindow(admissions: readonly Admission[], window: number): number {
  const ordered = admissions.toSorted((a, b) => a.at - b.at)
  let most = 0
  let sum = 0
  let first = 0
  for (const { at, units } of ordered) {
    sum += units
    for (; ordered[first]!.at <= at - window; first++) sum -= ordered[first]!.units
    most = Math.max(most, sum)
  }
  return most
}

/** Runs of each property; long suites use 20 000. */
export const runs: number = Number(process.env['QUOTA_TEST_RUNS'] ?? 400)
export const seed: number = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
export const howToRepeat: string = `fast-check: ${runs} runs, seed ${seed}; repeat with FC_SEED=${seed} QUOTA_TEST_RUNS=${runs}`
fc.configureGlobal({ seed, numRuns: runs })

// --- Traffic that aims at edges ---------------------------------------------------------------------------------------

/** How long to wait, said in terms of the last answer, since that is where the edges are. */
interface Wait {
  readonly until: (typeof UNTIL)[number]
  readonly plus: number
  /** Of the window, in thousandths; for `share` only. */
  readonly share: number
}

/** What to ask for, said in terms of what is left. */
export interface Ask {
  readonly units: (typeof UNITS)[number]
  readonly share: number
}

interface Act {
  readonly wait: Wait
  readonly ask: Ask
}

export interface Scenario {
  readonly terms: Terms
  readonly start: number
  readonly acts: readonly Act[]
}

// Repeated words are likelier.
const UNTIL = [
  'now',
  'now',
  'now',
  'soon',
  'soon',
  'retryAfter',
  'retryAfter',
  'effectiveWindow',
  'ttl',
  'window',
  'sub-window',
  'share'
] as const
const UNITS = [
  'one',
  'one',
  'one',
  'rest',
  'rest',
  'rest and one',
  'all',
  'too much',
  'none',
  'share'
] as const

export const share: fc.Arbitrary<number> = fc.integer({ min: 0, max: 1000 })
export const wait: fc.Arbitrary<Wait> = fc.record({
  until: fc.constantFrom(...UNTIL),
  plus: fc.constantFrom(0, 0, 1, -1),
  share
})
export const ask: fc.Arbitrary<Ask> = fc.record({ units: fc.constantFrom(...UNITS), share })
export const act: fc.Arbitrary<Act> = fc.record({ wait, ask })

/** As many as they say, not the handful fast-check would prefer. */
export const many = <T>(item: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> =>
  fc.array(item, { maxLength, size: 'max' })

export const HOUR = 3_600_000
export const YEAR: number = 8760 * HOUR

/** Small numbers that do not divide each other: whatever can go wrong goes wrong within few acts. */
const denseTerms: fc.Arbitrary<Terms> = fc.record({
  quota: fc.integer({ min: 1, max: 7 }),
  window: fc.integer({ min: 1, max: 40 }),
  precision: fc.integer({ min: 1, max: 6 }),
  burst: fc.integer({ min: 1, max: 9 }),
  align: fc.boolean(),
  maxDelay: fc.integer({ min: 1, max: 90 }),
  holdFor: fc.integer({ min: 1, max: 40 })
})

/**
 * The longest a bucket takes to refill, about 2 200 years: the times of a scenario, which may wait for that again and again,
 * have to stay below 2^53 ms.
 */
const REFILL = 2 ** 46

const usualTerms: fc.Arbitrary<Terms> = fc
  .record({
    quota: fc.constantFrom(1, 2, 3, 7, 10, 13, 100, 1000, 10_000_000),
    window: fc.constantFrom(1, 7, 97, 1000, 1500, 60_000, HOUR - 1, HOUR, 25 * HOUR, YEAR),
    precision: fc.constantFrom(1, 2, 3, 6, 10, 60),
    burst: fc.constantFrom(1, 2, 5, 10, 77, 1000, 50_000),
    align: fc.boolean(),
    maxDelay: fc.constantFrom(1, 100, 1500, 60_000, HOUR, 24 * HOUR),
    holdFor: fc.constantFrom(1, 97, 1500, 30_000, HOUR)
  })
  .map(terms => ({
    ...terms,
    burst: Math.min(terms.burst, Math.max(1, Math.floor((terms.quota * REFILL) / terms.window)))
  }))

const start: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(1_753_900_000_123, 1_764_547_200_000),
  fc.integer({ min: 1_600_000_000_000, max: 2_500_000_000_000 })
)

export const scenario = (maxLength: number): fc.Arbitrary<Scenario> =>
  fc.record({ terms: fc.oneof(denseTerms, usualTerms), start, acts: many(act, maxLength) })

export const denseScenario = (maxLength: number): fc.Arbitrary<Scenario> =>
  fc.record({
    terms: fc.oneof({ weight: 3, arbitrary: denseTerms }, { weight: 1, arbitrary: usualTerms }),
    start,
    acts: many(act, maxLength)
  })

/** What was admitted, and the receipt of its charge. */
export interface Admitted extends Admission {
  readonly charge: Receipt
}

/** Spends one partition's quota and keeps the books. */
export class Client {
  readonly subject: Subject
  readonly terms: Terms
  readonly capacity: number
  readonly admissions: Admitted[] = []
  /** The most units that were charged at once. */
  largest = 1
  params: Params
  now: number
  state: State = EMPTY
  last: Step

  constructor(subject: Subject, terms: Terms, now: number) {
    this.subject = subject
    this.terms = terms
    this.capacity = subject.capacity(terms)
    this.params = params(subject, terms)
    this.now = now
    this.last = this.peek()
  }

  /** Arrives wherever the scenario's acts lead. */
  static after(subject: Subject, { terms, start, acts }: Scenario): Client {
    const client = new Client(subject, subject.terms(terms), start)
    for (const act of acts) client.act(act)
    return client
  }

  act({ wait, ask }: Act): void {
    this.now += this.milliseconds(wait)
    this.spend(this.units(ask))
  }

  /** Asks, and keeps what comes of it. */
  spend(units: number): Step {
    this.last = this.try(units)
    this.state = this.last.state
    if (this.last.allowed && units > 0) {
      const charge = { at: this.receiptAt(), units }
      this.admissions.push({ at: this.now + this.last.delay, units, charge })
      this.largest = Math.max(this.largest, units)
    }
    return this.last
  }

  receiptAt(): number {
    return this.subject.algorithm.receiptAt?.(this.params, this.now) ?? this.now
  }

  /** Asks, and changes nothing. */
  try(units: number, later: number = 0): Step {
    return step(this.subject, this.state, this.params, this.now + later, units)
  }

  peek(later?: number): Step {
    return this.try(0, later)
  }

  settle(charge: Receipt, actual: number): void {
    this.state = settle(this.subject.algorithm, this.state, this.params, this.now, charge, actual)
  }

  room(): number {
    const room = this.subject.algorithm.room(Object.freeze(this.state), this.params, this.now)
    if (!integers([room])) assert.fail(`no sound room: ${room}`)
    return room
  }

  renew(charge: Receipt): Receipt {
    const { algorithm } = this.subject
    const renewed = algorithm.renew!(Object.freeze(this.state), this.params, this.now, Object.freeze(charge))
    if (!integers([...renewed.state, renewed.charge.at, renewed.charge.units])) {
      assert.fail(`no sound renewal: ${JSON.stringify(renewed)}`)
    }
    this.state = renewed.state
    return renewed.charge
  }

  milliseconds({ until, plus, share }: Wait): number {
    const { terms, last } = this
    switch (until) {
      case 'now':
        return 0
      case 'soon':
        return 1
      case 'share':
        return Math.floor((share * 1.2 * terms.window) / 1000)
      case 'window':
        return Math.max(0, terms.window + plus)
      case 'sub-window':
        return Math.max(0, Math.ceil(terms.window / terms.precision) + plus)
      case 'retryAfter':
      case 'effectiveWindow':
      case 'ttl':
        return Math.max(0, last[until] + plus)
    }
  }

  units({ units, share }: Ask): number {
    switch (units) {
      case 'none':
        return 0
      case 'one':
        return 1
      case 'rest':
        return this.peek().remaining
      case 'rest and one':
        return this.peek().remaining + 1
      case 'all':
        return this.capacity
      case 'too much':
        return this.capacity + 1
      case 'share':
        return 1 + Math.floor((share * this.capacity) / 1000)
    }
  }
}

export const params = ({ algorithm }: Subject, terms: Terms): Params => Object.freeze(algorithm.params(terms))

/**
 * A step of frozen inputs to a checked output: all integers, `ttl` 0 for the empty state alone, no wait and no window where
 * nobody can know them, a delay in a queue alone.
 */
function step({ algorithm, kind }: Subject, state: State, params: Params, now: number, units: number): Step {
  const next = algorithm.step(Object.freeze(state), params, now, units)
  const { state: written, allowed, remaining, effectiveWindow, retryAfter, delay, ttl } = next
  const isWait = kind === 'leases' ? retryAfter === UNKNOWN : integers([retryAfter - 1])
  const sound =
    integers(written) &&
    integers([remaining, effectiveWindow, ttl, delay]) &&
    (allowed ? retryAfter === 0 : retryAfter === NEVER || isWait) &&
    (kind !== 'leases' || effectiveWindow === 0) &&
    (delay === 0 || (kind === 'queue' && allowed && units > 0)) &&
    (ttl === 0) === (written.length === 0)
  if (!sound) assert.fail(`no sound step: ${JSON.stringify(next)}`)
  return next
}

function settle(
  algorithm: Algorithm,
  state: State,
  params: Params,
  now: number,
  charge: Receipt,
  actual: number
): State {
  const next = algorithm.settle(Object.freeze(state), params, now, Object.freeze(charge), actual)
  if (!integers(next)) assert.fail(`no sound state: ${JSON.stringify(next)}`)
  return next
}

const integers = (numbers: readonly number[]): boolean =>
  numbers.every(number => Number.isSafeInteger(number) && number >= 0)

/** Whether two states give the same answers to the same questions from now on. */
export function assertAlike(client: Client, one: State, other: State, questions: readonly Act[]): void {
  const left = fork(client, one)
  const right = fork(client, other)
  assert.deepEqual(left.peek(), right.peek())
  for (const question of questions) {
    left.act(question)
    right.act(question)
    assert.deepEqual(left.last, right.last)
  }
}

/** The same client with another state. */
export function fork(client: Client, state: State): Client {
  const twin = new Client(client.subject, client.terms, client.now)
  twin.params = client.params
  twin.state = state
  twin.last = twin.peek()
  return twin
}

/** Times before `wait` is over: its last millisecond and one anywhere. */
export const before = (wait: number, share: number): number[] => [
  wait - 1,
  Math.floor((share * (wait - 1)) / 1000)
]

export function assertRefused({ allowed }: Step, why: string): void {
  assert.equal(allowed, false, why)
}

export function assertAllowed({ allowed }: Step, why: string): void {
  assert.equal(allowed, true, why)
}

export function assertBound({ subject, terms, largest }: Client, admissions: readonly Admission[]): void {
  const most = mostInAnyWindow(admissions, terms.window)
  const bound = subject.bound(terms, largest)
  assert.ok(most <= bound, `admitted ${most} in a window, at most ${bound} are promised`)
}
