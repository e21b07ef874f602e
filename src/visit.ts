import type { FastifyReply, FastifyRequest } from 'fastify'
import { NO_ADDRESS } from './address.js'
import type { Addressing } from './address.js'
import { UNDECIDED } from './decision.js'
import type { Decision } from './decision.js'
import { Ending } from './ending.js'
import { isLater } from './later.js'
import type { Life } from './leases.js'
import { Ledger } from './ledger.js'
import type { Newcomers } from './newcomers.js'
import type { OperatorFaults } from './operator.js'
import { identityPart, routePart } from './partition.js'
import type { Parts } from './partition.js'
import type { Plan } from './plan.js'
import type { Registry } from './registry.js'
import type { RequestQuota } from './request-quota.js'
import { WrittenFields } from './response.js'
import type { Place, ServiceLimit, Store } from './store.js'
import type { Warnings } from './warnings.js'

/** What a server knows about telling requests apart. */
export interface Identification {
  readonly registry: Registry
  readonly addressing: Addressing
  readonly faults: OperatorFaults
  readonly warnings: Warnings
}

/** What a server decides with: policies, addresses, the store, and whom to tell. */
export interface Services extends Identification {
  readonly store: Store
  /** Sees who comes back, until that is known of all policies. */
  newcomers?: Newcomers | undefined
}

/** Who a request is from. Nothing is looked up before a partition asks for it. */
export class RequestParts implements Parts {
  readonly identities: (string | undefined)[]
  /** Identities that were empty when they were asked for. */
  #empty: Set<number> | undefined
  /** Identities that are asked for and not known yet. */
  #waiting: Map<number, Promise<void>> | undefined
  readonly #request: FastifyRequest
  readonly #by: Identification
  #address: string | undefined

  constructor(request: FastifyRequest, by: Identification) {
    this.#request = request
    this.#by = by
    this.identities = new Array<string | undefined>(by.registry.identities.length)
  }

  get address(): string {
    if (this.#address !== undefined) return this.#address
    this.#address = this.#by.addressing(this.#request.ip, this.#request.socket.remoteAddress)
    if (this.#address === NO_ADDRESS) this.#by.warnings.noAddress()
    return this.#address
  }

  get route(): string {
    return routePart(this.#request.method, this.#request.routeOptions.url)
  }

  /** Asks for identities that are not known: an empty one may be known at a later hook. A promise if one has to be waited for. */
  identify(indices: readonly number[]): Promise<unknown> | undefined {
    let waiting: Promise<void>[] | undefined
    for (const index of indices) {
      if (this.identities[index] !== undefined) continue
      const answer = this.#waiting?.get(index) ?? this.#askOnce(index)
      if (isLater(answer)) (waiting ??= []).push(answer)
    }
    return waiting === undefined ? undefined : Promise.all(waiting)
  }

  /** The name of an identity that was empty when it was asked for and is known now. */
  async late(): Promise<string | undefined> {
    for (const index of this.#empty ?? []) {
      if (this.identities[index] !== undefined) continue
      await this.#ask(index)
      if (this.identities[index] !== undefined) return this.#by.registry.identities[index]
    }
    return undefined
  }

  /** Whether an identity was asked for and is empty. */
  get nameless(): boolean {
    if (this.#empty === undefined) return false
    for (const index of this.#empty) {
      if (this.identities[index] === undefined && this.#waiting?.has(index) !== true) return true
    }
    return false
  }

  #askOnce(index: number): void | Promise<void> {
    const answer = this.#ask(index)
    if (!isLater(answer)) return
    const waiting = (this.#waiting ??= new Map())
    const known = answer.then(() => void waiting.delete(index))
    waiting.set(index, known)
    return known
  }

  #ask(index: number): void | Promise<void> {
    try {
      const identity = this.#by.registry.identify[index]!(this.#request)
      if (!isLater(identity)) return this.#learn(index, identity)
      return Promise.resolve(identity)
        .then(value => this.#learn(index, value))
        .catch(error => this.#report(index, error))
    } catch (error) {
      this.#report(index, error)
    }
  }

  #learn(index: number, identity: unknown): void {
    const part = identityPart(this.#by.registry.identities[index]!, identity)
    if (part === undefined) (this.#empty ??= new Set()).add(index)
    else this.identities[index] = part
  }

  #report(index: number, error: unknown): void {
    ;(this.#empty ??= new Set()).add(index)
    const option = `identify.${this.#by.registry.identities[index]!}`
    this.#by.faults.report(this.#request.log, option, error, 'the request counts by its address')
  }
}

const NO_PLACES: readonly Place[] = Object.freeze([])

/** What one request has been through. */
export class Visit {
  /** The route's plan; `undefined` before it is known, and for routes without quota. */
  plan: Plan | undefined
  readonly parts: RequestParts
  readonly ledger: Ledger
  decision: Decision = UNDECIDED
  /** The stages from this one on are still to come. */
  nextStage = 0
  /** Where its policies have counted it. */
  places: readonly Place[] = NO_PLACES
  /** Where the body is charged as it arrives. */
  metered: readonly Place[] = NO_PLACES
  /** What was written to the response. */
  readonly sheet: WrittenFields = new WrittenFields()
  /** Whether what was written is no longer what is left. */
  stale = false
  /** `request.quota`, if somebody has looked at it. */
  view: RequestQuota | undefined
  /** Whether its refunds will be asked for at its end. */
  refunding = false
  readonly #request: FastifyRequest
  #reply: FastifyReply | undefined
  #life: Life | undefined
  /** Who waits for the reply to be known. */
  #waiting: ((life: Life) => void)[] | undefined

  constructor(request: FastifyRequest, services: Services) {
    this.#request = request
    this.parts = new RequestParts(request, services)
    this.ledger = new Ledger(services.store)
  }

  /** The request comes to the hooks. An earlier hook may have asked for its life before. */
  meet(reply: FastifyReply): void {
    this.#reply = reply
    if (this.#waiting === undefined) return
    for (const told of this.#waiting) told(this.life)
  }

  /** Its end, watched from the first time somebody asks; only after it has come to the hooks. */
  get life(): Life {
    this.#life ??= { ending: new Ending(this.#request, this.#reply!), reply: this.#reply! }
    return this.#life
  }

  /** Tells of its life, as soon as it is known. */
  whenAlive(told: (life: Life) => void): void {
    if (this.#reply === undefined) (this.#waiting ??= []).push(told)
    else told(this.life)
  }

  /** Takes over what policies have left now. */
  refresh(limits: readonly ServiceLimit[]): void {
    if (limits.length === 0) return
    this.stale = true
    const fresh = new Map(limits.map(limit => [limit.policy.name, limit]))
    this.decision = {
      ...this.decision,
      limits: this.decision.limits.map(limit => {
        const { remaining, effectiveWindow } = fresh.get(limit.policy.name) ?? limit
        return { ...limit, remaining, effectiveWindow }
      })
    }
  }
}
