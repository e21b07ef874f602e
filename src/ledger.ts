import { channel } from 'node:diagnostics_channel'
import type { Receipt } from './algorithm.js'
import { FST_QUOTA_SETTLED } from './errors.js'
import { isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import type { QuotaPolicy } from './policy.js'
import { SETTLEMENT_CHANNEL } from './store.js'
import type { Answer, Charge, ServiceLimit, Settled, Settlement, Store } from './store.js'

/** What was charged to one policy and may still be corrected. */
export interface Account {
  readonly partition: string
  readonly policy: QuotaPolicy
  charges: Receipt[]
  /** What is under way and will change the receipts. */
  pending: Promise<unknown> | undefined
  /** Whether the last word was said: by the caller, who has settled it, or by the plugin, which has given it back. */
  closed: false | 'settled' | 'given back'
  /** Who charged it: the decision of a stage, or code that has reserved or spent. */
  readonly by: 'stage' | 'caller'
  /** Units that are renewed until they are released; 0: nobody sees to that. */
  held: number
  /** Whether its refund was asked for. */
  asked: boolean
}

/** What a stage has charged, and what was charged before it. */
interface Entry {
  readonly charges: readonly Charge[]
  readonly answer: Answer
  readonly before: Entry | undefined
}

const settled = channel(SETTLEMENT_CHANNEL)

/** What one request was charged. An account that nobody settles keeps its cost. */
export class Ledger {
  #accounts: Account[] | undefined
  /** Charges of stages whose accounts nobody has asked for yet: of most requests, nobody ever does. */
  #entered: Entry | undefined
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Whether nothing was ever charged. */
  get isEmpty(): boolean {
    return this.#entered === undefined && this.#accounts === undefined
  }

  get accounts(): readonly Account[] {
    return this.#opened()
  }

  /** Remembers what a stage has charged. */
  enter(charges: readonly Charge[], answer: Answer): void {
    this.#entered = { charges, answer, before: this.#entered }
  }

  /** Opens an account for each charge that was admitted, be it of no units, and returns them. */
  open(charges: readonly Charge[], answer: Answer, by: Account['by']): readonly Account[] {
    const opened = accountsOf(charges, answer, by)
    this.#opened().push(...opened)
    return opened
  }

  /** All accounts, those of stages in their order. */
  #opened(): Account[] {
    const accounts = (this.#accounts ??= [])
    const added: Account[][] = []
    for (let entry = this.#entered; entry !== undefined; entry = entry.before) {
      added.unshift(accountsOf(entry.charges, entry.answer, 'stage'))
    }
    this.#entered = undefined
    accounts.push(...added.flat())
    return accounts
  }

  /** Adds further charges to the accounts of their policies: a body may be charged many times. */
  extend({ limits }: Answer): void {
    for (const { policy, charges } of limits) {
      this.of(policy)
        .find(({ closed }) => !closed)
        ?.charges.push(...charges)
    }
  }

  /** The accounts of a policy. */
  of(policy: QuotaPolicy): readonly Account[] {
    return this.accounts.filter(account => account.policy.field === policy.field)
  }

  /**
   * Charges units whatever the quota says, for what is spent already.
   * @throws FST_QUOTA_SETTLED if the policy's accounts are closed.
   */
  spend(partition: string, policy: QuotaPolicy, units: number): Later<readonly ServiceLimit[]> {
    const account = this.#openOf(partition, policy)
    const spent = whenKnown(
      this.#settle([{ partition, policy, charges: [], actual: units }]),
      ({ limits }) => {
        account.charges.push(...limits.flatMap(limit => limit.charges))
        return limits
      }
    )
    if (isLater(spent)) follow(account, spent)
    return spent
  }

  #openOf(partition: string, policy: QuotaPolicy): Account {
    const accounts = this.of(policy)
    if (accounts.length > 0 && accounts.every(({ closed }) => closed === 'settled'))
      throw settledAlready(policy)
    const own = accounts.find(
      ({ closed, by, partition: at }) => closed === false && by === 'caller' && at === partition
    )
    if (own !== undefined) return own
    const opened = account(partition, policy, [], 'caller')
    this.#opened().push(opened)
    return opened
  }

  /**
   * Corrects accounts to what was spent in the end, all together, and closes them. None: nothing was charged, so there is
   * nothing to correct; nor is there if the plugin has given it back, because the request was over or refused.
   * @throws FST_QUOTA_SETTLED if the caller has settled them already.
   */
  settle(accounts: readonly Account[], actual: number): Later<readonly ServiceLimit[]> {
    if (accounts.length > 0 && accounts.every(({ closed }) => closed === 'settled')) {
      throw settledAlready(accounts[0]!.policy)
    }
    const open = accounts.filter(({ closed }) => closed === false)
    for (const account of accounts) account.closed = 'settled'
    return this.#correct(open, () => together(open, actual))
  }

  /** As {@link settle}, by the plugin: the caller may still say what was used, and nothing follows from it. */
  refund(accounts: readonly Account[], actual: number): Later<readonly ServiceLimit[]> {
    const open = accounts.filter(({ closed }) => closed === false)
    for (const account of open) account.closed = 'given back'
    return this.#correct(open, () => together(open, actual))
  }

  /** Gives back what is still open of these accounts. */
  release(accounts: readonly Account[]): Later<readonly ServiceLimit[]> {
    const open = accounts.filter(({ closed, charges }) => closed === false && charges.length > 0)
    for (const account of open) account.closed = 'given back'
    return this.#correct(open, () => open.map(account => ({ ...account, actual: 0 })))
  }

  #correct(
    accounts: readonly Account[],
    settlements: () => readonly Settlement[]
  ): Later<readonly ServiceLimit[]> {
    if (accounts.length === 0) return []
    return whenKnown(settledDown(accounts), () =>
      whenKnown(this.#settle(settlements()), ({ limits }) => limits)
    )
  }

  #settle(settlements: readonly Settlement[]): Later<Answer> {
    if (settled.hasSubscribers) for (const settlement of settlements) this.#tell(settlement)
    return this.#store.settle(settlements)
  }

  #tell({ policy, charges, actual }: Settlement): void {
    settled.publish({ store: this.#store, policy, charged: total(charges), actual } satisfies Settled)
  }
}

