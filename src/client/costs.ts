import { DRAFT_11 } from '../wire-names.js'
import type { Limit } from './limits/limit.js'

/** What a request spends, by unit: integers of 0 or more. */
export type Costs = Readonly<Record<string, number>>

/** What a request costs if nobody says anything else. */
export const ONE_REQUEST: Costs = { [DRAFT_11.defaultUnit]: 1 }

/** Whether a request costs at least as much as another one, of every unit. */
export function costsAsMuch(costs: Costs, other: Costs): boolean {
  return [costs, other].flatMap(Object.keys).every(unit => (costs[unit] ?? 1) >= (other[unit] ?? 1))
}

/** Units that a request spends of a limit. Of a unit that nobody has named it is at least one. */
export function unitsOf(costs: Costs, { unit }: Limit): number {
  return unit === 'concurrent-requests' ? 1 : (costs[unit] ?? 1)
}
