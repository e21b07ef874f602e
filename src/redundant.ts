import type { Plan, Share } from './plan.js'

/** Two policies of which one never refuses. */
export interface Redundant {
  readonly policy: string
  /** The one that is used up first. */
  readonly behind: string
}

/**
 * Policies with another one beside them on each route that they are on, which counts the same by the same rules and has no more:
 * it has counted at least as much when they would refuse. Of two that have the same, the first is used up first.
 */
export function redundant(plans: readonly Plan[]): readonly Redundant[] {
  const ahead = new Map<string, readonly string[]>()
  for (const { shares } of plans.flatMap(({ stages }) => stages.filter(stage => stage !== undefined))) {
    for (const share of shares) {
      const { name } = share.policy
      const here = shares.filter(other => isAhead(other, share, shares)).map(({ policy }) => policy.name)
      ahead.set(name, ahead.get(name)?.filter(other => here.includes(other)) ?? here)
    }
  }
  return [...ahead].flatMap(([policy, [behind]]) => (behind === undefined ? [] : [{ policy, behind }]))
}

/** A default policy also counts requests that match no route. */
function isAhead(one: Share, other: Share, shares: readonly Share[]): boolean {
  const [a, b] = [one.policy, other.policy]
  if (one === other || a.quota > b.quota || a.capacity > b.capacity || (b.default && !a.default)) return false
  const isLess = a.quota < b.quota || a.capacity < b.capacity
  return (isLess || shares.indexOf(one) < shares.indexOf(other)) && countsTheSame(one, other)
}

/** Options that change how units are counted, or who is. Partition, algorithm and window are compared as they were read. */
const OF_COUNTING = [
  'precision',
  'align',
  'maxDelay',
  'holdFor',
  'maxHold',
  'exempt',
  'refund',
  'batch'
] as const

function countsTheSame(one: Share, other: Share): boolean {
  const [a, b] = [one.policy, other.policy]
  const own = a.written as Readonly<Record<string, unknown>>
  const others = b.written as Readonly<Record<string, unknown>>
  return (
    [a, b].every(({ shadow, quotaOf }) => !shadow && quotaOf === undefined) &&
    one.cost === other.cost &&
    a.metered === b.metered &&
    a.unit === b.unit &&
    a.rule.label === b.rule.label &&
    a.field.slice(a.name.length) === b.field.slice(b.name.length) &&
    a.onStoreFailure === b.onStoreFailure &&
    OF_COUNTING.every(option => own[option] === others[option])
  )
}
