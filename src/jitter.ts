import { createHash } from 'node:crypto'
import type { QuotaPolicy } from './policy.js'
import type { Whose } from './whose.js'

/** Milliseconds by which a wait of somebody for a policy is lengthened. */
export type Jitter = (policy: QuotaPolicy, whose: Whose) => number

/**
 * Spreads clients that have to wait for the same moment over up to `most` milliseconds after it, each by always the same:
 * one that asks again would see its wait jump otherwise.
 */
export function createJitter(most: number): Jitter {
  if (most === 0) return () => 0
  return (policy, whose) => {
    const partition = whose(policy)
    if (partition === undefined) return 0
    const digest = createHash('sha256').update(`${policy.name} ${partition}`).digest()
    return digest.readUInt32BE() % (most + 1)
  }
}
