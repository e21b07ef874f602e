import type { Refuse } from './options.js'
import { asObject, asOneOf, knownKeys, show } from './options.js'
import { HOOKS, readCost } from './policy-options.js'
import type { Cost, Hook, PolicyOptions } from './policy-options.js'

/** A policy by name, or a whole one written in place, which registers it for all routes that can name it. */
export type PolicyReference = string | (Omit<PolicyOptions, 'default'> & { readonly name: string })

/** What a route says about its quota, in `config.quota`. */
export type RouteQuota = false | readonly PolicyReference[] | RouteQuotaOptions

export interface RouteQuotaOptions {
  /** Replaces the default policies. */
  readonly policies?: readonly PolicyReference[] | undefined
  /** Adds to the default policies. */
  readonly also?: readonly PolicyReference[] | undefined
  /**
   * What a request costs each policy that counts requests, or by name; wins over the policies' own `cost`, but not over the
   * length of a body.
   */
  readonly cost?: Cost | Readonly<Record<string, Cost>> | undefined
  /** Moves all policies of the route to this hook, so that it stays one decision. */
  readonly hook?: Hook | undefined
}

/** A route's wish after it was checked, its names not yet looked up. */
export interface RouteWish {
  readonly none: boolean
  readonly replaces: boolean
  readonly references: readonly PolicyReference[]
  readonly cost: Cost | Readonly<Record<string, Cost>> | undefined
  readonly hook: Hook | undefined
}

/** What a route wishes that says nothing. */
export const NO_WISH: RouteWish = {
  none: false,
  replaces: false,
  references: [],
  cost: undefined,
  hook: undefined
}

/** @throws by `refuse` for anything that is no {@link RouteQuota}; `undefined` asks for the defaults. */
export function readRouteQuota(refuse: Refuse, written: unknown): RouteWish {
  if (written === undefined) return NO_WISH
  if (written === false) return { ...NO_WISH, none: true }
  if (Array.isArray(written))
    return { ...NO_WISH, replaces: true, references: readReferences(refuse, 'quota', written) }
  if (typeof written !== 'object' || written === null) {
    refuse(
      `quota must be false, a list of policy names such as ['daily'], or { policies, also, cost, hook }, got ${show(written)}`
    )
  }
  const options = asObject(refuse, 'quota', written)
  knownKeys(refuse, options, ['policies', 'also', 'cost', 'hook'], HABITS)
  const { policies, also, cost, hook } = options
  if (policies !== undefined && also !== undefined) {
    refuse('policies replaces the defaults and also adds to them: expected one of the two, got both')
  }
  const option = policies === undefined ? 'also' : 'policies'
  return {
    none: false,
    replaces: policies !== undefined,
    references: options[option] === undefined ? [] : readReferences(refuse, option, options[option]),
    cost: cost === undefined ? undefined : readCosts(refuse, cost),
    hook: hook === undefined ? undefined : asOneOf(refuse, 'hook', hook, HOOKS)
  }
}

const IN_PLACE = 'policies, such as [{ name, quota, window }]'

/** A single policy written where a list of them belongs. */
const HABITS: Readonly<Record<string, string>> = {
  policy: 'policies',
  quota: IN_PLACE,
  window: IN_PLACE,
  max: IN_PLACE,
  limit: IN_PLACE,
  timeWindow: IN_PLACE
}

function readReferences(refuse: Refuse, option: string, written: unknown): readonly PolicyReference[] {
  if (!Array.isArray(written)) return refuse(`${option} must be a list of policy names, got ${show(written)}`)
  if (written.length === 0)
    refuse(`${option} must name at least one policy, got []; for no quota at all write quota: false`)
  // A hole in a list is a mistake like any other: `map` would leave it there.
  return Array.from(written, reference => readReference(refuse, option, reference))
}

const NAMELESS = 'a policy written in place needs a name: { name, quota, window }'

function readReference(refuse: Refuse, option: string, reference: unknown): PolicyReference {
  if (typeof reference === 'string') {
    // No name of a policy has a slash.
    if (reference.includes('/')) refuse(`${NAMELESS}, got ${show(reference)}`)
    return reference
  }
  if (typeof reference !== 'object' || reference === null) {
    refuse(
      `${option} takes names of policies and policies { name, quota, window, … }, got ${show(reference)}`
    )
  }
  const policy = asObject(refuse, `a policy in ${option}`, reference)
  const { name } = policy
  if (typeof name !== 'string') refuse(`${NAMELESS}, got ${show(reference)}`)
  if (policy['default'] !== undefined) {
    refuse(`policy ${show(name)}: default belongs in the plugin's policies, got ${show(policy['default'])}`)
  }
  return policy as unknown as PolicyReference
}

function readCosts(refuse: Refuse, written: unknown): Cost | Readonly<Record<string, Cost>> {
  if (typeof written !== 'object' || written === null || Array.isArray(written))
    return readCost(refuse, 'cost', written)
  const costs = Object.entries(asObject(refuse, 'cost', written))
  return Object.fromEntries(
    costs.map(([name, cost]) => [name, readCost(refuse, `cost of ${show(name)}`, cost)])
  )
}
