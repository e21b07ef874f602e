import assert from 'node:assert/strict'
import fc from 'fast-check'
import { EMPTY, NEVER } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Step, Terms } from '../../src/algorithm.js'

/** What every algorithm has to keep: it passes by being listed as a {@link Subject}. */
export interface Subject {
  readonly algorithm: Algorithm
  /** The most units admitted in any window (design.md §7). */
  bound(terms: Terms): number
  /** The most units it can hold at once. */
  capacity(terms: Terms): number
  /** Milliseconds after which nothing that was charged counts any more. */
  memory(terms: Terms): number
}

/** A property of one subject that generated traffic has to confirm. */
export type Law = (subject: Subject) => fc.IProperty<[Scenario, ...unknown[]]>

/** Units that were admitted, and when. */
export interface Admission {
  readonly at: number
  readonly units: number
}

/**
 * The measure of numbers.md: for each admission at p the units admitted in (p − window, p], of these the most. It knows
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
export const runs: number = Number(process.env['QUOTA_TEST_RUNS'] ?? 1000)
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
interface Ask {
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

const share = fc.integer({ min: 0, max: 1000 })
const wait: fc.Arbitrary<Wait> = fc.record({
  until: fc.constantFrom(...UNTIL),
  plus: fc.constantFrom(0, 0, 1, -1),
  share
})
const ask: fc.Arbitrary<Ask> = fc.record({ units: fc.constantFrom(...UNITS), share })
const act: fc.Arbitrary<Act> = fc.record({ wait, ask })

/** As many as they say, not the handful fast-check would prefer. */
const many = <T>(item: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> =>
  fc.array(item, { maxLength, size: 'max' })

const HOUR = 3_600_000
const YEAR = 8760 * HOUR

/** Small numbers that do not divide each other: whatever can go wrong goes wrong within few acts. */
const denseTerms: fc.Arbitrary<Terms> = fc.record({
  quota: fc.integer({ min: 1, max: 7 }),
  window: fc.integer({ min: 1, max: 40 }),
  precision: fc.integer({ min: 1, max: 6 }),
  burst: fc.integer({ min: 1, max: 9 }),
  align: fc.boolean()
})

const usualTerms: fc.Arbitrary<Terms> = fc.record({
  quota: fc.constantFrom(1, 2, 3, 7, 10, 13, 100, 1000, 10_000_000),
  window: fc.constantFrom(1, 7, 97, 1000, 1500, 60_000, HOUR - 1, HOUR, 25 * HOUR, YEAR),
  precision: fc.constantFrom(1, 2, 3, 6, 10, 60),
  burst: fc.constantFrom(1, 2, 5, 10, 77, 1000, 50_000),
  align: fc.boolean()
})

const start: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(1_753_900_000_123, 1_764_547_200_000),
  fc.integer({ min: 1_600_000_000_000, max: 2_500_000_000_000 })
)

const scenario = (maxLength: number): fc.Arbitrary<Scenario> =>
  fc.record({ terms: fc.oneof(denseTerms, usualTerms), start, acts: many(act, maxLength) })

const denseScenario = (maxLength: number): fc.Arbitrary<Scenario> =>
  fc.record({
    terms: fc.oneof({ weight: 3, arbitrary: denseTerms }, { weight: 1, arbitrary: usualTerms }),
    start,
    acts: many(act, maxLength)
  })

/** Spends one partition's quota and keeps the books. */
class Client {
  readonly subject: Subject
  readonly terms: Terms
  readonly capacity: number
  readonly admissions: Receipt[] = []
  params: Params
  now: number
  state: State = EMPTY
  last: Step

  constructor(subject: Subject, terms: Terms, now: number) {
    this.subject = subject
    this.terms = terms
    this.capacity = subject.capacity(terms)
    this.params = Object.freeze(subject.algorithm.params(terms))
    this.now = now
    this.last = this.peek()
  }

  /** Arrives wherever the scenario's acts lead. */
  static after(subject: Subject, { terms, start, acts }: Scenario): Client {
    const client = new Client(subject, terms, start)
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
    if (this.last.allowed && units > 0) this.admissions.push({ at: this.now, units })
    return this.last
  }

