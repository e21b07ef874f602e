import type { Account, Flight, Verdict } from './account.js'
import { QuotaQueueError, QuotaWaitError } from './errors.js'
import { ASK } from './limits/limit.js'
import { Queue } from './queue.js'
import type { Outcome, Waiting } from './queue.js'
import type { Reading } from './reading.js'
import { Round } from './round.js'
import type { Turn } from './round.js'
import type { Ticket } from './ticket.js'
import type { Timing } from './timing.js'
import { dateOf } from './waits.js'

/** What a client asks of its own requests. */
export interface Bounds {
  /** The most requests to one server that run at once. */
  readonly concurrency: number
  /** The most requests that wait for one server. */
  readonly queue: number
  /** The longest wait for quota that is waited for, in milliseconds. */
  readonly maxWait: number
}

/** The requests to one server: those that wait, in their order, and how many are on their way. */
export class Lane {
  readonly #origin: string
  readonly #accounts: readonly Account[]
  readonly #bounds: Bounds
  readonly #timing: Timing
  readonly #queue = new Queue()
  #looks = false
  #arrivals = 0
  #sequence = 0
  #running = 0
  #cancelWake: (() => void) | undefined

  constructor(origin: string, accounts: readonly Account[], bounds: Bounds, timing: Timing) {
    this.#origin = origin
    this.#accounts = accounts
    this.#bounds = bounds
    this.#timing = timing
  }

  /** Whether nothing waits and nothing is on its way. */
  get idle(): boolean {
    return this.#queue.size === 0 && this.#running === 0
  }

  /**
   * Resolves when it is a request's turn; from then on it is on its way.
   * @throws {QuotaWaitError} when the quota has no room for it within `maxWait`.
   * @throws {QuotaQueueError} when it would have to wait, and the queue is full.
   */
  enter(ticket: Ticket): Promise<Flight> {
    ticket.arrived(this.#arrivals++)
    return new Promise((resolve, reject) => {
      this.#queue.add({ ticket, resolve, reject })
      this.#look()
    })
  }

  /** A request stops waiting, for `reason`; one that does not wait is left alone. */
  leave(ticket: Ticket, reason: unknown): void {
    const leaving = this.#queue.remove(ticket)
    if (leaving === undefined) return
    leaving.reject(reason)
    this.#look()
  }

  /** A request is served; it is on its way until `ended`. */
  served(flight: Flight, reading: Reading): void {
    flight.account.served(flight, reading, this.#timing.now())
    this.#look()
  }

  /** Whether something else can be sent once a request is over that could not before. */
  holds(flight: Flight): boolean {
    return this.#bounds.concurrency < Infinity || flight.account.holds(flight)
  }

  /** The response of a request that was served is over. */
  ended(flight: Flight): void {
    flight.account.ended(flight)
    this.#land()
  }

  /** A request is refused. */
  refused(
    flight: Flight,
    ticket: Ticket,
    reading: Reading,
    violated: readonly string[] | undefined
  ): Verdict {
    const verdict = flight.account.refused(flight, reading, violated, this.#timing.now())
    ticket.refused(flight.account, verdict.blocks)
    this.#land()
    return verdict
  }

  /** A request failed. */
  lost(flight: Flight): void {
    flight.account.lost(flight, this.#timing.now())
    this.#land()
  }

  #land(): void {
    this.#running--
    this.#look()
  }

  /** Looks at all that wait once everything that happens now has happened. */
  #look(): void {
    if (this.#looks) return
    this.#looks = true
    queueMicrotask(() => {
      this.#looks = false
      this.#pump()
    })
  }

  /** Sends what can be sent, and comes back when the next one can. */
  #pump(): void {
    const now = this.#timing.now()
    const round = new Round(this.#accounts, now)
    this.#cancelWake?.()
    this.#cancelWake = undefined
    let next = ASK
    this.#queue.look((waiting, alike) => {
      if (this.#running >= this.#bounds.concurrency) return 'waits'
      const turn = round.turn(waiting.ticket)
      if (turn.at <= now) return this.#send(waiting, turn, round, now)
      if (turn.at === ASK) return 'waits'
      if (turn.at - now > this.#bounds.maxWait) return this.#giveUp(waiting, turn)
      tell(alike, turn)
      next = Math.min(next, turn.at)
      return 'waits'
    })
    this.#turnAway()
    if (next !== ASK) this.#cancelWake = this.#timing.after(next - now, () => this.#pump())
  }

  /** The queue holds so many: of new ones, the last to come have no place. */
  #turnAway(): void {
    const excess = this.#queue.size - this.#bounds.queue
    if (excess <= 0) return
    for (const { ticket, reject } of this.#queue.latest(excess)) {
      this.#queue.remove(ticket)
      reject(new QuotaQueueError(this.#origin, this.#bounds.queue))
    }
  }

  #send({ ticket, resolve }: Waiting, { account }: Turn, round: Round, now: number): Outcome {
    round.sent(ticket, account)
    this.#running++
    resolve(account.send(ticket.load, this.#sequence++, now))
    return 'leaves'
  }

  #giveUp({ reject }: Waiting, turn: Turn): Outcome {
    reject(new QuotaWaitError(dateOf(turn.at), policiesOf(turn)))
    return 'leaves'
  }
}

/** Tells those that wait for the same, from the last one on that has not been told. */
function tell(alike: readonly Waiting[], turn: Turn): void {
  const last = alike.findLastIndex(({ ticket }) => ticket.isTold)
  const wait = { policies: policiesOf(turn), until: turn.at }
  for (const { ticket } of alike.slice(last + 1)) ticket.tell(wait)
}

/** The policies that block longest. */
function policiesOf({ blocks }: Turn): readonly string[] {
  const last = Math.max(...blocks.map(({ at }) => at))
  const names = blocks.filter(({ at, policy }) => at === last && policy !== undefined)
  return [...new Set(names.map(({ policy }) => policy!))]
}
