import type { FastifyRequest } from 'fastify'
import { NO_ADDRESS } from './address.js'
import type { Addressing } from './address.js'
import { decide } from './decision.js'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION, FST_QUOTA_POLICY, FST_QUOTA_SUBJECT } from './errors.js'
import { LARGEST_INTEGER, show, suggestion } from './options.js'
import { identityPart } from './partition.js'
import type { Parts } from './partition.js'
import { isUnits } from './policy.js'
import type { QuotaPolicy } from './policy.js'
import type { Scope } from './registry.js'
import type { RouteReport } from './routes.js'
import type { Charge, Store } from './store.js'
import { RequestParts } from './visit.js'
import type { Identification } from './visit.js'

/**
 * Whose quota a call is about: a request, or its identities, such as `{ user: '42' }`, `{ ip: '203.0.113.9' }`,
 * `{ route: 'GET /items' }`. Identities that are left out are empty, as on a request without them.
 */
export type Subject = FastifyRequest | Readonly<Record<string, string>>

/** `app.quota`: the same quota, for code outside the hooks. */
export interface Quota {
  /**
   * Charges units by policy name, all or none, in one decision.
   * @throws FST_QUOTA_POLICY for an unknown policy, FST_QUOTA_OPTION for units that are no integer of 0 or more,
   * FST_QUOTA_SUBJECT when the subject lacks what a policy counts by.
   */
  consume(subject: Subject, charges: Readonly<Record<string, number>>): Promise<Decision>
  /**
   * What is left, for no units: of the policies named, or of the default ones. Changes nothing.
   * @throws as `consume`.
   */
  peek(subject: Subject, policies?: readonly string[]): Promise<Decision>
  /**
   * Forgets what the subject has spent: of the policies named, or of the default ones.
   * @throws as `consume`.
   */
  reset(subject: Subject, policies?: readonly string[]): Promise<void>
  /** The routes and their policies. Not complete if routes were declared before the plugin was loaded. */
  routes(): { readonly complete: boolean; readonly routes: readonly RouteReport[] }
}

interface Office extends Identification {
  readonly store: Store
}

/** Makes `app.quota`. `published` is told of each decision of `consume`. */
export function createQuota(
  office: Office,
  scope: Scope,
  routes: Quota['routes'],
  published: (decision: Decision, request: FastifyRequest | undefined) => void
): Quota {
  const policyOf = (name: string): QuotaPolicy => {
    const policy = office.registry.policies.get(name)
    if (policy !== undefined) return policy
    const hint = suggestion(name, [...office.registry.policies.keys()])
    throw new FST_QUOTA_POLICY(`no policy is named ${show(name)}${hint}`)
  }

  const places = async (
    subject: Subject,
    names: readonly string[] | undefined
  ): Promise<readonly Omit<Charge, 'units'>[]> => {
    const policies = names === undefined ? scope.defaults() : names.map(policyOf)
    const parts = await partsOf(office, subject, policies)
    return policies.map(policy => ({ partition: policy.rule.resolve(parts), policy }))
  }

  return {
    async consume(subject, charges) {
      const units = Object.values(charges)
      const wrong = units.findIndex(value => !isUnits(value))
      if (wrong >= 0) {
        const option = `units of policy ${show(Object.keys(charges)[wrong])}`
        const expected = `an integer from 0 to ${LARGEST_INTEGER}`
        throw new FST_QUOTA_OPTION(`consume: ${option} must be ${expected}, got ${show(units[wrong])}`)
      }
      const priced = (await places(subject, Object.keys(charges))).map((place, i) => ({
        ...place,
        units: units[i]!
      }))
      const decision = decide(priced, await office.store.consume(priced), [])
      published(decision, isRequest(subject) ? subject : undefined)
      return decision
    },

    async peek(subject, policies) {
      const charges = await places(subject, policies)
      return decide(charges, await office.store.peek(charges), [])
    },

    async reset(subject, policies) {
      await office.store.reset(await places(subject, policies))
    },

    routes
  }
}

function isRequest(subject: Subject): subject is FastifyRequest {
  return typeof subject.raw === 'object'
}

async function partsOf(office: Office, subject: Subject, policies: readonly QuotaPolicy[]): Promise<Parts> {
  if (!isRequest(subject)) return new SubjectParts(subject, office.registry.identities, office.addressing)
  const parts = new RequestParts(subject, office)
  await parts.identify([...new Set(policies.flatMap(policy => policy.rule.identities))])
  return parts
}

/** The parts of a subject that is written by hand. Nothing that is missing is invented. */
class SubjectParts implements Parts {
  readonly identities: readonly (string | undefined)[]
  readonly #subject: Readonly<Record<string, string>>
  readonly #addressing: Addressing

  constructor(
    subject: Readonly<Record<string, string>>,
    identities: readonly string[],
    addressing: Addressing
  ) {
    const known = ['ip', 'route', ...identities]
    for (const name of Object.keys(subject)) {
      if (known.includes(name)) continue
      const hint = suggestion(name, known) || `; expected ${known.join(', ')}`
      throw new FST_QUOTA_SUBJECT(`a subject has no identity ${show(name)}${hint}`)
    }
    this.#subject = subject
    this.#addressing = addressing
    this.identities = identities.map(name => this.#identity(name))
  }

  get address(): string {
    const address = this.#addressing(this.#required('ip'), undefined)
    if (address === NO_ADDRESS) throw new FST_QUOTA_SUBJECT("the subject's ip is no address")
    return address
  }

  get route(): string {
    return `route:${this.#required('route').replace(/^HEAD /, 'GET ')}`
  }

  #identity(name: string): string | undefined {
    try {
      return identityPart(name, this.#value(name))
    } catch {
      throw new FST_QUOTA_SUBJECT(`identity ${show(name)} of a subject must be a string`)
    }
  }

  #value(name: string): string | undefined {
    return Object.hasOwn(this.#subject, name) ? this.#subject[name] : undefined
  }

  #required(name: string): string {
    const value = this.#value(name)
    if (typeof value === 'string' && value !== '') return value
    // Names only: an identity may be a secret.
    const got = Object.keys(this.#subject).join(', ') || 'nothing'
    throw new FST_QUOTA_SUBJECT(`the subject needs ${show(name)} for the policies asked for, got ${got}`)
  }
}
