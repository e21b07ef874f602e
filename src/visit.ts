import type { FastifyRequest } from 'fastify'
import { NO_ADDRESS } from './address.js'
import type { Addressing } from './address.js'
import { UNDECIDED } from './decision.js'
import type { Decision } from './decision.js'
import { isLater } from './later.js'
import type { OperatorFaults } from './operator.js'
import { identityPart, routePart } from './partition.js'
import type { Parts } from './partition.js'
import type { Plan } from './plan.js'
import type { Registry } from './registry.js'
import { FieldSheet } from './response.js'
import type { Settlement } from './store.js'
import type { Warnings } from './warnings.js'

/** What a server knows about telling requests apart. */
export interface Identification {
  readonly registry: Registry
  readonly addressing: Addressing
  readonly faults: OperatorFaults
  readonly warnings: Warnings
}

/** Who a request is from. Nothing is looked up before a partition asks for it. */
export class RequestParts implements Parts {
  readonly identities: (string | undefined)[] = []
  readonly #asked: boolean[] = []
  readonly #request: FastifyRequest
  readonly #by: Identification
  #address: string | undefined

  constructor(request: FastifyRequest, by: Identification) {
    this.#request = request
    this.#by = by
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

  /** Asks for identities that were not asked for yet; a promise if one of the operator's functions returns one. */
  identify(indices: readonly number[]): Promise<unknown> | undefined {
    let waiting: Promise<void>[] | undefined
    for (const index of indices) {
      if (this.#asked[index] === true) continue
      this.#asked[index] = true
      const answer = this.#ask(index)
      if (isLater(answer)) (waiting ??= []).push(answer)
    }
    return waiting === undefined ? undefined : Promise.all(waiting)
  }

  /** The name of an identity that was empty when it was asked for and is known now. */
  async late(): Promise<string | undefined> {
    for (const [index, name] of this.#by.registry.identities.entries()) {
      if (this.#asked[index] !== true || this.identities[index] !== undefined) continue
      await this.#ask(index)
      if (this.identities[index] !== undefined) return name
    }
    return undefined
  }

  /** Whether an identity was asked for and empty. */
  get nameless(): boolean {
    return this.#asked.some((asked, index) => asked && this.identities[index] === undefined)
  }

  #ask(index: number): void | Promise<void> {
    try {
      const identity = this.#by.registry.identify[index]!(this.#request)
      if (!isLater(identity)) return this.#learn(index, identity)
      return identity.then(value => this.#learn(index, value)).catch(error => this.#report(index, error))
    } catch (error) {
      this.#report(index, error)
    }
  }

  #learn(index: number, identity: unknown): void {
    this.identities[index] = identityPart(this.#by.registry.identities[index]!, identity)
  }

  #report(index: number, error: unknown): void {
    const option = `identify.${this.#by.registry.identities[index]!}`
    this.#by.faults.report(this.#request.log, option, error, 'the request counts by its address')
  }
}

/** What one request has been through. */
export class Visit {
  readonly plan: Plan
  readonly parts: RequestParts
  decision: Decision = UNDECIDED
  /** The stages from this one on are still to come. */
  nextStage = 0
  /** What was charged, so that a later refusal can give it back. */
  charged: Omit<Settlement, 'actual'>[] = []
  /** What was written to the response. */
  readonly sheet: FieldSheet = new FieldSheet()

  constructor(plan: Plan, parts: RequestParts) {
    this.plan = plan
    this.parts = parts
  }
}
