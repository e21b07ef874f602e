import type { FastifyRequest } from 'fastify'
import { decide, undecidable } from './decision.js'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION, FST_QUOTA_POLICY, FST_QUOTA_SUBJECT } from './errors.js'
import type { Leases, WhenAlive } from './leases.js'
import type { Later } from './later.js'
import type { Account, Ledger } from './ledger.js'
import { LARGEST_INTEGER, show, suggestion } from './options.js'
import type { Parts } from './partition.js'
import { isUnits } from './policy-options.js'
import type { QuotaPolicy } from './policy.js'
import { ofPlan } from './pricing.js'
import type { Registry } from './registry.js'
import type { ServiceLimit } from './store.js'
import type { Services } from './visit.js'
import { remember } from './whose.js'

/** Units charged before they are spent. What is never settled keeps its cost. */
export interface Reservation extends Decision {
  /**
   * Corrects the charge to what was spent in the end, once: a surplus is given back as far as that is no gift, a shortfall
   * is charged at once. A refused reservation has nothing to correct.
   * @throws FST_QUOTA_OPTION for units that are no integer of 0 or more, FST_QUOTA_SETTLED the second time.
   */
  settle(actual: number): Promise<void>
  /** Gives the charge back: `settle(0)`. */
  release(): Promise<void>
}

/** Who reserves. */
export interface Reserver {
  readonly parts: Parts
  readonly ledger: Ledger
  /** `undefined`: the subject is written by hand. */
  readonly request: FastifyRequest | undefined
  /** `undefined`: nobody's life ends what is reserved. */
  readonly whenAlive: WhenAlive | undefined
  /** Told what is left after each change. */
  refresh(limits: readonly ServiceLimit[]): void
}

/** Told of each decision. */
export type Published = (decision: Decision, request: FastifyRequest | undefined) => void

/** Charges units ahead of their use. `reserver` knows the identities that the policy counts by. */
export async function reserve(
  services: Services,
  leases: Leases,
  reserver: Reserver,
  policy: QuotaPolicy,
  units: number
): Promise<Reservation> {
  const { ledger } = reserver
  const known = await quotaKnown(services, reserver.request, policy)
  if (known === 'closed') return reservation(reserver, undecidable(known, []), [])
  if (known === 'open') return reservation(reserver, decide([], { limits: [], source: known }, []), [])
  const charges = [{ partition: known.rule.resolve(reserver.parts), policy: known, units }]
  const answer = await services.store.consume(charges)
  const accounts = ledger.open(charges, answer, 'caller')
  leases.hold(ledger, accounts, reserver.whenAlive)
  const decision = remember(decide(charges, answer, []), charges)
  if (decision.outcome === 'allowed') reserver.refresh(decision.limits)
  return reservation(reserver, decision, accounts)
}

/** The reservation of an exempt request: allowed, and nothing is charged. */
export function unlimited(reserver: Reserver, { name }: QuotaPolicy): Reservation {
  return reservation(reserver, decide([], { limits: [], source: 'none' }, [name]), [])
}

/** A plan needs the request to tell its quota. @throws FST_QUOTA_SUBJECT without one. */
export function quotaKnown(
  { faults }: Services,
  request: FastifyRequest | undefined,
  policy: QuotaPolicy
): Later<QuotaPolicy | 'open' | 'closed'> {
  if (policy.quotaOf === undefined) return policy
  if (request !== undefined) return ofPlan(faults, request, policy)
  throw new FST_QUOTA_SUBJECT(
    `the quota of policy "${policy.name}" depends on the request: pass the request as subject`
  )
}

/** @throws FST_QUOTA_POLICY for a name that nobody has defined. */
export function policyNamed({ policies }: Registry, name: string): QuotaPolicy {
  const policy = policies.get(name)
  if (policy !== undefined) return policy
  throw new FST_QUOTA_POLICY(`no policy is named ${show(name)}${suggestion(name, [...policies.keys()])}`)
}

/** @throws FST_QUOTA_OPTION unless they are an integer of 0 or more. */
export function checkUnits(call: string, units: unknown): asserts units is number {
  if (isUnits(units)) return
  throw new FST_QUOTA_OPTION(`${call} must be an integer from 0 to ${LARGEST_INTEGER}, got ${show(units)}`)
}

/** @throws FST_QUOTA_OPTION unless `actual` is 0: a lease is released, not settled. */
export function refuseToSettleLease({ name, algorithm }: QuotaPolicy, actual: number): void {
  if (algorithm.renew === undefined || actual === 0) return
  throw new FST_QUOTA_OPTION(`places of policy "${name}" are released, not settled, got ${actual}`)
}

/** @throws FST_QUOTA_OPTION for a lease that nobody could give back. */
export function refuseLease({ name, algorithm }: QuotaPolicy, done: string): void {
  if (algorithm.renew === undefined) return
  throw new FST_QUOTA_OPTION(
    `policy ${show(name)} counts what runs at once, so its places are reserved, not ${done}`
  )
}

function reservation(reserver: Reserver, decision: Decision, accounts: readonly Account[]): Reservation {
  const settle = async (actual: number): Promise<void> => {
    checkUnits('units of settle', actual)
    for (const { policy } of accounts) refuseToSettleLease(policy, actual)
    reserver.refresh(await reserver.ledger.settle(accounts, actual))
  }
  return { ...decision, settle, release: () => settle(0) }
}
