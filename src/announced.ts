import type { Decision } from './decision.js'
import { capped, closestFirst, windowSeconds } from './fields.js'
import type { Closeness, Rate } from './fields.js'
import type { Jitter } from './jitter.js'
import { isAccompanied } from './plan.js'
import type { QuotaPolicy } from './policy.js'
import type { ServiceLimit } from './store.js'
import type { Whose } from './whose.js'

/** How limits are told; draft-ietf-httpapi-ratelimit-headers-11 leaves it to the server. */
export interface Telling {
  /** All policies, or of each quota unit the one closest to exhaustion (appendix B.1.2). */
  readonly select: 'all' | 'closest'
  /**
   * The most units per second that the fields invite to, by quota unit (§6, §8.5); `'long windows'`: ten times the rate of
   * the quota, for fixed windows of more than a minute that are told without a shorter one of the unit.
   */
  readonly cap: Caps | 'long windows' | false
  /** By how much a wait is lengthened, so that clients do not come back together (§8.5). */
  readonly jitter: Jitter
}

/** Units per second by quota unit. */
export type Caps = Readonly<Record<string, number>>

/** Whose quota a decision is about. */
export interface About {
  readonly whose: Whose
}

/** One policy's limit as a client sees it. */
export interface Announced {
  readonly limit: ServiceLimit
  /** `r`: units, perhaps fewer than there are. */
  readonly available: number
  /** `t` in whole seconds; 0: none. */
  readonly window: number
  /** Milliseconds by which a wait was lengthened. */
  readonly jitter: number
}

/**
 * What a client may see of a decision: on a refusal the policies that refused, else all; never an internal one. The closest
 * to exhaustion comes first, for some clients read no further.
 */
export function announced(telling: Telling, about: About, decision: Decision): readonly Announced[] {
  const limits = visible(decision)
  const shown = telling.select === 'all' ? limits : firstOfEachUnit(limits)
  const told = new Array<Announced>(shown.length)
  for (let i = 0; i < shown.length; i++) told[i] = tell(telling, about, shown[i]!, shown)
  return told
}

/** The limits that a client may see, in the order in which they are told. */
export function visible(decision: Decision): readonly ServiceLimit[] {
  return areInOrder(decision) ? decision.limits : ordered(decision)
}

/** Whether all limits are seen, and in their order. */
function areInOrder({ outcome, limits }: Decision): boolean {
  if (outcome !== 'allowed') return false
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i]!
    if (!limit.policy.advertise || (i > 0 && isCloser(limit, limits[i - 1]!))) return false
  }
  return true
}

function ordered({ outcome, limits }: Decision): readonly ServiceLimit[] {
  const seen: ServiceLimit[] = []
  for (const limit of limits) {
    if (!limit.policy.advertise || (outcome !== 'allowed' && limit.allowed)) continue
    let at = seen.length
    seen.push(limit)
    for (; at > 0 && isCloser(limit, seen[at - 1]!); at--) seen[at] = seen[at - 1]!
    seen[at] = limit
  }
  return seen
}

function tell(
  { jitter: jitterOf, cap }: Telling,
  about: About,
  limit: ServiceLimit,
  shown: readonly ServiceLimit[]
): Announced {
  const { policy, allowed, remaining, effectiveWindow } = limit
  if (!allowed || remaining === 0) {
    const jitter = jitterOf(policy, about.whose)
    return { limit, available: remaining, window: windowSeconds(effectiveWindow, 'wait', jitter), jitter }
  }
  const window = windowSeconds(effectiveWindow, 'window')
  const most = mostOf(cap, policy, shown)
  if (most === undefined) return { limit, available: remaining, window, jitter: 0 }
  // The end of a fixed window is real; of another one, a longer time is as true.
  const adjust = policy.algorithm.name === 'fixed-window' ? 'available' : 'window'
  return { limit, ...capped(remaining, window, most, adjust), jitter: 0 }
}

/** How many times the rate of its quota a long fixed window may invite to. */
const STEEPEST = 10
/** Seconds. */
const LONG = 60

function mostOf(cap: Telling['cap'], policy: QuotaPolicy, shown: readonly ServiceLimit[]): Rate | undefined {
  const { algorithm, announcedWindow, capacity, unit } = policy
  if (cap === false) return undefined
  if (cap !== 'long windows') return Object.hasOwn(cap, unit) ? { units: cap[unit]!, seconds: 1 } : undefined
  if (algorithm.name !== 'fixed-window' || announcedWindow <= LONG) return undefined
  const beside = shown.map(limit => limit.policy)
  return isAccompanied(policy, beside) ? undefined : { units: STEEPEST * capacity, seconds: announcedWindow }
}

function firstOfEachUnit(limits: readonly ServiceLimit[]): readonly ServiceLimit[] {
  return limits.filter(({ policy }, i) => limits.findIndex(other => other.policy.unit === policy.unit) === i)
}

const isCloser = (one: ServiceLimit, other: ServiceLimit): boolean =>
  closestFirst(closeness(one), closeness(other)) < 0

const closeness = ({ policy, remaining }: ServiceLimit): Closeness => ({
  remaining,
  quota: policy.capacity,
  window: policy.announcedWindow
})
