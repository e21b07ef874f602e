import type { Receipt, Step } from './algorithm.js'
import type { Later } from './later.js'
import type { QuotaPolicy } from './policy.js'

/** One policy's part in a decision. */
export interface Charge {
  /** Whose quota it is: a string of `partition.ts`, never shown to anybody. */
  readonly partition: string
  readonly policy: QuotaPolicy
  /** An integer of 0 or more. */
  readonly units: number
}

/** A charge made earlier, and what it turned out to be. */
export interface Settlement {
  readonly partition: string
  readonly policy: QuotaPolicy
  readonly charges: readonly Receipt[]
  /** Units used in the end; 0 gives the charge back. */
  readonly actual: number
}

/** One policy's answer: what it decided, what is left, and the receipts of what it was charged. */
export interface ServiceLimit extends Omit<Step, 'state' | 'ttl'> {
  readonly policy: QuotaPolicy
  /** Units that were asked for; 0 for a peek. */
  readonly units: number
  /** Of what was charged in this call; empty if nothing was. */
  readonly charges: readonly Receipt[]
}

/** Who decided. `none`: nobody had to. */
export type Source = 'memory' | 'redis' | 'local' | 'open' | 'closed' | 'none'

/** The limits of all charges, in their order. */
export interface Answer {
  readonly limits: readonly ServiceLimit[]
  readonly source: Source
}

/**
 * Where quota is counted. A store decides all charges of a call together: all are made or none. A shadow policy takes no
 * part in that: it is charged if the call is admitted and it has room itself.
 *
 * A store that answers at once returns the answer itself; one that has to ask somebody returns a promise that never
 * rejects for an outage.
 */
export interface Store {
  consume(charges: readonly Charge[]): Later<Answer>
  /** Corrects charges made earlier and answers what is left, with the receipts of what it charged for that. */
  settle(settlements: readonly Settlement[]): Later<Answer>
  /** Prolongs leases and answers their new receipts. A lease that has ended has none. */
  renew(leases: readonly Omit<Settlement, 'actual'>[]): Later<readonly (readonly Receipt[])[]>
  /** What `consume` would find, for no units; changes nothing. */
  peek(charges: readonly Omit<Charge, 'units'>[]): Later<Answer>
  /** Forgets what these policies have counted for these partitions. */
  reset(charges: readonly Omit<Charge, 'units'>[]): Later<void>
  /** Told by each app that begins to use it. */
  open?(): void
  /** Told by each app that ends: releases timers and connections of the store's own after the last. */
  close(): Later<void>
}
