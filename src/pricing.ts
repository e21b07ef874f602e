import type { FastifyRequest } from 'fastify'
import { isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import type { OperatorFaults } from './operator.js'
import { LARGEST_INTEGER, show } from './options.js'
import type { Parts } from './partition.js'
import type { ConstantCharge, Share } from './plan.js'
import { isUnits } from './policy-options.js'
import type { QuotaPolicy } from './policy.js'
import type { Charge, Place } from './store.js'

/** What a request is to be charged. */
export interface Bill {
  readonly charges: readonly Charge[]
  /** Names of the policies that the request is exempt from. */
  readonly exempt: readonly string[]
  /** Policies whose quota could not be told: skipped by one that fails open, refused by any other. */
  readonly failed: 'open' | 'closed' | undefined
  /** Places that count the body as it arrives, for its length is not known. */
  readonly metered: readonly Place[]
}

/** The charges of a request whose costs are known since boot. */
export function constantCharges(parts: Parts, constant: readonly ConstantCharge[]): readonly Charge[] {
  const charges = new Array<Charge>(constant.length)
  for (let i = 0; i < constant.length; i++) {
    const { policy, units } = constant[i]!
    charges[i] = { partition: policy.rule.resolve(parts), policy, units }
  }
  return charges
}

/** Makes the bill of a request: a promise only if a function of the operator returns one. */
export function price(
  faults: OperatorFaults,
  request: FastifyRequest,
  parts: Parts,
  shares: readonly Share[]
): Later<Bill> {
  const exempt: string[] = []
  const items: Later<Item>[] = []
  for (const share of shares) {
    if (share.policy.exempt !== undefined && isExempt(faults, request, share.policy))
      exempt.push(share.policy.name)
    else items.push(priced(faults, request, parts, share))
  }
  if (items.some(isLater))
    return Promise.all(items.map(async item => item)).then(known => bill(known, exempt))
  return bill(items as readonly Item[], exempt)
}

/**
 * The policy with the quota that a request has, if the policy is a plan. What its function does wrong is answered as the
 * policy answers a store that fails, by default closed; a shadow policy refuses nothing.
 */
export function ofPlan(
  faults: OperatorFaults,
  request: FastifyRequest,
  policy: QuotaPolicy
): Later<QuotaPolicy | 'open' | 'closed'> {
  if (policy.quotaOf === undefined) return policy
  const failed = (error: unknown): 'open' | 'closed' => {
    const mode = policy.shadow || policy.onStoreFailure === 'open' ? 'open' : 'closed'
    const consequence = mode === 'open' ? 'the request passes without it' : 'the request is refused'
    faults.report(request.log, `quota of policy "${policy.name}"`, error, consequence)
    return mode
  }
  try {
    const quota = policy.quotaOf(request)
    return isLater(quota)
      ? Promise.resolve(quota).then(policy.withQuota).catch(failed)
      : policy.withQuota(quota)
  } catch (error) {
    return failed(error)
  }
}

/** What a policy charges; `untried`: nothing, for it is a trial whose quota nobody can tell, and no doubt about the others. */
type Item = (Charge & { readonly metered: boolean }) | 'open' | 'closed' | 'untried'

function bill(items: readonly Item[], exempt: readonly string[]): Bill {
  const charges = items.filter(item => typeof item !== 'string')
  return {
    charges,
    exempt,
    failed: items.includes('closed') ? 'closed' : items.includes('open') ? 'open' : undefined,
    metered: charges.filter(({ metered }) => metered)
  }
}

function priced(faults: OperatorFaults, request: FastifyRequest, parts: Parts, share: Share): Later<Item> {
  const { policy, cost } = share
  return whenKnown(ofPlan(faults, request, policy), known => {
    if (typeof known === 'string') return policy.shadow ? 'untried' : known
    const partition = known.rule.resolve(parts)
    const length = known.metered ? bodyLength(request) : undefined
    if (known.metered) return { partition, policy: known, units: length ?? 0, metered: length === undefined }
    return whenKnown(costOf(faults, request, known, cost), units => ({
      partition,
      policy: known,
      units,
      metered: false
    }))
  })
}

/** Bytes of a request's body as it is sent; `undefined`: they have to be counted as they arrive. */
function bodyLength({ headers, raw }: FastifyRequest): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return undefined
  const length = headers['content-length']
  if (length === undefined) return raw.httpVersionMajor === 1 ? 0 : undefined
  return /^\d+$/.test(length) ? Math.min(Number(length), LARGEST_INTEGER) : undefined
}

/** The mistake that is made most with a `cost`. */
const NO_BODY_YET = "; its body is not read yet: if the cost is read from it, it needs hook: 'preHandler'"

function costOf(
  faults: OperatorFaults,
  request: FastifyRequest,
  policy: QuotaPolicy,
  cost: Share['cost']
): Later<number> {
  if (typeof cost === 'number') return cost
  const whole = (error: unknown): number => {
    const early = request.body === undefined && bodyLength(request) !== 0
    const consequence = `the request costs all the policy can hold${early ? NO_BODY_YET : ''}`
    faults.report(request.log, `cost of policy "${policy.name}"`, error, consequence)
    return policy.capacity
  }
  try {
    const units = cost(request)
    return isLater(units) ? Promise.resolve(units).then(unitsOf).catch(whole) : unitsOf(units)
  } catch (error) {
    return whole(error)
  }
}

function unitsOf(cost: unknown): number {
  if (isUnits(cost)) return cost
  throw new TypeError(`cost must return an integer of 0 or more, got ${show(cost)}`)
}

/** Whether a policy exempts a request; what its function does wrong exempts nobody. */
export function isExempt(
  faults: OperatorFaults,
  request: FastifyRequest,
  { name, exempt }: QuotaPolicy
): boolean {
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
