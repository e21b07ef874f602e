import type { Account, Block, Load } from './account.js'
import type { Costs } from './costs.js'
import { costsAsMuch } from './costs.js'
import type { Limit } from './limits/limit.js'
import { ASK } from './limits/limit.js'
import type { Ticket } from './ticket.js'

/** Whether and where a request can be sent. */
export interface Turn {
  /** Milliseconds of the epoch; {@link ASK}: after the next response. */
  readonly at: number
  readonly account: Account
  readonly blocks: readonly Block[]
}

interface Blocked {
  readonly costs: Costs
  readonly turn: Turn
}

/**
 * One look at all that wait, in their order. A request that finds too little left lets later ones pass that need less,
 * until they have spent as much as it needs itself; from then on they wait behind it.
 */
export class Round {
  readonly #accounts: readonly Account[]
  readonly #now: number
  /** The first request that each limit has too little left for. */
  readonly #first = new Map<Limit, Ticket>()
  /** By route, what is blocked: nothing comes back within a round, so that what costs as much is blocked as well. */
  readonly #blocked = new Map<string, Blocked[]>()

  constructor(accounts: readonly Account[], now: number) {
    this.#accounts = accounts
    this.#now = now
  }

  /** The best account for a request: of those that can take it now the least spent one, or the one that can first. */
  turn(ticket: Ticket): Turn {
    const known = ticket.comesAgain ? undefined : this.#alike(ticket)
    if (known !== undefined) return known
    const turns = this.#accounts.map(account => this.#turnAt(account, ticket))
    const [best] = turns.filter(({ at }) => at <= this.#now).toSorted(leastSpent(ticket))
    if (best !== undefined) return best
    const first = turns.reduce((first, turn) => (turn.at < first.at ? turn : first))
    return this.#block(ticket, turns, first)
  }

  /** A request is sent to an account: it overtakes those that wait for the same limits. */
  sent(ticket: Ticket, account: Account): void {
    if (this.#first.size === 0) return
    for (const { limit, units } of account.parts(ticket.load)) this.#first.get(limit)?.overtaken(limit, units)
  }

  #turnAt(account: Account, ticket: Ticket): Turn {
    const blocks = [...account.blocks(ticket.load, this.#now), ...ticket.blocks(account, this.#now)]
    if (blocks.length > 0) return { at: Math.max(...blocks.map(({ at }) => at)), account, blocks }
    return { at: this.#mustWaitBehind(account, ticket) ? ASK : this.#now, account, blocks }
  }

  #mustWaitBehind(account: Account, ticket: Ticket): boolean {
    if (this.#first.size === 0) return false
    return account
      .parts(ticket.load)
      .some(({ limit, units }) => units > 0 && this.#first.get(limit)?.isDue(limit) === true)
  }

  #block(ticket: Ticket, turns: readonly Turn[], first: Turn): Turn {
    for (const { limit } of turns.flatMap(({ blocks }) => blocks)) {
      if (limit !== undefined && !this.#first.has(limit)) this.#first.set(limit, ticket)
    }
    if (!ticket.comesAgain) this.#remember(ticket.load, first)
    return first
  }

  /** The turn of a request that is blocked and costs no more than this one. */
  #alike({ load }: Ticket): Turn | undefined {
    return this.#blocked.get(load.route)?.find(({ costs }) => costsAsMuch(load.costs, costs))?.turn
  }

  #remember({ route, costs }: Load, turn: Turn): void {
    const others = this.#blocked.get(route)?.filter(blocked => !costsAsMuch(blocked.costs, costs)) ?? []
    this.#blocked.set(route, [...others, { costs, turn }])
  }
}

const leastSpent =
  (ticket: Ticket) =>
  ({ account: one }: Turn, { account: other }: Turn): number =>
    one.share(ticket.load) - other.share(ticket.load) || one.sent - other.sent
