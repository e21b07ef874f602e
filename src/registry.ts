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
  readonly policies: Map<string, QuotaPolicy> = new Map()

  /** @throws FST_QUOTA_OPTION for a wrong name, or one that is taken by another function. */
  addIdentities(written: unknown): void {
    const refuse = refuser(FST_QUOTA_OPTION, 'identify')
    for (const [name, value] of Object.entries(asObject(refuse, 'identify', written))) {
      checkIdentityName(name)
      const identify = asFunction(refuse, name, value as Identify)
      const known = this.identities.indexOf(name)
      if (known >= 0 && this.identify[known] !== identify)
        refuse(`${show(name)} is taken by another function`)
      if (known >= 0) continue
      this.identities.push(name)
      this.identify.push(identify)
    }
  }

  /**
   * The policy of this name, made now if there is none.
   * @throws FST_QUOTA_POLICY if it is written wrongly, or the name is taken by another one.
   */
  define(name: string, written: unknown): QuotaPolicy {
    const known = this.policies.get(name)
    if (known === undefined) {
      const policy = compilePolicy(name, written, this.identities)
      this.policies.set(name, policy)
      return policy
    }
    if (sameDefinition(known, written)) return known
    throw new FST_QUOTA_POLICY(
      `policy ${show(name)}: the name is taken by a policy with other options, and a name is one policy everywhere`
    )
  }
}

/** The policies that routes of one registration can name: its own and those of the registrations around it. */
export class Scope {
  readonly registry: Registry
  readonly #parent: Scope | undefined
  readonly #policies = new Map<string, QuotaPolicy>()
  readonly #defaults = new Set<QuotaPolicy>()

  constructor(registry: Registry, parent?: Scope) {
    this.registry = registry
    this.#parent = parent
  }

  /** Adds the `policies` of a registration. */
  add(written: unknown): void {
    const refuse = refuser(FST_QUOTA_OPTION, 'policies')
    const policies = Object.entries(asObject(refuse, 'policies', written))
    if (policies.length === 0) refuse('policies must name at least one policy, got {}')
    for (const [name, options] of policies) {
      const policy = this.place(name, options)
      if (policy.default) this.#defaults.add(policy)
    }
  }

  /** Adds a policy that is written in place, in a route. */
  place(name: string, written: unknown): QuotaPolicy {
    const policy = this.registry.define(name, written)
    this.#policies.set(name, policy)
    return policy
  }

  /** The policies of routes that name none, those of outer registrations first. */
  defaults(): readonly QuotaPolicy[] {
    return [...new Set([...(this.#parent?.defaults() ?? []), ...this.#defaults])]
  }

  /** @throws by `refuse` for a name that is not known here. */
  find(refuse: Refuse, name: string): QuotaPolicy {
    return this.#lookUp(name) ?? refuse(`no policy is named ${show(name)}${suggestion(name, this.#names())}`)
  }

  #lookUp(name: string): QuotaPolicy | undefined {
    return this.#policies.get(name) ?? (this.#parent === undefined ? undefined : this.#parent.#lookUp(name))
  }

  #names(): readonly string[] {
    return [...this.#policies.keys(), ...(this.#parent === undefined ? [] : this.#parent.#names())]
  }
}