  /** Asks, and changes nothing. */
  try(units: number, later: number = 0): Step {
    return step(this.subject.algorithm, this.state, this.params, this.now + later, units)
  }

  peek(later?: number): Step {
    return this.try(0, later)
  }

  settle(charge: Receipt, actual: number): void {
    this.state = settle(this.subject.algorithm, this.state, this.params, this.now, charge, actual)
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

/** A step of frozen inputs to a checked output: all integers, `ttl` 0 for the empty state alone. */
function step(algorithm: Algorithm, state: State, params: Params, now: number, units: number): Step {
  const next = algorithm.step(Object.freeze(state), params, now, units)
  const { state: written, allowed, remaining, effectiveWindow, retryAfter, delay, ttl } = next
  const sound =
    integers(written) &&
    integers([remaining, effectiveWindow, ttl]) &&
    (allowed ? retryAfter === 0 : retryAfter === NEVER || integers([retryAfter - 1])) &&
    delay === 0 &&
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
function assertAlike(client: Client, one: State, other: State, questions: readonly Act[]): void {
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
function fork(client: Client, state: State): Client {
  const twin = new Client(client.subject, client.terms, client.now)
  twin.params = client.params
  twin.state = state
  twin.last = twin.peek()
  return twin
}

/** Times before `wait` is over: its last millisecond and one anywhere. */
const before = (wait: number, share: number): number[] => [wait - 1, Math.floor((share * (wait - 1)) / 1000)]

function assertRefused({ allowed }: Step, why: string): void {
  assert.equal(allowed, false, why)
}

function assertAllowed({ allowed }: Step, why: string): void {
  assert.equal(allowed, true, why)
}

function assertBound(subject: Subject, terms: Terms, admissions: readonly Admission[]): void {
  const most = mostInAnyWindow(admissions, terms.window)
  const bound = subject.bound(terms)
  assert.ok(most <= bound, `admitted ${most} in a window, at most ${bound} are promised`)
}

// --- The laws ---------------------------------------------------------------------------------------------------------

export const bound: Law = subject =>
  fc.property(denseScenario(50), scenario => {
    const { terms, admissions } = Client.after(subject, scenario)
    assertBound(subject, terms, admissions)
  })

/** Whoever drains it at nearly every step, as an adversary does. */
export const boundUnderAttack: Law = subject =>
  fc.property(
    denseScenario(0),
    many(
      fc.record({
        wait,
        ask: fc.record({ units: fc.constantFrom<Ask['units']>('rest', 'rest', 'rest', 'one'), share })
      }),
      50
    ),
    (scenario, acts) => {
      const { terms, admissions } = Client.after(subject, { ...scenario, acts })
      assertBound(subject, terms, admissions)
    }
  )

const settlement = fc.record({
  act,
  /** Which of the open receipts, the latest first, and to what part of it. */
  which: fc.integer({ min: 0, max: 3 }),
  actual: fc.oneof(fc.constantFrom(0, 0, 500), share),
  settles: fc.boolean()
})

/** What was given back is not there twice. */
export const settleDown: Law = subject =>
  fc.property(denseScenario(0), many(settlement, 60), (scenario, acts) => {
    const client = Client.after(subject, scenario)
    const used: Admission[] = []
    for (const { act, which, actual, settles } of acts) {
      client.act(act)
      const open = client.admissions
      if (!settles || which >= open.length) continue
      const [charge] = open.splice(-1 - which, 1) as [Receipt]
      const units = Math.floor((charge.units * actual) / 1000)
      client.settle(charge, units)
      used.push({ at: charge.at, units })
      assert.ok(client.peek().remaining <= client.capacity)
    }
    assertBound(subject, client.terms, [...used, ...client.admissions])
  })

/** Limits that differ from request to request are never worth more than the largest. */
const plansThatAlternate: Law = subject =>
  fc.property(
    denseScenario(60),
    fc.integer({ min: 1, max: 9 }),
    many(fc.boolean(), 40),
    (scenario, other, which) => {
      const { terms } = scenario
      const smaller: Terms = {
        ...terms,
        quota: Math.min(terms.quota, other),
        burst: Math.min(terms.burst, other)
      }
      const plans = [subject.algorithm.params(terms), subject.algorithm.params(smaller)]
      const client = new Client(subject, terms, scenario.start)
      for (const [i, act] of scenario.acts.entries()) {
        client.params = plans[which[i] === true ? 1 : 0]!
        client.act(act)
      }
      assertBound(subject, terms, client.admissions)
    }
  )

const remainingIsTrue: Law = subject =>
  fc.property(scenario(30), scenario => {
    const client = Client.after(subject, scenario)
    const { remaining } = client.last
    assert.ok(remaining <= client.capacity)
    assert.equal(client.peek().remaining, remaining, 'the state says what the answer said')
    if (remaining > 0) {
      assertAllowed(client.try(1), 'one unit')
      assertAllowed(client.try(remaining), 'all that remain')
    }
    assertRefused(client.try(remaining + 1), 'more than remain')
    for (let left = remaining; left > 0; left--) {
      const units = left > 20 ? left - 20 : 1
      assert.equal(client.spend(units).remaining, left - units)
      left -= units - 1
    }
    assertRefused(client.spend(1), 'one more')
    assert.equal(client.last.remaining, 0)
  })

const retryAfterIsTrue: Law = subject =>
  fc.property(scenario(30), share, share, (scenario, share, many) => {
    const client = Client.after(subject, scenario)
    const { remaining } = client.peek()
    if (remaining === client.capacity) return
    const units = remaining + 1 + Math.floor((many * (client.capacity - remaining - 1)) / 1000)
    const { allowed, retryAfter, effectiveWindow } = client.spend(units)
    assert.equal(allowed, false)
    assert.ok(
      retryAfter >= effectiveWindow && effectiveWindow >= 1,
      `${retryAfter} against ${effectiveWindow}`
    )
    assert.ok(retryAfter <= subject.memory(client.terms))
    for (const early of before(retryAfter, share))
      assertRefused(client.try(units, early), `${early} ms later`)
    assertAllowed(client.try(units, retryAfter), `${retryAfter} ms later`)
  })

const effectiveWindowIsTrue: Law = subject =>
  fc.property(scenario(30), share, (scenario, share) => {
    const client = Client.after(subject, scenario)
    client.spend(client.peek().remaining)
    for (const units of [0, 1, client.capacity + 1]) {
      const { remaining, effectiveWindow } = client.spend(units)
      assert.equal(remaining, 0)
      assert.ok(effectiveWindow >= 1)
      for (const early of before(effectiveWindow, share))
        assertRefused(client.try(1, early), `${early} ms later`)
      assertAllowed(client.try(1, effectiveWindow), `${effectiveWindow} ms later`)
    }
  })

/** Whoever spends no more than r, and waits t when there is nothing left, meets no refusal. */
const obedienceIsRewarded: Law = subject =>
  fc.property(scenario(15), many(wait, 40), (scenario, waits) => {
    const client = Client.after(subject, scenario)
    for (const wait of waits) {
      const { remaining, effectiveWindow } = client.last
      client.now += remaining === 0 ? effectiveWindow : client.milliseconds(wait)
      assertAllowed(client.spend(1), 'a client that obeys')
    }
  })

const zeroPeeks: Law = subject =>
  fc.property(scenario(30), wait, many(act, 10), (scenario, wait, questions) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(wait)
    const { state } = client
    const { allowed, remaining } = client.spend(0)
    assert.equal(allowed, true)
    assert.equal(client.peek().remaining, remaining)
    assertAlike(client, state, client.state, questions)
  })

const refusalsChangeNothing: Law = subject =>
  fc.property(scenario(30), wait, many(act, 10), (scenario, wait, questions) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(wait)
    const { state } = client
    assertRefused(client.spend(client.peek().remaining + 1), 'more than remain')
    assertAlike(client, state, client.state, questions)
  })

const tooMuchIsNever: Law = subject =>
  fc.property(scenario(30), share, many(wait, 5), (scenario, share, waits) => {
    const client = Client.after(subject, scenario)
    const units = client.capacity + 1 + share
    for (const wait of waits) {
      client.now += client.milliseconds(wait)
      const { remaining } = client.peek()
      const step = client.spend(units)
      assert.equal(step.allowed, false)
      assert.equal(step.retryAfter, NEVER)
      assert.equal(step.remaining, remaining)
      assert.ok(step.effectiveWindow >= 1)
    }
  })

const noQuotaIsNever: Law = subject =>
  fc.property(scenario(10), fc.nat(3), ask, (scenario, burst, ask) => {
    const client = Client.after(subject, scenario)
    client.params = Object.freeze(subject.algorithm.params({ ...client.terms, quota: 0, burst }))
    for (const state of [client.state, EMPTY]) {
      client.state = state
      const step = client.try(client.units(ask))
      assert.equal(step.allowed, false)
      assert.equal(step.retryAfter, NEVER)
      assert.equal(step.remaining, 0)
      assert.equal(step.effectiveWindow, 0)
      assert.equal(step.state.length, state.length, 'and forgets nothing')
    }
  })

const ttlIsTrue: Law = subject =>
  fc.property(
    scenario(30),
    fc.constantFrom(0, 1, HOUR, 10 * YEAR),
    many(act, 8),
    (scenario, more, questions) => {
      const client = Client.after(subject, scenario)
      const { ttl } = client.last
      assert.ok(ttl <= subject.memory(client.terms))
      if (ttl > 0) assert.notEqual(client.peek(ttl - 1).state.length, 0, 'it counts until then')
      assert.equal(client.peek(ttl).state.length, 0, 'and not from then on')
      assert.equal(client.peek(ttl).remaining, client.capacity)
      client.now += ttl + more
      assertAlike(client, client.state, EMPTY, questions)
    }
  )

const idlenessIsHarmless: Law = subject =>
  fc.property(
    scenario(20),
    many(fc.constantFrom(1, HOUR / 2, 12 * HOUR, YEAR, 1000 * YEAR), 6),
    (scenario, idle) => {
      const client = Client.after(subject, scenario)
      for (const milliseconds of idle) {
        const { remaining } = client.peek()
        client.now += milliseconds
        const now = client.peek().remaining
        assert.ok(now >= remaining && now <= client.capacity, `${remaining} became ${now}`)
      }
      client.now += subject.memory(client.terms)
      assert.equal(client.spend(1).remaining, client.capacity - 1)
    }
  )

const stepIsPure: Law = subject =>
  fc.property(scenario(30), act, (scenario, act) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(act.wait)
    const units = client.units(act.ask)
    assert.deepEqual(client.try(units), client.try(units))
    assert.deepEqual(fork(client, [...client.state]).try(units), client.try(units))
    assert.equal(EMPTY.length, 0)
  })

const jump = fc.record({
  act,
  back: fc.oneof(fc.constantFrom(0, 0, 1, 1, 999, 1000), share),
  /** In milliseconds, or in thousandths of the window. */
  absolute: fc.boolean()
})

/** A clock that goes back gives nothing back and makes nobody wait longer than what they did would have cost at once. */
const clockGoesBack: Law = subject =>
  fc.property(denseScenario(0), many(jump, 40), many(act, 8), (scenario, jumps, questions) => {
    const client = Client.after(subject, scenario)
    const longest = subject.memory(client.terms)
    for (const { act, back, absolute } of jumps) {
      client.act(act)
      const { remaining } = client.last
      client.now -= absolute ? back : Math.floor((back * 1.5 * client.terms.window) / 1000)
      const step = client.spend(0)
      assert.ok(step.remaining <= remaining, `${remaining} became ${step.remaining}`)
      assert.ok(step.ttl <= longest, `${step.ttl} ms until it is forgotten, at most ${longest}`)
      const refusal = client.try(step.remaining + 1)
      assert.ok(refusal.retryAfter <= longest, `${refusal.retryAfter} ms to wait, at most ${longest}`)
    }
    client.now += longest
    assertAlike(client, client.state, EMPTY, questions)
  })

const settleToTheSame: Law = subject =>
  fc.property(scenario(30), wait, fc.nat(40), many(act, 10), (scenario, wait, which, questions) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(wait)
    const charge = client.admissions.at(-1 - which)
    if (charge === undefined) return
    const { state } = client
    client.settle(charge, charge.units)
    assertAlike(client, state, client.state, questions)
  })

