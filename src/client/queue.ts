import type { Flight } from './account.js'
import type { Ticket } from './ticket.js'

/** A request that waits. */
export interface Waiting {
  readonly ticket: Ticket
  readonly resolve: (flight: Flight) => void
  readonly reject: (error: unknown) => void
}

/** What becomes of a request that was looked at: it leaves the queue, or it waits, and so do those like it behind it. */
export type Outcome = 'leaves' | 'waits'

/**
 * Requests in their order: by priority, then by arrival. Those that are alike wait for the same, so that of ten thousand
 * alike only the first is looked at.
 */
export class Queue {
  readonly #groups = new Map<string, Waiting[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  add(waiting: Waiting): void {
    const { likeness } = waiting.ticket
    const group = this.#groups.get(likeness)
    if (group === undefined) this.#groups.set(likeness, [waiting])
    else group.push(waiting)
    this.#size++
  }

  /** Takes a request out; `undefined`: it does not wait. */
  remove(ticket: Ticket): Waiting | undefined {
    const group = this.#groups.get(ticket.likeness) ?? []
    const place = group.findIndex(waiting => waiting.ticket === ticket)
    if (place < 0) return undefined
    const [removed] = group.splice(place, 1)
    this.#size--
    if (group.length === 0) this.#groups.delete(ticket.likeness)
    return removed
  }

  /** Those that came last, the last one first. */
  latest(count: number): readonly Waiting[] {
    const newcomers = [...this.#groups.values()].flat().filter(({ ticket }) => !ticket.comesAgain)
    return newcomers.toSorted((one, other) => other.ticket.compareArrival(one.ticket)).slice(0, count)
  }

  /** Looks at the requests in their order, those left out that are like one that waits. */
  look(visit: (waiting: Waiting, alike: readonly Waiting[]) => Outcome): void {
    const firsts = [...this.#groups.values()].map(([first]) => first!)
    firsts.sort((one, other) => one.ticket.compare(other.ticket))
    for (let next = firsts.shift(); next !== undefined; next = firsts.shift()) {
      const { ticket } = next
      const group = this.#groups.get(ticket.likeness)!
      if (visit(next, group) === 'waits') continue
      this.remove(ticket)
      const [following] = group
      if (following === undefined) continue
      const place = firsts.findIndex(other => following.ticket.compare(other.ticket) < 0)
      firsts.splice(place < 0 ? firsts.length : place, 0, following)
    }
  }
}
