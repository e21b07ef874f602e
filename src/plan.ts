import { serializePolicies } from './fields.js'
import type { Refuse } from './options.js'
import { alternatives, show, suggestion } from './options.js'
import { BEFORE_BODY, HOOKS } from './policy-options.js'
import type { Cost, Hook } from './policy-options.js'
import { adviceOnCost } from './policy.js'
import type { QuotaPolicy } from './policy.js'
import type { Scope } from './registry.js'
import type { RouteWish } from './route-quota.js'
import type { ServiceLimit } from './store.js'
import type { Advice } from './warnings.js'

/** All that is decided about a route before its first request. */
export interface Plan {
  readonly policies: readonly QuotaPolicy[]
  /** By the index of their hook in {@link HOOKS}; `undefined` where nothing is decided. */
  readonly stages: readonly (Stage | undefined)[]
  /**
   * The `RateLimit-Policy` of its answers, empty if none of its policies is advertised. Policies whose quota depends on the
   * request are listed with the quota in `limits`.
   */
  readonly policyField: (limits: readonly ServiceLimit[]) => string
  /** The policies that are listed there. */
  readonly listed: (limits: readonly ServiceLimit[]) => readonly QuotaPolicy[]
}

/** What is decided at one hook. */
export interface Stage {
  readonly hook: Hook
  readonly shares: readonly Share[]
  /** What every request is charged, if nothing has to be asked for that: no function of the operator, and no body. */
  readonly constant: readonly ConstantCharge[] | undefined
  /** Indices of the identities its partitions may read. */
  readonly identities: readonly number[]
  /** Whether something is to be done when the response is over: leases to release, charges to refund. */
  readonly ends: boolean
}

/** What a policy charges each request of a route. */
export interface ConstantCharge {
  readonly policy: QuotaPolicy
  readonly units: number
}

/** A policy and what a request of this route costs it. */
export interface Share {
  readonly policy: QuotaPolicy
  readonly cost: Cost
}

/** What is to be said of the constant costs of a route that are more than a policy can ever hold. */
export function adviceOnCosts(route: string, plan: Plan | undefined): readonly Advice[] {
  const shares = plan?.stages.flatMap(stage => stage?.shares ?? []) ?? []
  return shares
    .filter(({ policy, cost }) => cost !== policy.cost)
    .flatMap(({ policy, cost }) => adviceOnCost(route, policy, cost))
}

/**
 * Looks a route's policies up and lays its decisions out.
 * @returns `undefined` for a route without quota.
 * @throws by `refuse` for unknown names, for costs that reach no policy and for a hook too late for one.
 */
export function compilePlan(refuse: Refuse, scope: Scope, wish: RouteWish): Plan | undefined {
  if (wish.none) return undefined
  const named = wish.references.map(reference =>
    typeof reference === 'string' ? scope.find(refuse, reference) : scope.find(refuse, reference.name)
  )
  const policies = wish.replaces ? named : [...scope.defaults(), ...named]
  refuseTwins(refuse, policies)
  if (policies.length === 0) return refuseIdle(refuse, wish)
  const shares = withCosts(refuse, policies, wish.cost)
  refuseLate(refuse, policies, wish.hook)
  return {
    policies,
    stages: HOOKS.map(hook => stageAt(hook, shares, wish.hook)),
    policyField: fieldOf(policies),
    listed: limits => advertised(ofRequest(policies, limits))
  }
}

/** Whether one of the policies `beside` has a shorter window, so that clients do not spend a long one of the unit at once. */
export function isAccompanied(policy: QuotaPolicy, beside: readonly QuotaPolicy[]): boolean {
  return beside.some(
    ({ unit, announcedWindow }) =>
      unit === policy.unit && announcedWindow > 0 && announcedWindow < policy.announcedWindow
  )
}

/** More combinations of quotas than a service has plans are not remembered. */
const REMEMBERED_FIELDS = 1000

/** A constant, unless a policy is a plan; then one string for each combination of quotas. */
function fieldOf(policies: readonly QuotaPolicy[]): Plan['policyField'] {
  if (policies.every(policy => policy.quotaOf === undefined)) {
    const constant = policyField(policies)
    return () => constant
  }
  const known = new Map<string, string>()
  return limits => {
    const listed = ofRequest(policies, limits)
    const quotas = listed.map(({ name, quota }) => `${name} ${quota}`).join()
    const before = known.get(quotas)
    if (before !== undefined) return before
    if (known.size >= REMEMBERED_FIELDS) known.clear()
    const field = policyField(listed)
    known.set(quotas, field)
    return field
  }
}