/** Given back at once, all is there again; what is left later is never more than without the charge. */
const releaseRestores: Law = subject =>
  fc.property(scenario(20), many(ask, 4), wait, (scenario, asks, wait) => {
    const client = Client.after(subject, scenario)
    const untouched = fork(client, client.state)
    const { length } = client.admissions
    for (const ask of asks) client.spend(client.units(ask))
    const charges = client.admissions.slice(length)
    for (const charge of charges) client.settle(charge, 0)
    assert.equal(client.peek().remaining, untouched.peek().remaining)
    if (untouched.peek().state.length === 0) assert.equal(client.state.length, 0, 'nothing is nothing')
    const later = client.milliseconds(wait)
    assert.ok(client.peek(later).remaining <= untouched.peek(later).remaining, 'never a gift')
  })

/** Whatever turned out to be more is charged when that is known, beyond the quota if need be. */
const settleUp: Law = subject =>
  fc.property(scenario(20), wait, share, many(act, 8), (scenario, wait, share, questions) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(wait)
    const charge = client.admissions.at(-1) ?? { at: client.now, units: 0 }
    const { state, capacity } = client
    const { remaining } = client.peek()
    const more = (units: number): Client => {
      const twin = fork(client, state)
      twin.settle(charge, charge.units + units)
      return twin
    }
    const fitting = Math.floor((share * remaining) / 1000)
    assertAlike(client, more(fitting).state, client.try(fitting).state, questions)

    const debt = more(remaining + 1 + Math.floor((share * capacity) / 1000))
    assert.equal(debt.peek().remaining, 0)
    assertRefused(debt.try(1), 'beyond the quota')
    const { effectiveWindow } = debt.peek()
    assertRefused(debt.try(1, effectiveWindow - 1), 'not yet paid off')
    assertAllowed(debt.try(1, effectiveWindow), 'paid off')

    const most = more(2 ** 40)
    assert.deepEqual(most.state, more(remaining + capacity + 1).state, 'at most one quota of debt')
    assert.notDeepEqual(most.state, more(remaining + capacity - 1).state, 'and as much as that')
    assert.ok(most.peek().ttl <= 2 * subject.memory(client.terms))
  })