/** Lets what is under way on an account come first. */
export function follow(account: Account, work: Promise<unknown>): void {
  const pending = Promise.allSettled([account.pending, work]).then(() => {
    if (account.pending === pending) account.pending = undefined
  })
  account.pending = pending
}

/**
 * All accounts of a policy are corrected as one, but each partition for itself: what was used is kept of the earliest
 * charges, and a shortfall is charged to the partition of the last ones.
 */
function together(accounts: readonly Account[], actual: number): readonly Settlement[] {
  const partitions = [...new Set(accounts.map(({ partition }) => partition))]
  let rest = actual
  return partitions.map((partition, i) => {
    const own = accounts.filter(account => account.partition === partition)
    const charges = own.flatMap(account => account.charges)
    const kept = i === partitions.length - 1 ? rest : Math.min(rest, total(charges))
    rest -= kept
    return { partition, policy: own[0]!.policy, charges, actual: kept }
  })
}

/** Units of all receipts. */
export function total(charges: readonly Receipt[]): number {
  return charges.reduce((sum, { units }) => sum + units, 0)
}

/** An account for each charge that was admitted. */
function accountsOf(charges: readonly Charge[], { limits }: Answer, by: Account['by']): Account[] {
  if (limits.some(({ policy, allowed }) => !allowed && !policy.shadow)) return []
  return limits.flatMap(({ policy, allowed, charges: receipts }) => {
    const { partition } = charges.find(charge => charge.policy === policy)!
    return allowed ? [account(partition, policy, receipts, by)] : []
  })
}

const account = (
  partition: string,
  policy: QuotaPolicy,
  charges: readonly Receipt[],
  by: Account['by']
): Account => ({
  partition,
  policy,
  charges: [...charges],
  pending: undefined,
  closed: false,
  by,
  held: 0,
  asked: false
})

/** Waits for what is under way on accounts. */
function settledDown(accounts: readonly Account[]): Later<unknown> {
  const pending = accounts.flatMap(account => account.pending ?? [])
  return pending.length === 0 ? undefined : Promise.all(pending)
}

const settledAlready = ({ name }: QuotaPolicy): Error =>
  new FST_QUOTA_SETTLED(`policy "${name}" is settled for this request already`)
