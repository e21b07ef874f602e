import { AsyncResource } from 'node:async_hooks'
import type { FastifyReply } from 'fastify'
import type { Receipt } from './algorithm.js'
import type { Ending } from './ending.js'
import { attempt, isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import { follow, total } from './ledger.js'
import type { Account, Ledger } from './ledger.js'
import type { QuotaPolicy } from './policy.js'
import type { Store } from './store.js'

/** The request that leases are held for: they are released when it is over. */
export interface Life {
  readonly ending: Ending
  readonly reply: FastifyReply
}

/** Tells of the request's life: now, or when it is known. */
export type WhenAlive = (told: (life: Life) => void) => void

interface Hold {
  readonly ledger: Ledger
  readonly accounts: readonly Account[]
  /** When the longest hold is over, in milliseconds of `performance.now()`. */
  readonly until: number
  /** `undefined`: held until it is settled. */
  life: Life | undefined
}

/** How often a lease is renewed before it would end. */
const RENEWALS = 3

/**
 * The leases that this process holds: renewed while their request lives, released when it is over. One timer for all, made
 * in the async context of boot, whichever request defines the policy.
 */
export class Leases {
  readonly #store: Store
  readonly #report: (error: unknown) => void
  readonly #boot = new AsyncResource('fastify-quota.leases')
  readonly #policies = new Set<string>()
  readonly #holds = new Set<Hold>()
  #timer: NodeJS.Timeout | undefined
  #every = Infinity

  /** `report` is told what the store throws: nobody else is there to be told. */
  constructor(store: Store, report: (error: unknown) => void) {
    this.#store = store
    this.#report = report
  }

  /** Sees to it that the leases of a policy will be renewed in time. */
  expect({ name, holdFor, maxHold }: QuotaPolicy): void {
    this.#policies.add(name)
    const every = Math.max(1, Math.floor(Math.min(holdFor, maxHold) / RENEWALS))
    if (every >= this.#every) return
    this.close()
    this.#every = every
    this.#timer = this.#boot.runInAsyncScope(() => setInterval(() => this.#tend(), every).unref())
  }

  /** Holds those of the accounts that are leases. Those of a request that is over already are released at once. */
  hold(ledger: Ledger, accounts: readonly Account[], whenAlive: WhenAlive | undefined): void {
    const leases = accounts.filter(
      ({ policy, held, charges }) => policy.algorithm.renew !== undefined && held === 0 && charges.length > 0
    )
    if (leases.length === 0) return
    for (const account of leases) account.held = total(account.charges)
    const longest = Math.min(...leases.map(({ policy }) => policy.maxHold))
    const hold: Hold = { ledger, accounts: leases, until: performance.now() + longest, life: undefined }
    this.#holds.add(hold)
    whenAlive?.(life => {
      hold.life = life
      life.ending.await(() => this.#release(hold))
    })
  }

  /** Units that are held, by policy. */
  get held(): Readonly<Record<string, number>> {
    const held = new Map([...this.#policies].map(name => [name, 0]))
    for (const { accounts } of this.#holds) {
      for (const { policy, closed, charges } of accounts) {
        if (closed === false) held.set(policy.name, held.get(policy.name)! + total(charges))
      }
    }
    return Object.fromEntries(held)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #tend(): void {
    const now = performance.now()
    for (const hold of this.#holds) {
      hold.life?.ending.check()
      const open = hold.accounts.filter(({ closed }) => closed === false)
      if (open.length === 0 || now >= hold.until) this.#end(hold, open)
    }
    // Only now: the end of one request may be that of others on its connection.
    const due = [...this.#holds].flatMap(({ accounts }) =>
      accounts.filter(({ closed, pending }) => closed === false && pending === undefined)
    )
    if (due.length > 0) attempt(() => this.#renew(due), this.#report)
  }

  #end(hold: Hold, open: readonly Account[]): void {
    if (open.length > 0) hold.life?.reply.raw.destroy()
    this.#release(hold)
  }

  #release(hold: Hold): void {
    this.#holds.delete(hold)
    attempt(() => hold.ledger.release(hold.accounts), this.#report)
  }

  /** Renews leases, all in one call. */
  #renew(accounts: readonly Account[]): Later<void> {
    const renewed = whenKnown(this.#store.renew(accounts), receipts => this.#take(accounts, receipts))
    if (isLater(renewed)) for (const account of accounts) follow(account, renewed)
    return renewed
  }

  /** What has ended before it was renewed, because this process stood still, is taken again: its request lives. */
  #take(accounts: readonly Account[], renewed: readonly (readonly Receipt[])[]): Later<void> {
    const waiting = accounts.flatMap((account, i) => {
      account.charges = [...renewed[i]!]
      const taken = this.#takeAgain(account)
      return isLater(taken) ? [taken] : []
    })
    if (waiting.length > 0) return Promise.all(waiting).then(() => {})
  }

  #takeAgain({ partition, policy, held, charges }: Account): Later<void> {
    const actual = held - total(charges)
    if (actual <= 0) return
    const taken = this.#store.settle([{ partition, policy, charges: [], actual }])
    return whenKnown(taken, ({ limits }) => void charges.push(...limits.flatMap(limit => limit.charges)))
  }
}
