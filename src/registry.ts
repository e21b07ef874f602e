import { FST_QUOTA_OPTION, FST_QUOTA_POLICY } from './errors.js'
import { asFunction, asObject, refuser, show, suggestion } from './options.js'
import type { Refuse } from './options.js'
import { checkIdentityName } from './partition.js'
import { compilePolicy, sameDefinition } from './policy.js'
import type { QuotaPolicy } from './policy.js'
import type { FastifyRequest } from 'fastify'

/** Tells who a request is from, as authentication has verified it; `undefined`, `null` and `''` mean nobody. */
export type Identify = (request: FastifyRequest) => Identity | Promise<Identity>
export type Identity = string | number | bigint | null | undefined

/** All policies and identities of a server. A name is one policy and one counter everywhere. */
export class Registry {
  readonly identities: string[] = []
  readonly identify: Identify[] = []
  /** Called before policies are looked up, as long as they may have to become others first. */
  due: (() => void) | undefined
  readonly #written = new Map<string, QuotaPolicy>()
  #inForce: ReadonlyMap<string, QuotaPolicy> = this.#written
  #defined: ((policy: QuotaPolicy) => void) | undefined

  /** The policies in force. */
  get policies(): ReadonlyMap<string, QuotaPolicy> {
    this.due?.()
    return this.#inForce
  }

  /** The policies as they were defined, whatever they have become since. */
  get written(): ReadonlyMap<string, QuotaPolicy> {
    return this.#written
  }

  /** Puts policies of the same names in force. */
  enforce(policies: ReadonlyMap<string, QuotaPolicy>): void {
    this.#inForce = policies
  }

  /** Tells of every policy: of those there are now, and of each that a route or scope will define. */
  onDefine(defined: (policy: QuotaPolicy) => void): void {
    this.#defined = defined
    for (const policy of this.#written.values()) defined(policy)
  }

  /** @throws FST_QUOTA_OPTION for a wrong name, or one that is taken by another function. */
  addIdentities(written: unknown): void {
    const refuse = refuser(FST_QUOTA_OPTION, 'fastify-quota')
    for (const [name, value] of Object.entries(asObject(refuse, 'identify', written))) {
      checkIdentityName(name)
      const identify = asFunction(refuse, `identify.${name}`, value as Identify)
      const known = this.identities.indexOf(name)
      if (known >= 0 && this.identify[known] !== identify) {
        refuse(`identify.${name} is taken by another function, and a name is one identity everywhere`)
      }
      if (known >= 0) continue
      this.identities.push(name)
      this.identify.push(identify)
    }
  }

  /**
   * The policy of this name as it is written, made now if there is none.
   * @throws FST_QUOTA_POLICY if it is written wrongly, or the name is taken by another one.
   */
  define(name: string, written: unknown): QuotaPolicy {
    const known = this.#written.get(name)
    if (known === undefined) {
      const policy = compilePolicy(name, written, this.identities)
      this.#written.set(name, policy)
      try {
        this.#defined?.(policy)
      } catch (error) {
        this.#written.delete(name)
        throw error
      }
      return policy
    }
    if (sameDefinition(known, written, this.identities)) return known
    throw new FST_QUOTA_POLICY(
      `policy ${show(name)}: the name is taken by a policy with other options, and a name is one policy everywhere`
    )
  }
}

/** The policies that routes of one registration can name: its own and those of the registrations around it. */
export class Scope {
  readonly registry: Registry
  readonly #around: () => Scope | undefined
  readonly #names = new Set<string>()
  readonly #defaults = new Set<string>()

  /** @param around finds the scope around this one; asked each time, for that one may be registered later. */
  constructor(registry: Registry, around: () => Scope | undefined = () => undefined) {
    this.registry = registry
    this.#around = around
  }

  /** Adds the `policies` of a registration. */
  add(written: unknown): void {
    const refuse = refuser(FST_QUOTA_OPTION, 'fastify-quota')
    const policies = Object.entries(asObject(refuse, 'policies', written))
    if (policies.length === 0) refuse('policies must name at least one policy, got {}')
    for (const [name, options] of policies) {
      const policy = this.place(name, options)
      if (policy.default) this.#defaults.add(name)
    }
  }

  /** Adds a policy that is written in place, in a route. */
  place(name: string, written: unknown): QuotaPolicy {
    const policy = this.registry.define(name, written)
    this.#names.add(name)
    return policy
  }

  /** The policies of routes that name none, those of outer registrations first. */
  defaults(): readonly QuotaPolicy[] {
    const { policies } = this.registry
    return this.#namesOfDefaults().map(name => policies.get(name)!)
  }

  #namesOfDefaults(): readonly string[] {
    const around = this.#around()
    const outer = around === undefined ? [] : around.#namesOfDefaults()
    return [...new Set([...outer, ...this.#defaults])]
  }

  /** @throws by `refuse` for a name that is not known here. */
  find(refuse: Refuse, name: string): QuotaPolicy {
    const policy = this.registry.policies.get(name)
    const names = this.#known()
    if (policy !== undefined && names.includes(name)) return policy
    if (policy !== undefined) {
      refuse(`policy ${show(name)} is defined elsewhere: define it in a registration around this route`)
    }
    return refuse(`no policy is named ${show(name)}${suggestion(name, names) || `; expected ${few(names)}`}`)
  }

  #known(): readonly string[] {
    const around = this.#around()
    return [...this.#names, ...(around === undefined ? [] : around.#known())]
  }
}

function few(names: readonly string[]): string {
  const shown = names.slice(0, 5).map(show).join(', ')
  return names.length > 5 ? `${shown}, …` : shown
}
