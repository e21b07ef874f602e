import type { Flight } from './account.js'
import type { Lane } from './lane.js'
import type { Settings } from './options.js'
import type { OutgoingRequest } from './outgoing.js'
import { read } from './reading.js'
import type { Reading } from './reading.js'
import type { Ticket } from './ticket.js'
import type { Head } from './told.js'
import { dateOf } from './waits.js'

interface Plan {
  readonly request: OutgoingRequest
  readonly ticket: Ticket
  readonly lane: Lane
  /** How often it may be sent again. */
  readonly retries: number
  readonly settings: Settings
}

/** One request from the queue to the end of its response, with all its tries. */
export class Trip {
  readonly #plan: Plan
  #attempt = 0
  #flight: Flight | undefined

  constructor(plan: Plan) {
    this.#plan = plan
  }

  /**
   * Waits until the request may be sent; `signal` ends that with its reason. Returns the key to send it with, if there are
   * any.
   */
  async turn(signal: AbortSignal | undefined): Promise<string | undefined> {
    signal?.throwIfAborted()
    const { lane, ticket } = this.#plan
    const leave = (): void => lane.leave(ticket, signal?.reason)
    signal?.addEventListener('abort', leave, { once: true })
    try {
      this.#attempt++
      this.#flight = await lane.enter(ticket)
      return this.#flight.account.key
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  /** Ends waiting, for `reason`. */
  leave(reason: unknown): void {
    this.#plan.lane.leave(this.#plan.ticket, reason)
  }

  /** What the head of the response says. */
  read(head: Head): Reading {
    return read(head, this.#plan.settings.timing.now())
  }

  /** The request is served. It counts as running until {@link ended}. */
  served(reading: Reading): void {
    this.#plan.lane.served(this.#flight!, reading)
  }

  /** Whether it matters when the response of a request that was served is over. */
  get holds(): boolean {
    return this.#plan.lane.holds(this.#flight!)
  }

  /** The response of a request that was served is over. */
  ended(): void {
    this.#plan.lane.ended(this.#flight!)
  }

  /** The request failed, or was aborted. */
  failed(): void {
    this.#plan.lane.lost(this.#flight!)
  }

  /** The request is refused. Returns whether it is to be sent again, after its next {@link turn}. */
  refused(reading: Reading, violated: readonly string[] | undefined): boolean {
    const { lane, ticket, request, retries, settings } = this.#plan
    const { policies, blocks, hopeless } = lane.refused(this.#flight!, ticket, reading, violated)
    const retried = this.#attempt <= retries && !hopeless && !reading.final
    const until = dateOf(Math.max(settings.timing.now(), ...blocks.map(({ at }) => at)))
    settings.onRefused({ request, status: reading.status, policies, attempt: this.#attempt, retried, until })
    return retried
  }
}
