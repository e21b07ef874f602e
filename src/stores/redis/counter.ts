import type { Receipt } from '../../algorithm.js'
import { whenKnown } from '../../later.js'
import type { Later } from '../../later.js'
import type { QuotaPolicy } from '../../policy.js'
import type { Answer, Charge, Lease, Place, ServiceLimit, Settlement } from '../../store.js'
import type { Attempt } from '../guard/deadlines.js'
import type { FailingStore } from '../failure-modes.js'
import type { GuardedCalls } from './calls.js'
import type { Keys } from './keys.js'
import { chargeCommand, limitsOf, receiptsOf, renewCommand, resetCommand, settleCommand } from './command.js'
import type { Command, Encoding, Purchase, Reply } from './command.js'
import type { Plans } from './plans.js'
import { StoreFailure } from '../guard/failure.js'

type Attempted<T> = Later<T | StoreFailure>

/** One decision in so many looks for fields that nobody uses any more. */
const SWEEP_EVERY = 100

/** Partitions and places of one call where they need not be decided together: a script holds up all others. */
const MOST_PARTITIONS = 16
const MOST_PLACES = 100

/**
 * Counts on Redis. A decision is one call; only on a cluster whose partitions are apart is it one call for each partition, in
 * configured order, and what was charged is given back if a later one refuses.
 */
export class RedisCounter implements FailingStore {
  readonly #calls: GuardedCalls
  readonly #keyOf: Encoding['keyOf']
  readonly #apart: boolean
  readonly #plans: Plans | undefined
  readonly #fields = new Map<string, string>()
  #decisions = 0

  /** `apart`: partitions are in different slots of a cluster. `plans`: which charges have a script of their own. */
  constructor(calls: GuardedCalls, keys: Keys, apart: boolean, plans?: Plans) {
    this.#plans = plans
    this.#calls = calls
    this.#keyOf = partition => keys.of(partition)
    this.#apart = apart
  }

  /** Takes note of a field that partitions have, one for each policy: one that has another now leaves its old one behind. */
  expect({ name, field }: QuotaPolicy): void {
    this.#fields.set(name, field)
  }

  /** How many policies are known. */
  get policies(): number {
    return this.#fields.size
  }

  consume(charges: readonly Purchase[], late: (answer: Answer) => void): Attempted<Answer> {
    if (charges.length === 0) return answerOf([])
    const groups = this.#apart ? this.#parts(charges) : [charges]
    if (groups.length > 1) return this.#inTurn(charges, groups)
    const reply = this.#calls.call(this.#charge(charges), known => late(answerOf(limitsOf(charges, known))))
    return whenKnown(reply, known =>
      known instanceof StoreFailure ? known : answerOf(limitsOf(charges, known))
    )
  }