const otherPlanKeepsCounts: Law = subject =>
  fc.property(scenario(30), fc.integer({ min: 1, max: 200 }), (scenario, quota) => {
    const client = Client.after(subject, scenario)
    const used = client.capacity - client.last.remaining
    client.params = subject.algorithm.params({ ...client.terms, quota, burst: quota })
    const { remaining, state } = client.peek()
    assert.equal(remaining, Math.max(0, quota - used))
    assert.equal(state.length, client.state.length)
  })

/** Everything an algorithm has to keep, by name. */
export const laws: Readonly<Record<string, Law>> = {
  'never more than the bound in any window': bound,
  'never more than the bound, whoever drains it at every step': boundUnderAttack,
  'never more than the bound of what was used in the end, whatever was given back': settleDown,
  'never more than the largest of plans that alternate': plansThatAlternate,
  'what remains is admitted at once, and no more': remainingIsTrue,
  'refused until retryAfter, admitted then': retryAfterIsTrue,
  'with nothing left, one unit fits when the effective window is over': effectiveWindowIsTrue,
  'a client that obeys is never refused': obedienceIsRewarded,
  'no units: a peek': zeroPeeks,
  'a refusal changes nothing': refusalsChangeNothing,
  'more than it can hold is refused for ever': tooMuchIsNever,
  'a quota of 0 refuses everything for ever and forgets nothing': noQuotaIsNever,
  'counts until its ttl is over, and then like empty': ttlIsTrue,
  'idle for years: full, and no more than full': idlenessIsHarmless,
  'a step depends on its inputs alone': stepIsPure,
  'a clock that goes back gives nothing back and locks nobody out': clockGoesBack,
  'settled to what was charged: unchanged': settleToTheSame,
  'released right away: as before': releaseRestores,
  'settled to more: charged when it is known, up to one quota of debt': settleUp,
  'another quota keeps what was counted': otherPlanKeepsCounts
}
