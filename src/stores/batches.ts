import { LruMap } from 'toad-cache'
import { whenKnown } from '../later.js'
import type { Later } from '../later.js'
import type { Receipt } from '../algorithm.js'
import type { QuotaPolicy } from '../policy.js'
import type { Answer, Charge, Lease, Place, ServiceLimit, Settlement } from '../store.js'
import type { FailingStore } from './failure-modes.js'
import type { Purchase } from './redis/command.js'
import { StoreFailure } from './guard/failure.js'
import type { Timing } from './guard/timing.js'

type Attempted<T> = Later<T | StoreFailure>

/** A store whose charges can buy ahead, and that can tell what it would answer. */
export interface BatchingStore extends FailingStore {
  consume(charges: readonly Purchase[], late: (answer: Answer) => void): Attempted<Answer>
  rehearse(charges: readonly Charge[]): Attempted<Answer>
}

/** Partitions that are remembered, each once for each of its policies. */
const REMEMBERED = 10_000

/** Milliseconds that a batch lasts at most, and its part of the window. */
const LONGEST = 2000
const OF_WINDOW = 20

/** Milliseconds that a refusal is remembered at most. */
const REFUSED = 1000

/** What this process knows of one policy's partition. */
interface Hot {
  /** What the store answered last, and when that was received. */
  limit: ServiceLimit | undefined
  received: number
  /** Units bought ahead, the time they were charged, and until when they may be spent. */
  left: number
  at: number
  until: number
  /** Refused without asking until then. */
  refusedUntil: number
  /** Whether a call that buys ahead is under way. */
  asking: boolean
  /** Requests seen after a time. */
  count: number
  since: number
}

/**
 * Spends quota in batches. A busy partition buys units ahead, sized to its rate here and to what remains, and spends them
 * without asking; a refusal is remembered for a moment. So at most the units of one batch for each process are charged in
 * one window and spent in the next: that is the most by which a quota can be exceeded.
 *
 * Only charges of one unit take part. All others go straight to the store.
 */
export class Batches implements FailingStore {
  readonly #store: BatchingStore
  readonly #shares: number
  readonly #timing: Timing
  readonly #known = new LruMap<Hot>(REMEMBERED)

  /** `instances`: how many processes buy from the same quota. */
  constructor(store: BatchingStore, instances: number, timing: Timing) {
    this.#store = store
    this.#shares = 2 * instances
    this.#timing = timing
  }

  consume(charges: readonly Charge[], late: (answer: Answer) => void): Attempted<Answer> {
    if (!charges.some(isBatched)) return this.#store.consume(charges, late)
    const now = this.#timing.now()
    const parts = charges.map(charge => this.#part(charge, now))
    const refused = parts.some(({ limit, charge: { policy } }) => limit?.allowed === false && !policy.shadow)
    return refused ? this.#refuse(parts) : this.#admit(parts, now, late)
  }

  peek(places: readonly Place[]): Attempted<Answer> {
    return this.#store.peek(places)
  }

  settle(settlements: readonly Settlement[]): Attempted<Answer> {
    for (const settlement of settlements) this.#forgetRefusal(settlement)
    return this.#store.settle(settlements)
  }

  renew(leases: readonly Lease[]): Attempted<readonly (readonly Receipt[])[]> {
    return this.#store.renew(leases)
  }

  reset(places: readonly Place[]): Attempted<void> {
    for (const place of places) this.#known.delete(keyOf(place))
    return this.#store.reset(places)
  }

  /** What is known here of one charge: that it is refused, or that there is a unit for it. */
  #part(charge: Charge, now: number): Part {
    if (!isBatched(charge)) return { charge, hot: undefined, limit: undefined }
    const hot = this.#hot(charge, now)
    const { limit, refusedUntil, left, until } = hot
    if (limit === undefined) return { charge, hot, limit }
    if (left > 0 && now < until)
      return { charge, hot, limit: { ...limit, units: 1, allowed: true, retryAfter: 0 } }
    return { charge, hot, limit: now < refusedUntil ? countedDown(limit, now - hot.received) : undefined }
  }

