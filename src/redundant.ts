import type { Plan, Share } from './plan.js'

/** Two policies of a route of which one never refuses. */
export interface Redundant {
  /** The one with the larger quota. */
  readonly policy: string
  /** The one that is used up first. */
  readonly behind: string
}

/**
 * Policies that count the same as another one of their route, by the same rules, and have a larger quota: what the smaller one
 * admits, they admit.
 */
export function redundant(plan: Plan): readonly Redundant[] {
  return plan.stages.flatMap(stage => {
    const shares = stage?.shares ?? []
    return shares.flatMap(larger => {
      const smaller = shares.find(share => isSmaller(share, larger) && countsTheSame(share, larger))
      return smaller === undefined ? [] : [{ policy: larger.policy.name, behind: smaller.policy.name }]
    })
  })
}

const isSmaller = ({ policy: one }: Share, { policy: other }: Share): boolean =>
  one.quota < other.quota && one.capacity <= other.capacity

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
