import type { FastifyRequest } from 'fastify'
import { decide, undecidable } from './decision.js'
import type { Decision } from './decision.js'
import { isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import type { Account } from './ledger.js'
import type { Stage } from './plan.js'
import { constantCharges, price } from './pricing.js'
import type { Answer, Charge, Place } from './store.js'
import type { Services, Visit } from './visit.js'

/**
 * Decides one stage of a request: all its policies in one call to the store. The result is a promise only if an
 * operator's function or the store returned one.
 */
export function decideStage(
  services: Services,
  request: FastifyRequest,
  visit: Visit,
  stage: Stage
): Later<Decision> {
  const waiting = visit.parts.identify(stage.identities)
  if (waiting === undefined) return charge(services, request, visit, stage)
  return waiting.then(() => charge(services, request, visit, stage))
}

/** Charges bytes of a body as it arrives. What was charged for it before stays charged, whatever is decided. */
export function decideBytes({ store }: Services, visit: Visit, bytes: number): Later<Decision> {
  const charges = visit.metered.map(place => ({ ...place, units: bytes }))
  return whenKnown(store.consume(charges), answer => {
    visit.ledger.extend(answer)
    return decide(charges, answer, [])
  })
}

/**
 * Gives back what earlier stages charged, and leases; the decision then shows what they have left. What has arrived of a
 * body, and what code has spent, is used.
 */
export function giveBack(visit: Visit): Later<void> {
  if (visit.ledger.isEmpty) return
  const arrived = ({ policy }: Account): boolean =>
    visit.metered.some(place => place.policy.field === policy.field)
  const accounts = visit.ledger.accounts.filter(
    account => !arrived(account) && (account.by === 'stage' || account.policy.algorithm.renew !== undefined)
  )
  return whenKnown(visit.ledger.release(accounts), limits => visit.refresh(limits))
}

function charge(services: Services, request: FastifyRequest, visit: Visit, stage: Stage): Later<Decision> {
  if (stage.constant !== undefined)
    return consume(services, visit, constantCharges(visit.parts, stage.constant), NONE)
  return whenKnown(price(services.faults, request, visit.parts, stage.shares), bill => {
    if (bill.failed === 'closed') return undecidable('closed', bill.exempt)
    if (bill.charges.length === 0) return decide([], NOTHING_ASKED[bill.failed ?? 'none'], bill.exempt)
    visit.metered = joined(visit.metered, bill.metered)
    return consume(services, visit, bill.charges, bill.exempt)
  })
}

function consume(
  services: Services,
  visit: Visit,
  charges: readonly Charge[],
  exempt: Decision['exempt']
): Later<Decision> {
  const { store, newcomers } = services
  if (newcomers?.see(charges) === false) services.newcomers = undefined
  visit.places = joined(visit.places, charges)
  const answer = store.consume(charges)
  if (!isLater(answer)) return conclude(visit, charges, answer, exempt)
  return Promise.resolve(answer).then(known => conclude(visit, charges, known, exempt))
}

function conclude(
  visit: Visit,
  charges: readonly Charge[],
  answer: Answer,
  exempt: Decision['exempt']
): Decision {
  const decision = decide(charges, answer, exempt)
  if (decision.outcome === 'allowed') visit.ledger.enter(charges, answer)
  return decision
}

const NONE: readonly never[] = Object.freeze([])

const NOTHING_ASKED: Readonly<Record<'none' | 'open', Answer>> = {
  none: { limits: [], source: 'none' },
  open: { limits: [], source: 'open' }
}

const joined = (places: readonly Place[], more: readonly Place[]): readonly Place[] =>
  places.length === 0 ? more : [...places, ...more]
