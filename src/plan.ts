import { serializePolicies } from './fields.js'
import type { Refuse } from './options.js'
import { show } from './options.js'
import { HOOKS } from './policy.js'
import type { Cost, Hook, QuotaPolicy } from './policy.js'
import type { Scope } from './registry.js'
import type { RouteWish } from './route-quota.js'

/** All that is decided about a route before its first request. */
export interface Plan {
  /** The route as a person writes it, such as `GET /items/:id`. */
  readonly route: string
  readonly policies: readonly QuotaPolicy[]
  /** By the index of their hook in {@link HOOKS}; `undefined` where nothing is decided. */
  readonly stages: readonly (Stage | undefined)[]
  /** The `RateLimit-Policy` of all its answers; empty if none of its policies is advertised. */
  readonly policyField: string
}

/** What is decided at one hook. */
export interface Stage {
  readonly hook: Hook
  readonly shares: readonly Share[]
  /** Indices of the identities its partitions may read. */
  readonly identities: readonly number[]
}

/** A policy and what a request of this route costs it. */
export interface Share {
  readonly policy: QuotaPolicy
  readonly cost: Cost
}

/**
 * Looks a route's policies up and lays its decisions out.
 * @returns `undefined` for a route without quota.
 * @throws by `refuse` for unknown names and for costs that reach no policy.
 */
export function compilePlan(refuse: Refuse, scope: Scope, route: string, wish: RouteWish): Plan | undefined {
  if (wish.none) return undefined
  const named = wish.references.map(reference =>
    typeof reference === 'string' ? scope.find(refuse, reference) : scope.find(refuse, reference.name)
  )
  const policies = wish.replaces ? named : [...scope.defaults(), ...named]
  refuseTwins(refuse, policies)
  if (policies.length === 0) return refuseIdle(refuse, wish)
  const shares = withCosts(refuse, policies, wish.cost)
  return {
    route,
    policies,
    stages: HOOKS.map(hook => stageAt(hook, shares, wish.hook)),
    policyField: policyField(policies)
  }
}

/** The `RateLimit-Policy` that lists these policies: those that are advertised and enforced, in their order. */
export function policyField(policies: readonly QuotaPolicy[]): string {
  return serializePolicies(
    policies
      .filter(policy => policy.advertise && !policy.shadow)
      .map(({ name, capacity, unit, announcedWindow }) => ({
        name,
        quota: capacity,
        unit,
        window: announcedWindow
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
    if (stranger !== undefined) refuse(`cost names ${show(stranger)}, which is no policy of this route`)
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

function stageAt(hook: Hook, shares: readonly Share[], moved: Hook | undefined): Stage | undefined {
  const here = shares.filter(({ policy }) => (moved ?? policy.hook) === hook)
  if (here.length === 0) return undefined
  const identities = [...new Set(here.flatMap(({ policy }) => policy.rule.identities))]
  return { hook, shares: here, identities }
}
