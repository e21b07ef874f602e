import type { Costs } from './costs.js'
import { unitsOf } from './costs.js'
import { Gate } from './limits/gate.js'
import { HoldingLimit } from './limits/holding.js'
import { ASK } from './limits/limit.js'
import type { Charge, Limit } from './limits/limit.js'
import { SpendingLimit } from './limits/spending.js'
import { NamedLimits } from './named-limits.js'
import type { Manner, NamedLimit } from './named-limits.js'
import type { Reading } from './reading.js'
import { Routes } from './routes.js'
import { nothingTold } from './told.js'
import type { Told } from './told.js'

/** A request as far as quotas are concerned. */
export interface Load {
  /** Requests of a route fall under the same policies. */
  readonly route: string
  readonly costs: Costs
}

/** A request that is on its way. */
export interface Flight extends Load {
  readonly account: Account
  /** Requests are numbered in the order in which they are sent. */
  readonly sequence: number
  readonly charges: Map<Limit, Charge>
}

/** Why a request cannot be sent yet. */
export interface Block {
  /** `undefined`: the policies of the route are not known yet. */
  readonly limit: Limit | undefined
  readonly policy: string | undefined
  /** Milliseconds of the epoch, or {@link ASK}. */
  readonly at: number
}

/** What a request spends of a limit. */
export interface Part {
  readonly limit: Limit
  readonly units: number
}

/** What a refusal means. */
export interface Verdict {
  /** What keeps the request from being sent again. */
  readonly blocks: readonly Block[]
  /** The policies that refused, as far as they are known. */
  readonly policies: readonly string[]
  /** Whether no wait helps: the request costs more than a whole quota. */
  readonly hopeless: boolean
}

/** What one server has told a client about its quotas, to one of its keys if there are several. */
export class Account {
  readonly key: string | undefined
  readonly #limits: NamedLimits
  readonly #routes = new Routes()
  /** Shut until the server has answered, and after refusals that name no policy. */
  readonly #gate: Gate
  readonly #flights = new Set<Flight>()
  #sent = 0

  constructor(key: string | undefined, manner: Manner) {
    this.key = key
    this.#limits = new NamedLimits(manner)
    this.#gate = new Gate('unknown', manner)
  }

  /** Requests sent with it. */
  get sent(): number {
    return this.#sent
  }

