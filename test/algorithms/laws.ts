import assert from 'node:assert/strict'
import fc from 'fast-check'
import { EMPTY, NEVER, UNKNOWN } from '../../src/algorithm.js'
import type { Receipt, Terms } from '../../src/algorithm.js'
import {
  act,
  ask,
  assertAlike,
  assertAllowed,
  assertBound,
  assertRefused,
  before,
  Client,
  denseScenario,
  fork,
  HOUR,
  many,
  params,
  scenario,
  share,
  wait,
  YEAR
} from './kit.js'
import type { Admission, Admitted, Ask, Law, Subject } from './kit.js'

export const bound: Law = subject =>
  fc.property(denseScenario(50), scenario => {
    const client = Client.after(subject, scenario)
    assertBound(client, client.admissions)
  })

/** Unit by unit, as most policies are spent. */
export const boundUnitByUnit: Law = subject =>
  fc.property(
    denseScenario(0),
    many(fc.record({ wait, units: fc.integer({ min: 1, max: 12 }) }), 30),
    (scenario, acts) => {
      const client = Client.after(subject, scenario)
      for (const { wait, units } of acts) {
        client.now += client.milliseconds(wait)
        for (let i = 0; i < units; i++) client.spend(1)
      }
      assertBound(client, client.admissions)
    }
  )

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
      const client = Client.after(subject, { ...scenario, acts })
      assertBound(client, client.admissions)
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
      const [{ at, charge }] = open.splice(-1 - which, 1) as [Admitted]
      const units = Math.floor((charge.units * actual) / 1000)
      client.settle(charge, units)
      used.push({ at, units })
      assert.ok(client.peek().remaining <= client.capacity)
    }
    assertBound(client, [...used, ...client.admissions])
  })

/** Limits that differ from request to request are never worth more than the largest. */
const plansThatAlternate: Law = subject =>
  fc.property(
    denseScenario(60),
    fc.integer({ min: 1, max: 9 }),
    many(fc.boolean(), 40),
    (scenario, other, which) => {
      const terms = subject.terms(scenario.terms)
      const smaller: Terms = {
        ...terms,
        quota: Math.min(terms.quota, other),
        burst: Math.min(terms.burst, other)
      }
      const plans = [params(subject, terms), params(subject, smaller)]
      const client = new Client(subject, terms, scenario.start)
      for (const [i, act] of scenario.acts.entries()) {
        client.params = plans[which[i] === true ? 1 : 0]!
        client.act(act)
      }
      assertBound(client, client.admissions)
    }
  )

const capacityIsTrue: Law = subject =>
  fc.property(scenario(30), scenario => {
    const client = Client.after(subject, scenario)
    assert.equal(subject.algorithm.capacity(client.params), client.capacity)
    client.state = EMPTY
    assert.equal(client.peek().remaining, client.capacity)
    assertAllowed(client.try(client.capacity), 'all it can hold')
    assert.equal(client.try(client.capacity + 1).retryAfter, NEVER)
  })

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
      assert.ok(subject.kind === 'leases' || step.effectiveWindow >= 1)
    }
  })

const noQuotaIsNever: Law = subject =>
  fc.property(scenario(10), fc.nat(3), ask, (scenario, burst, ask) => {
    const client = Client.after(subject, scenario)
    client.params = params(subject, { ...client.terms, quota: 0, burst })
    assert.equal(subject.algorithm.capacity(client.params), 0)
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

export const idlenessIsHarmless: Law = subject =>
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
    const admitted = client.admissions.at(-1 - which)
    if (admitted === undefined) return
    const { state } = client
    client.settle(admitted.charge, admitted.units)
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
    for (const { charge } of charges) client.settle(charge, 0)
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
    const { charge } = client.admissions.at(-1) ?? { charge: { at: client.now, units: 0 } }
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
    if (subject.kind !== 'leases') {
      const { effectiveWindow } = debt.peek()
      assertRefused(debt.try(1, effectiveWindow - 1), 'not yet paid off')
      assertAllowed(debt.try(1, effectiveWindow), 'paid off')
    }

    const room = client.room()
    const most = more(2 ** 52)
    assert.deepEqual(most.state, more(room + 1).state, 'at most one quota of debt')
    assert.notDeepEqual(most.state, more(room - 1).state, 'and as much as that')
    const exactly = remaining + capacity
    assert.ok(room === exactly || (subject.kind === 'queue' && room === exactly + 1), `room for ${room}`)
    assert.ok(fork(client, more(room).state).room() === 0, 'and then none')
    assert.ok(most.peek().ttl <= 2 * subject.memory(client.terms))
  })

const otherPlanKeepsCounts: Law = subject =>
  fc.property(scenario(30), fc.integer({ min: 1, max: 200 }), (scenario, quota) => {
    const client = Client.after(subject, scenario)
    const used = client.capacity - client.last.remaining
    client.params = params(subject, { ...client.terms, quota, burst: quota })
    const { remaining, state } = client.peek()
    assert.equal(remaining, Math.max(0, quota - used))
    assert.equal(state.length, client.state.length)
  })

