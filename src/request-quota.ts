import type { FastifyRequest } from 'fastify'
import type { Decision } from './decision.js'
import { isLater } from './later.js'
import type { Leases, WhenAlive } from './leases.js'
import type { QuotaPolicy } from './policy.js'
import { isExempt } from './pricing.js'
import { awaitRefunds } from './refunds.js'
import {
  checkUnits,
  policyNamed,
  quotaKnown,
  refuseLease,
  refuseToSettleLease,
  reserve,
  unlimited
} from './reserving.js'
import type { Published, Reservation, Reserver } from './reserving.js'
import type { Services, Visit } from './visit.js'

/** `request.quota`: what was decided about the request so far, and what may still be corrected. */
export interface RequestQuota extends Decision {
  /**
   * Charges units before they are spent, to be settled after. A refusal charges nothing; answer it with `reply.refuse`. A
   * request that is exempt from the policy is charged nothing and allowed.
   * @throws FST_QUOTA_POLICY for an unknown policy, FST_QUOTA_OPTION for units that are no integer of 0 or more.
   */
  reserve(policy: string, units: number): Promise<Reservation>
  /**
   * Charges units that are spent already, beyond the quota if need be: upwards, while a stream goes on. A request that is
   * exempt from the policy is charged nothing.
   * @throws as `reserve`, FST_QUOTA_SETTLED after `settle`, and FST_QUOTA_OPTION for a policy of `concurrency`.
   */
  spend(policy: string, units: number): Promise<void>
  /**
   * Corrects all that a policy has charged the request to what it used in the end, once. A request that the policy has
   * refused, or that is exempt from it, has nothing to correct.
   * @throws as `reserve`, and FST_QUOTA_SETTLED the second time.
   */
  settle(policy: string, actual: number): Promise<void>
  /** Gives back all that a policy has charged the request, as far as that is no gift: `settle(policy, 0)`. */
  release(policy: string): Promise<void>
}

/** One request's {@link RequestQuota}. */
export class RequestView implements RequestQuota {
  readonly #services: Services
  readonly #leases: Leases
  readonly #request: FastifyRequest
  readonly #visit: Visit
  readonly #reserver: Reserver
  readonly #published: Published

  constructor(
    services: Services,
    leases: Leases,
    request: FastifyRequest,
    visit: Visit,
    published: Published
  ) {
    this.#services = services
    this.#leases = leases
    this.#request = request
    this.#visit = visit
    this.#published = published
    const { parts, ledger } = visit
    const whenAlive: WhenAlive = told => visit.whenAlive(told)
    this.#reserver = { parts, ledger, request, whenAlive, refresh: limits => visit.refresh(limits) }
  }

  get outcome(): Decision['outcome'] {
    return this.#visit.decision.outcome
  }

  get limits(): Decision['limits'] {
    return this.#visit.decision.limits
  }

  get exempt(): Decision['exempt'] {
    return this.#visit.decision.exempt
  }

  get shadow(): Decision['shadow'] {
    return this.#visit.decision.shadow
  }

  get source(): Decision['source'] {
    return this.#visit.decision.source
  }

  /** As a plain decision. */
  toJSON(): Decision {
    return this.#visit.decision
  }

  async reserve(name: string, units: number): Promise<Reservation> {
    checkUnits('units of reserve', units)
    const policy = this.#policy(name)
    await this.#visit.parts.identify(policy.rule.identities)
    const reservation = this.#isExempt(policy)
      ? unlimited(this.#reserver, policy)
      : await reserve(this.#services, this.#leases, this.#reserver, policy, units)
    this.#awaitRefund(policy)
    this.#published(reservation, this.#request)
    return reservation
  }

  /** Charges in this turn of the event loop where it can, so that a `settle` after it counts it. */
  async spend(name: string, units: number): Promise<void> {
    checkUnits('units of spend', units)
    const { parts, ledger } = this.#visit
    const policy = this.#policy(name)
    refuseLease(policy, 'spent')
    const waiting = parts.identify(policy.rule.identities)
    if (waiting !== undefined) await waiting
    if (this.#isExempt(policy)) return
    const quota = quotaKnown(this.#services, this.#request, policy)
    const known = isLater(quota) ? await quota : quota
    if (typeof known === 'string') return
    this.#awaitRefund(policy)
    this.#visit.refresh(await ledger.spend(known.rule.resolve(parts), known, units))
  }

  async settle(name: string, actual: number): Promise<void> {
    checkUnits('units of settle', actual)
    const { ledger } = this.#visit
    const policy = this.#policy(name)
    refuseToSettleLease(policy, actual)
    this.#visit.refresh(await ledger.settle(ledger.of(policy), actual))
  }

  async release(name: string): Promise<void> {
    await this.settle(name, 0)
  }

  /** A policy as the request has met it, whatever it has become for others meanwhile. */
  #policy(name: string): QuotaPolicy {
    const { plan, ledger } = this.#visit
    return (
      plan?.policies.find(policy => policy.name === name) ??
      ledger.accounts.find(({ policy }) => policy.name === name)?.policy ??
      policyNamed(this.#services.registry, name)
    )
  }

  /** A policy of the route was asked when it was decided; another one is asked now. */
  #isExempt(policy: QuotaPolicy): boolean {
    if (this.exempt.includes(policy.name)) return true
    const decided = this.limits.some(limit => limit.policy.name === policy.name)
    return !decided && policy.exempt !== undefined && isExempt(this.#services.faults, this.#request, policy)
  }

  #awaitRefund(policy: QuotaPolicy): void {
    if (policy.refund !== undefined) awaitRefunds(this.#services.faults, this.#request, this.#visit)
  }
}
