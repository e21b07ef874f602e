import type { FastifyRequest } from 'fastify'
import { decide } from './decision.js'
import type { Decision } from './decision.js'
import { isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import { show } from './options.js'
import type { Share, Stage } from './plan.js'
import { isUnits } from './policy.js'
import type { Charge, Settlement, Store } from './store.js'
import type { Identification, Visit } from './visit.js'

/** Where and by what decisions are made. */
export interface Office extends Identification {
  readonly store: Store
}

/**
 * Decides one stage of a request: all its policies in one call to the store. The result is a promise only if an
 * operator's function or the store returned one.
 */
export function decideStage(
  office: Office,
  request: FastifyRequest,
  visit: Visit,
  stage: Stage
): Later<Decision> {
  const waiting = visit.parts.identify(stage.identities)
  if (waiting === undefined) return charge(office, request, visit, stage)
  return waiting.then(() => charge(office, request, visit, stage))
}

/** Gives back what earlier stages charged; the decision then shows what they have left. */
export function giveBack(store: Store, visit: Visit): Later<void> {
  if (visit.charged.length === 0) return
  const settlements: readonly Settlement[] = visit.charged.map(charged => ({ ...charged, actual: 0 }))
  visit.charged = []
  return whenKnown(store.settle(settlements), ({ limits }) => {
    const { decision } = visit
    visit.decision = {
      ...decision,
      limits: decision.limits.map(limit => limits.find(({ policy }) => policy === limit.policy) ?? limit)
    }
  })
}

function charge(office: Office, request: FastifyRequest, visit: Visit, stage: Stage): Later<Decision> {
  const { exempt, shares } = withoutExempt(office, request, stage.shares)
  return whenKnown(chargesOf(office, request, visit, shares), charges => {
    if (charges.length === 0) return decide(charges, { limits: [], source: 'none' }, exempt)
    return whenKnown(office.store.consume(charges), answer => {
      for (let i = 0; i < charges.length; i++) {
        const { policy, charges: receipts } = answer.limits[i]!
        if (receipts.length > 0)
          visit.charged.push({ partition: charges[i]!.partition, policy, charges: receipts })
      }
      return decide(charges, answer, exempt)
    })
  })
}

function withoutExempt(
  office: Office,
  request: FastifyRequest,
  shares: readonly Share[]
): { readonly exempt: readonly string[]; readonly shares: readonly Share[] } {
  const exempt = shares.filter(
    ({ policy }) => policy.exempt !== undefined && isExempt(office, request, policy)
  )
  if (exempt.length === 0) return { exempt: NOBODY, shares }
  return {
    exempt: exempt.map(({ policy }) => policy.name),
    shares: shares.filter(share => !exempt.includes(share))
  }
}

const NOBODY: readonly string[] = Object.freeze([])

function isExempt({ faults }: Office, request: FastifyRequest, { name, exempt }: Share['policy']): boolean {
  try {
    const answer = exempt!(request)
    if (typeof answer === 'boolean' || answer === undefined || answer === null) return answer === true
    if (isLater(answer)) answer.then(undefined, () => {}) // nobody waits for it: a rejection must not end the process
    throw new TypeError(`exempt must return true or false, got ${show(answer)}`)
  } catch (error) {
    faults.report(request.log, `exempt of policy "${name}"`, error, 'the request is not exempt')
    return false
  }
}

function chargesOf(
  office: Office,
  request: FastifyRequest,
  { parts }: Visit,
  shares: readonly Share[]
): Later<readonly Charge[]> {
  let waits = false
  const charges = shares.map(share => {
    const units = costOf(office, request, share)
    if (isLater(units)) waits = true
    return { partition: share.policy.rule.resolve(parts), policy: share.policy, units }
  })
  if (!waits) return charges as readonly Charge[]
  return Promise.all(charges.map(async charge => ({ ...charge, units: await charge.units })))
}

function costOf(office: Office, request: FastifyRequest, share: Share): Later<number> {
  if (typeof share.cost === 'number') return share.cost
  const whole = (error: unknown): number => {
    const option = `cost of policy "${share.policy.name}"`
    office.faults.report(request.log, option, error, 'the request costs all the policy can hold')
    return share.policy.capacity
  }
  try {
    const cost = share.cost(request)
    return isLater(cost) ? cost.then(unitsOf).catch(whole) : unitsOf(cost)
  } catch (error) {
    return whole(error)
  }
}

function unitsOf(cost: unknown): number {
  if (isUnits(cost)) return cost
  throw new TypeError(`cost must return an integer of 0 or more, got ${show(cost)}`)
}
