import type { QuotaPolicy } from '../../policy.js'
import type { PlanPart } from './plan-script.js'

/** Policies that always come together, in one order: their charges have a script of their own. */
export interface Plan {
  readonly keys: number
  readonly parts: readonly PlanPart[]
  /** Whose clock it goes by. */
  readonly clock: 'server' | 'caller'
}

/** How a policy is a part of plans. */
interface Part {
  readonly id: number
  /** Its parameters, if they are told with each call. */
  readonly words: readonly string[] | undefined
}

/** Policies of a plan; Lua has but 200 variables. */
const MOST_POLICIES = 8

/** Redis keeps each script: where plans and policies come and go, those beyond this have none. */
const MOST_PLANS = 256
const MOST_PARTS = 1024

/** The plans that are known, by what their scripts say. */
export class Plans {
  readonly #clock: Plan['clock']
  readonly #plans = new Map<string, Plan | undefined>()
  readonly #ids = new Map<string, number>()
  readonly #parts = new WeakMap<QuotaPolicy, Part>()

  constructor(clock: Plan['clock']) {
    this.#clock = clock
  }

  /** The plan of policies, each with the place of its key, from 1; `undefined`: they have none. */
  of(policies: readonly QuotaPolicy[], places: readonly number[]): Plan | undefined {
    if (policies.length > MOST_POLICIES) return undefined
    let id = ''
    for (let i = 0; i < policies.length; i++) id += `${places[i]!}:${this.#part(policies[i]!).id} `
    const known = this.#plans.get(id)
    if (known !== undefined || this.#plans.has(id)) return known
    if (this.#plans.size >= MOST_PLANS) return undefined
    const plan = this.#make(policies, places)
    this.#plans.set(id, plan)
    return plan
  }

  /** The parameters of a policy that are told with each call. */
  told(policy: QuotaPolicy): readonly string[] | undefined {
    return this.#part(policy).words
  }

  #part(policy: QuotaPolicy): Part {
    const known = this.#parts.get(policy)
    if (known !== undefined) return known
    const words = policy.params.map(String)
    // Of quotas that are a function of the request, and of reduced ones, there may be any number.
    const told =
      policy.quotaOf !== undefined || policy.reduction !== undefined || this.#ids.size >= MOST_PARTS
    const text = [policy.field, policy.algorithm.name, policy.shadow, ...(told ? [] : words)].join(' ')
    const id = this.#ids.get(text) ?? this.#ids.size
    this.#ids.set(text, id)
    const part = { id, words: told ? words : undefined }
    this.#parts.set(policy, part)
    return part
  }

  /** None, if a policy is asked twice about one partition: then the second is to know of the first. */
  #make(policies: readonly QuotaPolicy[], places: readonly number[]): Plan | undefined {
    const parts = policies.map((policy, i) => ({
      key: places[i]!,
      policy,
      told: this.#part(policy).words !== undefined
    }))
    const slots = new Set(parts.map(({ key, policy }) => `${key} ${policy.field}`))
    if (slots.size < parts.length) return undefined
    return { keys: new Set(places).size, parts, clock: this.#clock }
  }
}