/** Whatever is asked, the same as what is written without a thought of time or memory. */
export const agreesWithOracle: Law = subject =>
  fc.property(denseScenario(40), ({ acts, ...scenario }) => {
    const client = Client.after(subject, { ...scenario, acts: [] })
    const oracle = subject.oracle!(client.terms)
    for (const { wait, ask } of acts) {
      client.now += client.milliseconds(wait)
      const units = client.units(ask)
      const expected = oracle(client.now, units)
      assert.deepEqual({ ...client.spend(units), ...expected }, client.last)
    }
  })

// --- Of a queue -------------------------------------------------------------------------------------------------------

/** Whoever comes later starts later, and nobody waits longer than was said. */
const inTheirOrder: Law = subject =>
  fc.property(denseScenario(40), scenario => {
    const { admissions, terms } = Client.after(subject, scenario)
    for (const [i, { at, charge }] of admissions.entries()) {
      const delay = at - charge.at
      assert.ok(delay <= terms.maxDelay, `waits ${delay} ms of ${terms.maxDelay}`)
      if (i > 0) assert.ok(at >= admissions[i - 1]!.at, 'after the one before')
    }
  })

/** Those behind have been told when they start. */
export const placesAreNotGivenBack: Law = subject =>
  fc.property(scenario(30), wait, share, many(act, 8), (scenario, wait, share, questions) => {
    const client = Client.after(subject, scenario)
    client.now += client.milliseconds(wait)
    const { state } = client
    for (const { charge } of client.admissions)
      client.settle(charge, Math.floor((charge.units * share) / 1001))
    assertAlike(client, state, client.state, questions)
  })

// --- Of leases --------------------------------------------------------------------------------------------------------

/** Admitted or not, nobody knows how long to wait; the state changes with what is released, and with time. */
const waitIsUnknown: Law = subject =>
  fc.property(scenario(30), share, (scenario, share) => {
    const client = Client.after(subject, scenario)
    const { remaining } = client.peek()
    if (remaining === client.capacity) return
    const units = remaining + 1 + Math.floor((share * (client.capacity - remaining - 1)) / 1000)
    assert.equal(client.spend(units).retryAfter, UNKNOWN)
    assert.equal(client.spend(client.capacity + 1).retryAfter, NEVER)
  })

/** A holder's lease, as anybody would write it down. */
interface Held {
  charge: Receipt
}

const handling = fc.record({
  act,
  next: fc.constantFrom('nothing', 'release', 'release', 'renew', 'renew', 'use less', 'use more'),
  which: fc.integer({ min: 0, max: 4 }),
  share
})

/** Who holds what: each lease its own, till it is released, or its time is over. */
export const leasesAreTheirHolders: Law = subject =>
  fc.property(denseScenario(0), many(handling, 60), (scenario, acts) => {
    const client = Client.after(subject, scenario)
    const { quota, holdFor } = client.terms
    let held: Held[] = []
    const live = (): number => {
      held = held.filter(({ charge }) => charge.at > client.now)
      return held.reduce((sum, { charge }) => sum + charge.units, 0)
    }
    const check = (): void => {
      assert.equal(client.peek().remaining, Math.max(0, quota - live()), 'what is not held')
    }
    for (const { act, next, which, share } of acts) {
      client.now += client.milliseconds(act.wait)
      const units = client.units(act.ask)
      const fits = live() + units <= quota
      const { allowed } = client.spend(units)
      assert.equal(allowed, units === 0 || fits, `${units} of ${quota - live()}`)
      if (allowed && units > 0) held.push({ charge: client.admissions.at(-1)!.charge })
      check()
      const lease = held.at(-1 - which)
      if (lease === undefined || next === 'nothing') continue
      const { charge } = lease
      if (next === 'renew') {
        lease.charge = client.renew(charge)
        assert.deepEqual(
          lease.charge,
          { at: client.now + holdFor, units: charge.units },
          'renewed, all of it'
        )
      } else if (next === 'use more') {
        const more = Math.min(1 + share, 2 * quota - live())
        client.settle(charge, charge.units + 1 + share)
        if (more > 0) held.push({ charge: { at: client.receiptAt(), units: more } })
      } else {
        const actual = next === 'release' ? 0 : Math.floor((charge.units * share) / 1001)
        client.settle(charge, actual)
        lease.charge = { at: charge.at, units: actual }
      }
      check()
    }
  })