  /** What each of these charges would come to if others refused the decision: nothing is charged. */
  rehearse(charges: readonly Charge[], attempt?: Attempt): Attempted<Answer> {
    const command = (part: readonly Charge[]): Command => chargeCommand(this.#encoding(0), 'try', part)
    return answered(this.#inParts(charges, command, limitsOf, () => [], attempt))
  }

  peek(places: readonly Place[]): Attempted<Answer> {
    return this.rehearse(places.map(ofNothing))
  }

  settle(settlements: readonly Settlement[], attempt?: Attempt): Attempted<Answer> {
    const command = (part: readonly Settlement[]): Command => settleCommand(this.#encoding(0), part)
    const read = (part: readonly Settlement[], reply: Reply): readonly ServiceLimit[] =>
      limitsOf(part.map(ofNothing), reply)
    return answered(this.#inParts(settlements, command, read, () => [], attempt))
  }

  renew(leases: readonly Lease[]): Attempted<readonly (readonly Receipt[])[]> {
    const command = (part: readonly Lease[]): Command => renewCommand(this.#encoding(0), part)
    return this.#inParts(leases, command, receiptsOf, part => part.map(({ charges }) => charges))
  }

  reset(places: readonly Place[]): Attempted<void> {
    const command = (part: readonly Place[]): Command => resetCommand(this.#encoding(0), part)
    const done = this.#inParts(
      places,
      command,
      () => [],
      () => []
    )
    return whenKnown(done, known => (known instanceof StoreFailure ? known : undefined))
  }

  #encoding(fields: number): Encoding {
    return { keyOf: this.#keyOf, fields, plans: this.#plans }
  }

  #charge(charges: readonly Purchase[]): Command {
    this.#decisions = (this.#decisions + 1) % SWEEP_EVERY
    return chargeCommand(this.#encoding(this.#decisions === 0 ? this.#fields.size : 0), 'charge', charges)
  }

  /** Decides one partition after the other, before one deadline. None is charged if one of them is known to fail. */
  async #inTurn(
    charges: readonly Purchase[],
    groups: readonly (readonly Purchase[])[]
  ): Promise<Answer | StoreFailure> {
    for (const [charge] of groups) {
      const failure = this.#calls.down(this.#keyOf(charge!.partition))
      if (failure !== undefined) return failure
    }
    const attempt = this.#calls.begin()
    const charged: ServiceLimit[] = []
    const paid: Purchase[] = []
    for (const [i, group] of groups.entries()) {
      const late = (reply: Reply): void => void this.#giveBack(group, limitsOf(group, reply))
      const reply = await this.#calls.call(this.#charge(group), late, attempt)
      if (reply instanceof StoreFailure) {
        void this.#giveBack(paid, charged)
        return reply
      }
      const limits = limitsOf(group, reply)
      if (limits.some(({ allowed, policy }) => !allowed && !policy.shadow)) {
        const [back, rest] = await Promise.all([
          this.#giveBack(paid, charged, attempt),
          this.rehearse(groups.slice(i + 1).flat(), attempt)
        ])
        // Refused is refused, whether or not the others can be asked.
        const others = rest instanceof StoreFailure ? [] : rest.limits
        return inOrder(charges, [...back, ...limits, ...others])
      }
      paid.push(...group)
      charged.push(...limits)
    }
    return inOrder(charges, charged)
  }

  /** What is left after charges were given back. What cannot be given back stays charged. */
  async #giveBack(
    charges: readonly Charge[],
    limits: readonly ServiceLimit[],
    attempt?: Attempt
  ): Promise<readonly ServiceLimit[]> {
    const settlements = charges.map((charge, i) => ({ ...charge, charges: limits[i]!.charges, actual: 0 }))
    const answer = await this.settle(settlements, attempt)
    const left = answer instanceof StoreFailure ? [] : answer.limits
    return limits.map(limit => ({
      ...(left.find(({ policy }) => policy === limit.policy) ?? limit),
      units: limit.units,
      charges: []
    }))
  }

  /** Asks about places that need not be decided together, and tells what was answered about each, in their order. */
  #inParts<P extends Place, T>(
    places: readonly P[],
    command: (part: readonly P[]) => Command,
    read: (part: readonly P[], reply: Reply) => readonly T[],
    orElse: (part: readonly P[]) => readonly T[],
    attempt?: Attempt
  ): Attempted<readonly T[]> {
    if (places.length === 0) return []
    const parts = this.#parts(places)
    if (parts.length === 1) {
      const reply = this.#calls.call(command(places), undefined, attempt)
      return whenKnown(reply, known => (known instanceof StoreFailure ? known : read(places, known)))
    }
    const calls = parts.map(async part => this.#calls.call(command(part), undefined, attempt))
    return Promise.all(calls).then(replies => {
      const failure = replies.find(reply => reply instanceof StoreFailure)
      if (failure !== undefined && replies.every(reply => reply instanceof StoreFailure)) return failure
      const known = new Map<P, T>()
      for (const [i, reply] of replies.entries()) {
        const part = parts[i]!
        const answers = reply instanceof StoreFailure ? orElse(part) : read(part, reply)
        for (const [j, answer] of answers.entries()) known.set(part[j]!, answer)
      }
      return places.flatMap(place => (known.has(place) ? [known.get(place)!] : []))
    })
  }

  /** Places that can be asked about in one call: few, and on a cluster of one partition. */
  #parts<P extends Place>(places: readonly P[]): readonly (readonly P[])[] {
    const parts: P[][] = []
    const open = new Map<string, { readonly part: P[]; readonly partitions: Set<string> }>()
    for (const place of places) {
      const slot = this.#apart ? place.partition : ''
      let current = open.get(slot)
      const full =
        current !== undefined &&
        current.partitions.size >= MOST_PARTITIONS &&
        !current.partitions.has(place.partition)
      if (current === undefined || full || current.part.length >= MOST_PLACES) {
        current = { part: [], partitions: new Set() }
        open.set(slot, current)
        parts.push(current.part)
      }
      current.part.push(place)
      current.partitions.add(place.partition)
    }
    return parts
  }
}

const ofNothing = (place: Place): Charge => ({ ...place, units: 0 })

const answerOf = (limits: readonly ServiceLimit[]): Answer => ({ limits, source: 'redis' })

function answered(limits: Attempted<readonly ServiceLimit[]>): Attempted<Answer> {
  return whenKnown(limits, known => (known instanceof StoreFailure ? known : answerOf(known)))
}

/** The limits in the order of their charges. */
function inOrder(charges: readonly Charge[], limits: readonly ServiceLimit[]): Answer {
  const byPolicy = new Map(limits.map(limit => [limit.policy, limit]))
  return answerOf(charges.flatMap(({ policy }) => byPolicy.get(policy) ?? []))
}
