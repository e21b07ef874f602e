import type { FastifyBaseLogger } from 'fastify'
import { FST_QUOTA_OPTION, FST_QUOTA_POLICY } from './errors.js'
import { asDuration, asObject, knownKeys, refuser, show, suggestion } from './options.js'
import type { Refuse } from './options.js'
import type { Duration, PolicyOptions, ShortPolicy } from './policy-options.js'
import { readPolicyOptions } from './policy-options.js'
import { compilePolicy, sameMeaning } from './policy.js'
import type { QuotaPolicy, Reduction } from './policy.js'
import type { Registry } from './registry.js'
import type { RouteTable } from './route-table.js'
import { termsOf } from './routes.js'
import type { PolicyTerms } from './routes.js'

/** What `app.quota.update` takes. */
export interface UpdateOptions {
  /** By name, what is to be another one of each policy's options; the others stay. `undefined` goes back to a default. */
  readonly policies: Readonly<Record<string, Partial<PolicyOptions> | ShortPolicy>>
}

/** What became of one policy. */
export interface PolicyChange {
  readonly policy: string
  readonly from: PolicyTerms
  readonly to: PolicyTerms
  /** Whether what was spent counts on; `false`: the policy counts anew, for its algorithm, window or partition is another. */
  readonly carriesOver: boolean
}

/** What `app.quota.reduce` takes. */
export interface ReduceOptions {
  /** What quotas are multiplied with, above 0 and at most 1: rounded down, but at least 1; a quota of 0 stays 0. */
  readonly factor: number
  /** How long, as a window is written. */
  readonly for: Duration
  /** Why, in a few words that clients are told. */
  readonly reason: string
  /** The policies that are reduced; default: all. */
  readonly policies?: readonly string[] | undefined
}

/** Quotas that are lower for the time being. */
export interface QuotaReduction {
  /** Whether it is neither over nor ended. */
  readonly active: boolean
  /** Ends it now. */
  end(): void
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
  readonly #clock: () => number
  /** As they were updated last. */
  #updated: ReadonlyMap<string, QuotaPolicy> = new Map()
  #reductions: readonly Lowered[] = []

  /** `clock` tells milliseconds. */
  constructor(
    registry: Registry,
    table: RouteTable,
    admission: Admission,
    log: FastifyBaseLogger,
    clock: () => number
  ) {
    this.#registry = registry
    this.#table = table
    this.#admission = admission
    this.#log = log
    this.#clock = clock
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
      const updated = new Map([...this.#updated, ...updates.map(policy => [policy.name, policy] as const)])
      this.#put(updated, this.#reductions)
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
    if (this.#registry.policies !== this.#registry.written) this.#put(this.#updated, this.#reductions)
  }

  /**
   * Lowers quotas for a time. Of several reductions the strictest holds; what was spent counts on, then and afterwards.
   * @throws FST_QUOTA_OPTION for a wrong option, FST_QUOTA_POLICY for a quota that a policy cannot count with; then nothing
   * has changed.
   */
  reduce(written: unknown): QuotaReduction {
    const lowered = this.#readReduction(written)
    this.#put(this.#updated, [...this.#living(), lowered])
    const { factor, reason, until } = lowered
    const policies = lowered.policies ?? 'all'
    this.#log.info({ factor, reason, policies, until }, 'fastify-quota: quotas are reduced')
    const isActive = (): boolean => this.#living().includes(lowered)
    return {
      get active() {
        return isActive()
      },
      end: () => this.#end(lowered)
    }
  }

  #readReduction(written: unknown): Lowered {
    const options = readKeys('reduce', written, ['factor', 'for', 'reason', 'policies'])
    const { factor, reason, policies } = options
    if (typeof factor !== 'number' || !(factor > 0 && factor <= 1))
      refuseReduction(`factor must be a number above 0 and at most 1, got ${show(factor)}`)
    if (typeof reason !== 'string' || !REASON.test(reason))
      refuseReduction(
        `reason must be 1 to 200 characters on one line, which clients are told, got ${show(reason)}`
      )
    const until = this.#clock() + asDuration(refuseReduction, 'for', options['for'])
    return { factor, reason, until, policies: policies === undefined ? undefined : this.#readNames(policies) }
  }

  #readNames(names: unknown): readonly string[] {
    if (!Array.isArray(names) || names.length === 0)
      return refuseReduction(`policies must be a list of policy names, such as ['daily'], got ${show(names)}`)
    const known = [...this.#registry.written.keys()]
    const wanted = names as readonly string[]
    const at = wanted.findIndex(name => !known.includes(name))
    if (at < 0) return [...wanted]
    const stranger: unknown = wanted[at]
    const hint = suggestion(String(stranger), known) || `; expected ${known.map(show).join(', ')}`
    return refuseReduction(`policies names ${show(stranger)}, which is no policy${hint}`)
  }

  #living(): readonly Lowered[] {
    const now = this.#clock()
    return this.#reductions.filter(({ until }) => until > now)
  }

  #end(lowered: Lowered): void {
    if (!this.#reductions.includes(lowered)) return
    this.#put(
      this.#updated,
      this.#living().filter(each => each !== lowered)
    )
    this.#log.info({ reason: lowered.reason }, 'fastify-quota: a reduction has ended')
  }

  /** Called before policies and plans are looked up, while there are reductions. */
  readonly #due = (): void => {
    const living = this.#living()
    if (living.length === this.#reductions.length) return
    this.#put(this.#updated, living)
    this.#log.info('fastify-quota: a reduction is over')
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
  #put(updated: ReadonlyMap<string, QuotaPolicy>, reductions: readonly Lowered[]): void {
    this.#watch(undefined)
    const before = this.#registry.policies
    try {
      this.#registry.enforce(this.#inForce(updated, reductions, before))
      this.#table.replan()
      this.#updated = updated
      this.#reductions = reductions
    } catch (error) {
      this.#registry.enforce(before)
      throw error
    } finally {
      this.#watch(this.#reductions.length === 0 ? undefined : this.#due)
    }
  }

  /** Policies that stay as they are stay the same objects. */
  #inForce(
    updated: ReadonlyMap<string, QuotaPolicy>,
    reductions: readonly Lowered[],
    before: ReadonlyMap<string, QuotaPolicy>
  ): ReadonlyMap<string, QuotaPolicy> {
    const inForce = new Map([...this.#registry.written, ...updated])
    for (const [name, policy] of inForce) {
      const strictest = reductions
        .filter(({ policies }) => policies === undefined || policies.includes(name))
        .toSorted((one, other) => one.factor - other.factor)[0]
      if (strictest === undefined) continue
      const reduced = policy.reducedBy({ factor: strictest.factor, reason: strictest.reason })
      const known = before.get(name)
      inForce.set(name, known !== undefined && sameMeaning(known, reduced) ? known : reduced)
    }
    return inForce
  }

  #watch(due: (() => void) | undefined): void {
    this.#registry.due = due
    this.#table.due = due
  }
}

/** A reduction, of all policies if it names none. */
interface Lowered extends Reduction {
  readonly policies: readonly string[] | undefined
  /** Milliseconds of the clock. */
  readonly until: number
}

const REASON = /^[^\p{Cc}\p{Zl}\p{Zp}]{1,200}$/u

const refuseReduction: Refuse = refuser(FST_QUOTA_OPTION, 'app.quota.reduce')
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
