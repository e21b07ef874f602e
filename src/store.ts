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

/** Where a policy counts somebody. */
export type Place = Omit<Charge, 'units'>

/** A charge made earlier that ends unless it is renewed. */
export interface Lease extends Place {
  readonly charges: readonly Receipt[]
}

/** A charge made earlier, and what it turned out to be. */
export interface Settlement extends Lease {
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

/**
 * Who decided: a store; or, while a store cannot answer, this process (`local`) or nobody, so that the request passed
 * (`open`) or was refused (`closed`). `none`: nobody had to.
 */
export type Source = 'memory' | 'redis' | 'local' | 'open' | 'closed' | 'none'

/** What a store found. */
export interface Answer {
  /** The limits of the charges, in their order; those that nobody could decide are left out. */
  readonly limits: readonly ServiceLimit[]
  readonly source: Source
  /** Of `closed`: milliseconds until the store is tried again. */
  readonly retryAfter?: number
}

/**
 * Where quota is counted. A store decides all charges of a call together: all are made or none. A shadow policy takes no
 * part in that: it is charged if the call is admitted and it has room itself.
 *
 * A store that answers at once returns the answer itself; one that has to ask somebody returns a promise that never
 * rejects for an outage: it then answers as `onStoreFailure` of the policies says.
 */
export interface Store {
  consume(charges: readonly Charge[]): Later<Answer>
  /** Corrects charges made earlier and answers what is left, with the receipts of what it charged for that. */
  settle(settlements: readonly Settlement[]): Later<Answer>
  /** Prolongs leases and answers their new receipts. A lease that has ended has none. */
  renew(leases: readonly Lease[]): Later<readonly (readonly Receipt[])[]>
  /** What `consume` would find, for no units; changes nothing. */
  peek(places: readonly Place[]): Later<Answer>
  /** Forgets what these policies have counted for these partitions. */
  reset(places: readonly Place[]): Later<void>
  /** A digest of a text that tells nothing about it, the same wherever the quota is shared: 16 bytes. */
  label?(text: string): Uint8Array
  /** Told of each policy while the app starts; answers why it cannot count it, if it cannot. */
  expect?(policy: QuotaPolicy): string | undefined
  /** Told by each app that begins to use it; what it returns is waited for. */
  open?(): Later<void>
  /** Told by each app that ends: releases timers and connections of the store's own after the last. */
  close(): Later<void>
  /** What a log calls it: `memory`, `redis`. */
  readonly name?: string
  /** Whether a server does not answer, so that it is left alone. */
  readonly down?: boolean
  /** What it holds in the memory of this process. */
  readonly use?: MemoryUse
}

/** How full the memory is that a store counts in. */
export interface MemoryUse {
  /** Partitions held. */
  readonly partitions: number
  /** Bytes that they take, estimated. */
  readonly bytes: number
  /** Partitions that were forgotten before they had expired, since the store was made. */
  readonly evicted: number
  /** Calls of newcomers that found no room and were counted together. */
  readonly shared: number
}

/** The diagnostics channel on which decisions are told. */
export const DECISION_CHANNEL = 'fastify-quota:decision'

/** The diagnostics channel on which is told what charges turned out to be. */
export const SETTLEMENT_CHANNEL = 'fastify-quota:settlement'

/** What is told on {@link SETTLEMENT_CHANNEL}: that what was charged is corrected to what was used. */
export interface Settled {
  readonly store: Store
  readonly policy: QuotaPolicy
  /** Units. */
  readonly charged: number
  readonly actual: number
}

/** The diagnostics channel on which stores that ask a server tell of each call. */
export const CALL_CHANNEL = 'fastify-quota:call'

/** What a store tells on {@link CALL_CHANNEL}. */
export interface StoreCall {
  readonly store: Store
  /** What was asked: `charge`, `try`, `settle`, `renew`, `reset` or `probe`. */
  readonly operation: string
  /** `OK`; else why there is no answer, as in {@link StoreChange}, or `DOWN`, `SHED`, `FENCED`, `CLOSED`. */
  readonly code: string
  /** Milliseconds to the answer, or until nobody waited for it any more; `undefined`: nothing was sent. */
  readonly took: number | undefined
}

/** The diagnostics channel on which stores tell of themselves. */
export const STORE_CHANNEL = 'fastify-quota:store'

/** What a store tells on {@link STORE_CHANNEL}. */
export interface StoreChange {
  readonly store: Store
  /**
   * `down`: it cannot answer, and is tried again in the background; `up`: it can again; `fault`: it refuses to, for a
   * mistake that waiting does not mend.
   */
  readonly state: 'up' | 'down' | 'fault'
  /** Why: Redis' own word, such as `READONLY`, a code of the system, such as `ECONNREFUSED`, or `TIMEOUT`. */
  readonly code: string
  /** The node of a cluster; `undefined` where there is but one. */
  readonly node: string | undefined
}