  /** What is known of a charge's partition, which has one more request. */
  #hot(charge: Charge, now: number): Hot {
    const key = keyOf(charge)
    const known = this.#known.get(key)
    // What is known of another quota says nothing about this one: its units are lost, and its refusals over.
    if (known !== undefined && (known.limit === undefined || known.limit.policy === charge.policy)) {
      known.count++
      return known
    }
    const hot: Hot = {
      limit: undefined,
      received: now,
      left: 0,
      at: 0,
      until: 0,
      refusedUntil: 0,
      asking: false,
      count: 0,
      since: now
    }
    this.#known.set(key, hot)
    return hot
  }

  /** Refused by what is known here. The others are asked what they would say, for the wait is the longest of all. */
  #refuse(parts: readonly Part[]): Attempted<Answer> {
    const unknown = parts.filter(({ limit }) => limit === undefined).map(({ charge }) => charge)
    if (unknown.length === 0) return together(parts, [])
    return whenKnown(this.#store.rehearse(unknown), answer =>
      answer instanceof StoreFailure ? answer : together(parts, answer.limits)
    )
  }

  /** Spends the units that are here, and asks for the others. */
  #admit(parts: readonly Part[], sent: number, late: (answer: Answer) => void): Attempted<Answer> {
    const held = parts.map(part => (part.limit?.allowed === true ? spent(part) : part))
    const asked = parts.filter(({ limit }) => limit === undefined)
    if (asked.length === 0) return together(held, [])
    const purchases = asked.map(part => this.#purchase(part, sent))
    return whenKnown(this.#store.consume(purchases, late), answer => {
      for (const [i, { hot }] of asked.entries())
        if (hot !== undefined && purchases[i]!.ahead! > 0) hot.asking = false
      if (answer instanceof StoreFailure) {
        restore(held)
        return answer
      }
      const limits = answer.limits.map(limit => {
        const i = asked.findIndex(({ charge }) => charge.policy === limit.policy)
        return this.#learn(asked[i]!, purchases[i]!, limit, sent)
      })
      if (limits.every(({ allowed, policy }) => allowed || policy.shadow)) return together(held, limits)
      restore(held)
      return together(parts, limits)
    })
  }

  #purchase({ charge, hot }: Part, now: number): Purchase {
    if (hot === undefined || hot.asking) return { ...charge, ahead: 0 }
    const life = lifeOf(charge.policy)
    const seen = now - hot.since
    // An hour ago is no rate: what was seen counts by half from time to time.
    if (seen > life) {
      hot.count = Math.ceil(hot.count / 2)
      hot.since = now - seen / 2
    }
    const rate = hot.count / Math.max(now - hot.since, life / 4)
    const ahead = Math.min(charge.policy.batch, nearlyCertain(rate * life)) - 1
    hot.asking = ahead > 0
    return { ...charge, ahead, shares: this.#shares }
  }

  #learn({ charge, hot }: Part, { ahead = 0 }: Purchase, limit: ServiceLimit, sent: number): ServiceLimit {
    if (hot === undefined) return limit
    const [receipt] = limit.charges
    const own = receipt === undefined ? [] : [{ at: receipt.at, units: 1 }]
    hot.limit = { ...limit, charges: [] }
    hot.received = this.#timing.now()
    hot.refusedUntil = limit.allowed
      ? 0
      : sent + Math.min(REFUSED, limit.retryAfter > 0 ? limit.retryAfter : REFUSED)
    if (receipt !== undefined && ahead > 0) {
      hot.left = receipt.units - 1
      hot.at = receipt.at
      hot.until = sent + Math.min(lifeOf(charge.policy), limit.effectiveWindow)
    }
    return { ...limit, charges: own }
  }

  #forgetRefusal(place: Place): void {
    if (place.policy.batch === 0) return
    const hot = this.#known.get(keyOf(place))
    if (hot !== undefined) hot.refusedUntil = 0
  }
}

/** A charge, and what is known of it here. */
interface Part {
  readonly charge: Charge
  readonly hot: Hot | undefined
  readonly limit: ServiceLimit | undefined
}

const isBatched = ({ policy, units }: Charge): boolean => policy.batch > 0 && units === 1

const keyOf = ({ partition, policy }: Place): string => `${policy.field} ${partition}`

const lifeOf = ({ window }: QuotaPolicy): number => Math.min(LONGEST, window / OF_WINDOW)

/** How many requests are all but certain to come where so many are expected: what is bought for others is lost. */
const nearlyCertain = (expected: number): number =>
  Math.max(1, Math.floor(expected - 2 * Math.sqrt(expected)))

function spent(part: Part): Part {
  const hot = part.hot!
  hot.left--
  return { ...part, limit: { ...part.limit!, charges: [{ at: hot.at, units: 1 }] } }
}

/** Puts units back that were taken for a decision that came to nothing, unless others were bought since. */
function restore(parts: readonly Part[]): void {
  for (const { hot, limit } of parts) {
    const [unit] = limit?.charges ?? []
    if (hot !== undefined && unit?.at === hot.at) hot.left++
  }
}

/** The limits in the order of their charges: those known here, and those that the store answered. */
function together(parts: readonly Part[], answered: readonly ServiceLimit[]): Answer {
  const limits = parts.flatMap(
    ({ charge, limit }) => limit ?? answered.find(({ policy }) => policy === charge.policy) ?? []
  )
  return { limits, source: 'redis' }
}

/** A refusal of some time ago: its waits are shorter by that. */
function countedDown(limit: ServiceLimit, elapsed: number): ServiceLimit {
  const less = (wait: number): number => (wait > 0 ? Math.max(1, Math.ceil(wait - elapsed)) : wait)
  return { ...limit, effectiveWindow: less(limit.effectiveWindow), retryAfter: less(limit.retryAfter) }
}