/** It lives as long as a new one from then on, and no longer. */
export const renewedLeaseLives: Law = subject =>
  fc.property(scenario(20), share, (scenario, share) => {
    const client = Client.after(subject, scenario)
    const lease = client.admissions.at(-1)
    if (lease === undefined || lease.charge.at <= client.now) return
    const { holdFor } = client.terms
    client.now += Math.floor((share * (lease.charge.at - client.now - 1)) / 1000)
    const { remaining } = client.peek()
    const renewed = client.renew(lease.charge)
    assert.deepEqual(renewed, { at: client.now + holdFor, units: lease.units })
    assert.equal(client.peek().remaining, remaining, 'nothing more is held')
    assert.ok(client.peek(holdFor - 1).remaining <= client.capacity - lease.units, 'held to the end')
    assert.equal(client.peek(holdFor).remaining, client.capacity, 'not longer')
    client.settle(renewed, 0)
    assert.equal(client.peek().remaining, remaining + lease.units, 'released by the new receipt')
  })

export const endedLeaseIsNotRenewed: Law = subject =>
  fc.property(scenario(30), wait, many(act, 8), (scenario, wait, questions) => {
    const client = Client.after(subject, scenario)
    const lease = client.admissions[0]
    if (lease === undefined) return
    client.now = Math.max(client.now, lease.charge.at) + client.milliseconds(wait)
    const { state } = client
    assert.equal(client.renew(lease.charge).units, 0)
    client.settle(lease.charge, 0)
    assertAlike(client, state, client.state, questions)
  })

/** A clock that went back has changed the leases' ends: releases find leases of as many units, and no more. */
const stepsOfTheClock: Law = subject =>
  fc.property(denseScenario(0), many(jump, 40), fc.nat(4), (scenario, jumps, which) => {
    const client = Client.after(subject, scenario)
    for (const { act, back } of jumps) {
      client.act(act)
      client.now -= Math.floor((back * 1.5 * client.terms.holdFor) / 1000)
      const [lease] = client.admissions.splice(-1 - which, 1)
      if (lease === undefined) continue
      const { remaining } = client.spend(0)
      client.settle(lease.charge, 0)
      const after = client.peek().remaining
      assert.ok(after >= remaining && after <= remaining + lease.units, `${remaining} became ${after}`)
    }
  })

// --- All of them ------------------------------------------------------------------------------------------------------

/** Everything an algorithm has to keep, by name. */
const lawsOfAll: Readonly<Record<string, Law>> = {
  'never more than the bound in any window': bound,
  'never more than the bound, whoever drains it at every step': boundUnderAttack,
  'never more than the bound, unit by unit': boundUnitByUnit,
  'its capacity is what it can hold': capacityIsTrue,
  'what remains is admitted at once, and no more': remainingIsTrue,
  'no units: a peek': zeroPeeks,
  'a refusal changes nothing': refusalsChangeNothing,
  'more than it can hold is refused for ever': tooMuchIsNever,
  'a quota of 0 refuses everything for ever and forgets nothing': noQuotaIsNever,
  'counts until its ttl is over, and then like empty': ttlIsTrue,
  'idle for years: full, and no more than full': idlenessIsHarmless,
  'a step depends on its inputs alone': stepIsPure,
  'a clock that goes back gives nothing back and locks nobody out': clockGoesBack,
  'settled to what was charged: unchanged': settleToTheSame,
  'settled to more: charged when it is known, up to one quota of debt': settleUp
}

const lawsOfWaits: Readonly<Record<string, Law>> = {
  'refused until retryAfter, admitted then': retryAfterIsTrue,
  'with nothing left, one unit fits when the effective window is over': effectiveWindowIsTrue,
  'a client that obeys is never refused': obedienceIsRewarded
}

/** Not of a queue: what plans alternate has been told to start at the pace of one and of the other. */
const lawsOfCounts: Readonly<Record<string, Law>> = {
  'never more than the largest of plans that alternate': plansThatAlternate,
  'released right away: as before': releaseRestores,
  'another quota keeps what was counted': otherPlanKeepsCounts
}

const lawsOfKind: Readonly<Record<Subject['kind'], Readonly<Record<string, Law>>>> = {
  rate: {
    ...lawsOfWaits,
    ...lawsOfCounts,
    'never more than the bound of what was used in the end, whatever was given back': settleDown
  },
  queue: {
    ...lawsOfWaits,
    'starts in the order they came, after maxDelay at most': inTheirOrder,
    'a place is not given back': placesAreNotGivenBack
  },
  leases: {
    ...lawsOfCounts,
    'nobody knows how long to wait': waitIsUnknown,
    "a lease is its holder's": leasesAreTheirHolders,
    'a renewed lease lives from its renewal': renewedLeaseLives,
    'a lease that has ended is neither renewed nor released': endedLeaseIsNotRenewed,
    'whatever the clock does, no more is released than was held': stepsOfTheClock
  }
}

/** All that a subject has to keep, by name. */
export function lawsOf({ kind, oracle }: Subject): Readonly<Record<string, Law>> {
  const own = { ...lawsOfAll, ...lawsOfKind[kind] }
  return oracle === undefined ? own : { ...own, 'the same as in its plainest form': agreesWithOracle }
}