/** Policies with the quota of a request; a plan that it has not met is none. */
function ofRequest(
  policies: readonly QuotaPolicy[],
  limits: readonly ServiceLimit[]
): readonly QuotaPolicy[] {
  return policies.flatMap(policy => {
    if (policy.quotaOf === undefined) return [policy]
    return limits.find(limit => limit.policy.name === policy.name)?.policy ?? []
  })
}

/** Those that clients are told of. */
export function advertised(policies: readonly QuotaPolicy[]): readonly QuotaPolicy[] {
  return policies.filter(policy => policy.advertise && !policy.shadow)
}

/** The `RateLimit-Policy` that lists these policies: those that are advertised and enforced, in their order. */
export function policyField(policies: readonly QuotaPolicy[]): string {
  return serializePolicies(
    advertised(policies).map(({ name, capacity, unit, announcedWindow }) => ({
      name,
      quota: capacity,
      unit,
      window: announcedWindow === 0 ? undefined : announcedWindow
    }))
  )
}

/** A route with no policies, default or named, has nothing for other options to apply to. */
function refuseIdle(refuse: Refuse, { cost, hook }: RouteWish): undefined {
  if (cost === undefined && hook === undefined) return
  const [option, value] = cost === undefined ? ['hook', hook] : ['cost', cost]
  refuse(
    `${option} applies to no policy: no policy is a default here and the route names none, got ${show(value)}`
  )
}

function refuseTwins(refuse: Refuse, policies: readonly QuotaPolicy[]): void {
  const twin = policies.find((policy, i) => policies.indexOf(policy) !== i)
  if (twin !== undefined) refuse(`policy ${show(twin.name)} is named twice or is a default already`)
}

function withCosts(
  refuse: Refuse,
  policies: readonly QuotaPolicy[],
  cost: RouteWish['cost']
): readonly Share[] {
  if (cost === undefined) return policies.map(policy => ({ policy, cost: policy.cost }))
  if (typeof cost === 'object') {
    const stranger = Object.keys(cost).find(name => policies.every(policy => policy.name !== name))
    if (stranger !== undefined) refuseStranger(refuse, stranger, policies)
    const metered = policies.find(policy => policy.metered && Object.hasOwn(cost, policy.name))
    if (metered !== undefined) {
      refuse(
        `cost of ${show(metered.name)} is the length of the body, which no route changes, got ${show(cost[metered.name])}`
      )
    }
    return policies.map(policy => ({
      policy,
      cost: Object.hasOwn(cost, policy.name) ? cost[policy.name]! : policy.cost
    }))
  }
  if (policies.every(policy => policy.unit !== 'requests')) {
    refuse(
      `cost is for policies that count requests, and this route has none: write { [policy]: cost }, got ${show(cost)}`
    )
  }
  return policies.map(policy => ({ policy, cost: policy.unit === 'requests' ? cost : policy.cost }))
}

function refuseStranger(refuse: Refuse, stranger: string, policies: readonly QuotaPolicy[]): never {
  const names = policies.map(({ name }) => name)
  const hint = suggestion(stranger, names) || `; expected ${names.map(name => show(name)).join(', ')}`
  return refuse(`cost names ${show(stranger)}, which is no policy of this route${hint}`)
}

/** Bodies are counted on their way to the parser. */
function refuseLate(refuse: Refuse, policies: readonly QuotaPolicy[], hook: Hook | undefined): void {
  const metered = policies.find(policy => policy.metered)
  if (metered === undefined || hook === undefined || BEFORE_BODY.includes(hook)) return
  refuse(
    `hook must be ${alternatives(BEFORE_BODY)} for policy ${show(metered.name)}, which counts bodies as they arrive, got ${show(hook)}`
  )
}

const isConstant = (share: Share): share is Share & { readonly cost: number } =>
  typeof share.cost === 'number' &&
  share.policy.quotaOf === undefined &&
  share.policy.exempt === undefined &&
  !share.policy.metered

function stageAt(hook: Hook, shares: readonly Share[], moved: Hook | undefined): Stage | undefined {
  const here = shares.filter(({ policy }) => (moved ?? policy.hook) === hook)
  if (here.length === 0) return undefined
  return {
    hook,
    shares: here,
    constant: here.every(isConstant) ? here.map(({ policy, cost: units }) => ({ policy, units })) : undefined,
    identities: [...new Set(here.flatMap(({ policy }) => policy.rule.identities))],
    ends: here.some(({ policy }) => policy.refund !== undefined || policy.algorithm.renew !== undefined)
  }
}
