import type { Decision } from './decision.js'
import type { QuotaPolicy } from './policy.js'
import type { Place } from './store.js'

/** Tells the partition in which a policy has counted somebody; `undefined`: nobody knows. */
export type Whose = (policy: QuotaPolicy) => string | undefined

/** A decision holds no partition, for it is shown to others. */
const known = new WeakMap<Decision['limits'], readonly Place[]>()

/** Remembers whose quota a decision is about: one that is made outside the hooks may be about anybody. */
export function remember(decision: Decision, places: readonly Place[]): Decision {
  known.set(decision.limits, places)
  return decision
}

/** Whose quota a decision is about, be it a copy; nobody's, if it was not made here. */
export function whoseIn({ limits }: Pick<Decision, 'limits'>): Whose {
  return whoseAt(known.get(limits) ?? [])
}

/** Whose quota is counted at these places. */
export function whoseAt(places: readonly Place[]): Whose {
  return policy => places.find(place => place.policy.name === policy.name)?.partition
}
