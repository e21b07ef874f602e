import { show } from '../options.js'
import { Account } from './account.js'
import type { Load } from './account.js'
import { QuotaOptionError } from './errors.js'
import { Lane } from './lane.js'
import type { Settings } from './options.js'
import { plainCosts } from './outgoing.js'
import type { OutgoingRequest } from './outgoing.js'
import { Ticket } from './ticket.js'
import { Trip } from './trip.js'
import { dateOf } from './waits.js'

/** The most servers that are remembered; of more, those that are idle are forgotten. */
const MOST_LANES = 1000

/** Paces requests, whoever sends them: a lane for each server, and in it an account for each key. */
export class Pacer {
  readonly #settings: Settings
  readonly #lanes = new Map<string, Lane>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /**
   * Takes a request on. `repeatable`: whether its body allows that it is sent again.
   * @throws what a function among the options throws, and {@link QuotaOptionError} for what one of them must not return.
   */
  trip(request: OutgoingRequest, repeatable: Repeatable): Trip {
    const { retryMethods, onWait } = this.#settings
    const load = { route: this.#routeOf(request), costs: this.#costsOf(request) }
    const ticket = new Ticket(load, this.#priorityOf(request), ({ policies, until }) =>
      onWait({ request, policies, until: dateOf(until) })
    )
    const retries =
      repeatable === 'repeatable' && retryMethods.has(request.method) ? this.#settings.retries : 0
    return new Trip({
      request,
      ticket,
      lane: this.#lane(request.url.origin),
      retries,
      settings: this.#settings
    })
  }

  #routeOf(request: OutgoingRequest): string {
    const route: unknown = this.#settings.route(request)
    return typeof route === 'string' ? route : wrong(`route must return text, got ${show(route)}`)
  }

  #costsOf(request: OutgoingRequest): Load['costs'] {
    const costs: unknown = this.#settings.cost(request)
    if (typeof costs === 'object' && costs !== null && Object.values(costs).every(isUnits)) {
      return { ...plainCosts(request), ...costs }
    }
    return wrong(
      `cost must return an object of integers of 0 or more, such as { "tokens": 900 }, got ${show(costs)}`
    )
  }

  #priorityOf(request: OutgoingRequest): number {
    const priority: unknown = this.#settings.priority(request)
    if (typeof priority === 'number' && !Number.isNaN(priority)) return priority
    return wrong(`priority must return a number, got ${show(priority)}`)
  }

  #lane(origin: string): Lane {
    const known = this.#lanes.get(origin)
    if (known === undefined && this.#lanes.size >= MOST_LANES) this.#forget()
    const lane = known ?? this.#newLane(origin)
    this.#lanes.delete(origin)
    this.#lanes.set(origin, lane)
    return lane
  }

  #newLane(origin: string): Lane {
    const { keys, manner, bounds, timing } = this.#settings
    const accounts = (keys?.values ?? [undefined]).map(key => new Account(key, manner))
    return new Lane(origin, accounts, bounds, timing)
  }

  #forget(): void {
    const [forgotten] = [...this.#lanes].find(([, lane]) => lane.idle) ?? []
    if (forgotten !== undefined) this.#lanes.delete(forgotten)
  }
}

/** Whether a body can be sent a second time. */
export type Repeatable = 'repeatable' | 'once'

const isUnits = (units: unknown): boolean =>
  typeof units === 'number' && Number.isInteger(units) && units >= 0

function wrong(message: string): never {
  throw new QuotaOptionError(message)
}
