import type { FastifyBaseLogger } from 'fastify'
import { FST_QUOTA_OPTION, FST_QUOTA_POLICY } from './errors.js'
import { asObject, knownKeys, refuser, show, suggestion } from './options.js'
import type { Refuse } from './options.js'
import type { AlgorithmName, PolicyOptions, ShortPolicy } from './policy-options.js'
import { readPolicyOptions } from './policy-options.js'
import { compilePolicy, sameMeaning } from './policy.js'
import type { QuotaPolicy } from './policy.js'
import type { Registry } from './registry.js'
import type { RouteTable } from './route-table.js'

/** What `app.quota.update` takes. */
export interface UpdateOptions {
  /** By name, what is to be another one of each policy's options; the others stay. `undefined` goes back to a default. */
  readonly policies: Readonly<Record<string, Partial<PolicyOptions> | ShortPolicy>>
}

/** What became of one policy. */
export interface PolicyChange {
  readonly policy: string
  readonly from: Terms
  readonly to: Terms
  /** Whether what was spent counts on; `false`: the policy counts anew, for its algorithm, window or partition is another. */
  readonly carriesOver: boolean
}

interface Terms {
  /** `'by request'`: it is a function of the request. */
  readonly quota: number | 'by request'
  /** Milliseconds; `undefined`: what counts at once has none. */
  readonly window: number | undefined
  readonly algorithm: AlgorithmName
  readonly mode: 'enforce' | 'shadow'
}

/** What has to know of a policy before it is in force, and when it is. */
export interface Admission {
  /** @throws FST_QUOTA_POLICY for a policy that cannot be counted here. */
  check(policy: QuotaPolicy): void
  adopt(policy: QuotaPolicy): void
}

/**
 * Changes the policies of a server while it serves. All is prepared first: policies are compiled, the store is asked, routes
 * are planned. Then all plans are exchanged in one turn of the event loop, so no request meets half of a change.
 */
export class LivePolicies {
  readonly #registry: Registry
  readonly #table: RouteTable
  readonly #admission: Admission
  readonly #log: FastifyBaseLogger
  /** As they were updated last. */
  #updated: ReadonlyMap<string, QuotaPolicy> = new Map()

  constructor(registry: Registry, table: RouteTable, admission: Admission, log: FastifyBaseLogger) {
    this.#registry = registry
    this.#table = table
    this.#admission = admission
    this.#log = log
  }

  /** @throws FST_QUOTA_OPTION, FST_QUOTA_POLICY or FST_QUOTA_ROUTE; then nothing has changed. */
  update(written: unknown): readonly PolicyChange[] {
    const policies = this.#readUpdate(written)
    const updates = policies.filter(policy => !sameMeaning(policy, this.#current(policy.name)))
    const changes = updates.map(policy => changeOf(this.#current(policy.name), policy))
    if (changes.length === 0) return changes
    const before = updates.map(({ name }) => this.#current(name))
    try {
      for (const policy of updates) this.#admission.check(policy)
      this.#put(new Map([...this.#updated, ...updates.map(policy => [policy.name, policy] as const)]))
    } catch (error) {
      for (const policy of before) this.#admission.check(policy)
      throw error
    }
    for (const policy of updates) this.#admission.adopt(policy)
    this.#table.advise(updates.map(({ name }) => name))
    this.#log.info({ changes }, 'fastify-quota: policies have changed')
    return changes
  }

  /** A policy was defined: it joins those in force, if they are not those that were written any more. */
  join(): void {
    if (this.#registry.policies !== this.#registry.written) this.#put(this.#updated)
  }

  #readUpdate(written: unknown): readonly QuotaPolicy[] {
    const { policies } = readKeys('update', written, ['policies'])
    const entries = Object.entries(asObject(refuseUpdate, 'policies', policies))
    if (entries.length === 0) refuseUpdate('policies must name at least one policy, got {}')
    return entries.map(([name, options]) => this.#compile(name, options))
  }

  #compile(name: string, options: unknown): QuotaPolicy {
    const current = this.#registry.written.has(name) ? this.#current(name) : this.#refuseStranger(name)
    const refuse = refuser(FST_QUOTA_POLICY, `policy ${show(name)}`)
    if (options === undefined || options === null || options === false) {
      refuse(
        `a policy is not removed while the app runs, for routes were checked against it when it started: update it, for ` +
          `example to mode 'shadow', got ${show(options)}`
      )
    }
    const merged = { ...(current.written as object), ...readPolicyOptions(refuse, options) }
    const policy = compilePolicy(name, merged, this.#registry.identities)
    if (policy.unit !== current.unit) {
      refuse(
        `unit stays ${show(current.unit)}, for what was spent is counted in it: define another policy, got ${show(policy.unit)}`
      )
    }
    if (policy.default === current.default) return policy
    return refuse(
      `default stays ${current.default}, for routes were checked against it when the app started, got ${policy.default}`
    )
  }

  #refuseStranger(name: string): never {
    const names = [...this.#registry.written.keys()]
    return refuseUpdate(
      `policies names ${show(name)}, which is no policy, and none is added while the app runs, for routes were checked ` +
        `against them when it started${suggestion(name, names) || `; expected ${names.map(show).join(', ')}`}`
    )
  }

  #current(name: string): QuotaPolicy {
    return this.#updated.get(name) ?? this.#registry.written.get(name)!
  }

  /** Puts policies in force, or leaves all as it is if a route cannot be planned with them. */
  #put(updated: ReadonlyMap<string, QuotaPolicy>): void {
    const before = this.#registry.policies
    const inForce = new Map([...this.#registry.written, ...updated])
    this.#registry.enforce(inForce)
    try {
      this.#table.replan()
    } catch (error) {
      this.#registry.enforce(before)
      throw error
    }
    this.#updated = updated
  }
}

const refuseUpdate: Refuse = refuser(FST_QUOTA_OPTION, 'app.quota.update')

function readKeys(
  call: string,
  written: unknown,
  keys: readonly string[]
): Readonly<Record<string, unknown>> {
  const refuse = refuser(FST_QUOTA_OPTION, `app.quota.${call}`)
  const options = asObject(refuse, 'options', written)
  knownKeys(refuse, options, keys)
  return options
}

function changeOf(from: QuotaPolicy, to: QuotaPolicy): PolicyChange {
  return {
    policy: to.name,
    from: termsOf(from),
    to: termsOf(to),
    carriesOver: from.field === to.field && from.rule.label === to.rule.label
  }
}

const termsOf = ({ quotaOf, quota, window, algorithm, exact, shadow }: QuotaPolicy): Terms => ({
  quota: quotaOf === undefined ? quota : 'by request',
  window: window === 0 ? undefined : window,
  algorithm: (exact ? 'sliding-window-log' : algorithm.name) as AlgorithmName,
  mode: shadow ? 'shadow' : 'enforce'
})