  /** What keeps a request from being sent at `now`; nothing: send it. */
  blocks({ route, costs }: Load, now: number): readonly Block[] {
    const blocks: Block[] = []
    const add = (limit: Limit | undefined, policy: string | undefined, at: number): void => {
      if (at > now) blocks.push({ limit, policy, at })
    }
    add(this.#gate, undefined, this.#gate.earliest(1, now))
    if (!this.#routes.get(route).known && this.#flies(route)) add(undefined, undefined, ASK)
    for (const { policy, limit } of this.#limitsOf(route)) {
      add(limit, policy, limit.earliest(unitsOf(costs, limit), now))
    }
    return blocks
  }

  /** The largest part of a quota that is spent, of those that a request falls under. */
  share({ route }: Load): number {
    return Math.max(0, ...[...this.#limitsOf(route)].map(({ limit }) => limit.share()))
  }

  send({ route, costs }: Load, sequence: number, now: number): Flight {
    const flight: Flight = { account: this, route, costs, sequence, charges: new Map() }
    this.#sent++
    this.#flights.add(flight)
    for (const limit of [this.#gate, ...[...this.#limitsOf(route)].map(named => named.limit)]) {
      charge(flight, limit, now)
    }
    return flight
  }

  /** A request is served. */
  served(flight: Flight, { told, complete, cached }: Reading, now: number): void {
    this.#flights.delete(flight)
    if (cached) this.#settleOthers(flight, now)
    const limits = told.map(one => ({ told: one, named: this.#met(flight, one, now) }))
    const named = limits.map(limit => limit.named)
    for (const [limit, made] of flight.charges) {
      const one = limits.find(({ named }) => named.limit === limit)
      if (one === undefined && complete && limit !== this.#gate) this.#strange(flight, limit, made)
      else limit.served(made, one?.told, now)
    }
    this.#remember(flight.route, complete, named)
  }

  #remember(route: string, complete: boolean, limits: readonly NamedLimit[]): void {
    if (complete) this.#routes.set(route, limits)
    else this.#routes.add(route, limits)
  }

  /** Whether a request holds a place until its response is over. */
  holds({ charges }: Flight): boolean {
    return [...charges.keys()].some(limit => limit instanceof HoldingLimit)
  }

  /** The response of a request that was served is over. */
  ended(flight: Flight): void {
    for (const [limit, made] of flight.charges) limit.ended(made)
  }

  /** The limits that a request falls under, and what it spends of them. */
  parts({ route, costs }: Load): readonly Part[] {
    return [...this.#limitsOf(route)].map(({ limit }) => ({ limit, units: unitsOf(costs, limit) }))
  }

  /** A request does not fall under a limit that it was thought to: it is given back. */
  #strange(flight: Flight, limit: Limit, made: Charge): void {
    limit.returned(made)
    flight.charges.delete(limit)
  }

  /** A request failed, and nobody knows whether it was counted. */
  lost(flight: Flight, now: number): void {
    this.#flights.delete(flight)
    for (const [limit, made] of flight.charges) limit.lost(made, now)
  }

  /**
   * A request is refused. Only what has refused it is held back; `violated` are the policies that the body names, if it
   * names any.
   */
  refused(flight: Flight, reading: Reading, violated: readonly string[] | undefined, now: number): Verdict {
    this.#flights.delete(flight)
    const told = new Map(reading.told.map(one => [this.#met(flight, one, now), one]))
    const refusing = this.#refusing(flight, told, reading.named ? violated : undefined)
    this.#remember(flight.route, reading.complete, [...told.keys(), ...refusing])
    const hopeless = refusing.some(({ limit }) => isExceeded(limit, flight))
    const shut = refusing.length === 0 ? [{ policy: undefined, limit: this.#gate }] : refusing
    const blocks = shut
      .filter(({ limit }) => !isExceeded(limit, flight))
      .map(({ policy, limit }) => {
        const one = [...told].find(([named]) => named.limit === limit)?.[1]
        const wait = reading.retryAfter ?? positive(one?.effectiveWindow)
        const at = limit.refused(charge(flight, limit, now), { available: one?.available, wait, now })
        flight.charges.delete(limit)
        return { policy, limit, at }
      })
    this.#settleOthers(flight, now)
    return { blocks, policies: refusing.map(({ policy }) => policy), hopeless }
  }

  /** Nothing that is left among the charges has counted the request, and other requests may come through. */
  #settleOthers(flight: Flight, now: number): void {
    for (const [limit, made] of flight.charges) {
      if (limit === this.#gate) limit.served(made, undefined, now)
      else limit.returned(made)
    }
    flight.charges.clear()
  }

  /** Those that are named; or those with nothing left, with too little left, or with the least of their quota left. */
  #refusing(
    flight: Flight,
    told: ReadonlyMap<NamedLimit, Told>,
    violated: readonly string[] | undefined
  ): readonly NamedLimit[] {
    const numbered = [...told].filter(([, { available }]) => available !== undefined)
    if (violated !== undefined) {
      return [...new Set(violated)].map(policy => {
        return (
          numbered.find(([named]) => named.policy === policy)?.[0] ??
          this.#limits.named(policy, nothingTold(policy))
        )
      })
    }
    const short = (least: (named: NamedLimit) => number): readonly NamedLimit[] =>
      numbered.filter(([named, { available }]) => available! < least(named)).map(([named]) => named)
    const empty = short(() => 1)
    if (empty.length > 0) return empty
    const small = short(({ limit }) => unitsOf(flight.costs, limit))
    if (small.length > 0) return small
    const [closest] = numbered.toSorted(([, one], [, other]) => left(one) - left(other))
    return closest === undefined ? [] : [closest[0]]
  }

  /**
   * The limit that a response tells of. One that is met for the first time learns of all requests on their way that may
   * fall under it.
   */
  #met(flight: Flight, told: Told, now: number): NamedLimit {
    const named = this.#limits.told(told)
    for (const other of this.#flights) {
      if (other.route === flight.route || !this.#routes.get(other.route).known)
        charge(other, named.limit, now)
    }
    charge(flight, named.limit, now)
    return named
  }

  #limitsOf(route: string): Iterable<NamedLimit> {
    const { known, limits } = this.#routes.get(route)
    return known ? limits : this.#limits.likely
  }

  #flies(route: string): boolean {
    for (const flight of this.#flights) if (flight.route === route) return true
    return false
  }
}

/** What a flight has charged to a limit, which it does now if it has not. */
function charge(flight: Flight, limit: Limit, now: number): Charge {
  const made = flight.charges.get(limit) ?? limit.charge(unitsOf(flight.costs, limit), flight.sequence, now)
  flight.charges.set(limit, made)
  return made
}

function isExceeded(limit: Limit, { costs }: Flight): boolean {
  return limit instanceof SpendingLimit && limit.exceededBy(unitsOf(costs, limit))
}

const left = ({ available = 0, quota = Infinity }: Told): number => available / quota

const positive = (wait: number | undefined): number | undefined =>
  wait !== undefined && wait > 0 ? wait : undefined
