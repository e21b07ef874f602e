import type { FastifyRequest } from 'fastify'
import { decide, undecidable } from './decision.js'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION } from './errors.js'
import type { Leases } from './leases.js'
import type { PolicyChange, QuotaReduction, ReduceOptions, UpdateOptions } from './live.js'
import type { Later } from './later.js'
import { Ledger } from './ledger.js'
import { asObject, refuser, show } from './options.js'
import type { OpenApiTransform, SwaggerRoute } from './openapi.js'
import type { Parts } from './partition.js'
import type { QuotaPolicy } from './policy.js'
import type { Scope } from './registry.js'
import { checkUnits, policyNamed, quotaKnown, refuseLease, reserve } from './reserving.js'
import type { Published, Reservation } from './reserving.js'
import type { RouteReport } from './routes.js'
import type { Answer, Place, Store } from './store.js'
import { SubjectParts, partitionOf, requestOf } from './subject.js'
import type { Subject } from './subject.js'
import type { Services, RequestParts } from './visit.js'
import { remember } from './whose.js'

/** `app.quota`: the same quota, for code outside the hooks. */
export interface Quota {
  /**
   * Charges units by policy name, all or none, in one decision.
   * @throws FST_QUOTA_POLICY for an unknown policy, FST_QUOTA_OPTION for units that are no integer of 0 or more,
   * FST_QUOTA_SUBJECT when the subject lacks what a policy counts by. What `concurrency` counts has to be reserved.
   */
  consume(subject: Subject, charges: Readonly<Record<string, number>>): Promise<Decision>
  /**
   * Charges units before they are spent, to be settled after. A lease is renewed until it is settled or released.
   * @throws as `consume`.
   */
  reserve(subject: Subject, policy: string, units: number): Promise<Reservation>
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
  /**
   * Changes options of policies while the app serves: quotas, windows, algorithms. All at once or nothing: requests that
   * come from now on meet the new ones, those in hand end as they began. In this process only.
   * @returns What has changed; nothing for a policy that is as it was.
   * @throws FST_QUOTA_OPTION for an unknown policy, FST_QUOTA_POLICY and FST_QUOTA_ROUTE as when the app starts.
   */
  update(options: UpdateOptions): readonly PolicyChange[]
  /**
   * Lowers quotas for a time, and what clients are told of them, in this process only. Where several reductions meet, the
   * strictest holds. What was spent counts on, so its end restores all as it would be.
   * @throws FST_QUOTA_OPTION for a wrong option, and for a policy that nobody has defined; FST_QUOTA_POLICY for a quota that a
   * policy cannot count with. Then nothing has changed.
   */
  reduce(options: ReduceOptions): QuotaReduction
  /** Places of `concurrency` that requests and reservations of this app hold, by policy. */
  held(): Readonly<Record<string, number>>
  /** Where quota is counted. */
  readonly store: Store
  /** The routes and their policies. Not complete if routes were declared before the plugin was loaded. */
  routes(): { readonly complete: boolean; readonly routes: readonly RouteReport[] }
  /**
   * The option `transform` for `@fastify/swagger`: documents the refusals of each route with quota, the fields of its
   * responses, and its policies as `x-ratelimit-policies`. `transform` is your own one, if you have any; it comes first.
   * @throws FST_QUOTA_OPTION for a transform that is no function.
   */
  openapi<Route extends SwaggerRoute = SwaggerRoute>(
    transform?: OpenApiTransform<Route>
  ): OpenApiTransform<Route>
}

/** Of a server, what `app.quota` looks up. */
export interface Directory {
  /** The scope whose default policies a subject has. */
  scopeOf(request: FastifyRequest | undefined): Scope
  /** Who a request is from, as its decision knows it. */
  partsOf(request: FastifyRequest): RequestParts
  routes: Quota['routes']
  update: Quota['update']
  reduce: Quota['reduce']
  openapi: Quota['openapi']
}

/** Makes `app.quota`. */
export function createQuota(
  services: Services,
  leases: Leases,
  directory: Directory,
  published: Published
): Quota {
  const { registry, store } = services

  /** Where the policies named, or the default ones, count the subject. */
  const placesOf = async (
    call: string,
    subject: Subject,
    names: readonly string[] | undefined
  ): Promise<readonly Place[]> => {
    const request = requestOf(subject)
    checkNames(call, names)
    const policies =
      names === undefined
        ? directory.scopeOf(request).defaults()
        : names.map(name => policyNamed(registry, name))
    const parts = await partsOf(subject, policies)
    return policies.map(policy => ({ partition: partitionOf(policy, parts), policy }))
  }

  const partsOf = async (subject: Subject, policies: readonly QuotaPolicy[]): Promise<Parts> => {
    const request = requestOf(subject)
    if (request === undefined) {
      return new SubjectParts(
        subject as Readonly<Record<string, string>>,
        registry.identities,
        services.addressing
      )
    }
    const parts = directory.partsOf(request)
    await parts.identify([...new Set(policies.flatMap(policy => policy.rule.identities))])
    return parts
  }

  /** Asks the store about these places, but for those whose quota cannot be told. */
  const decideAt = async <P extends Place>(
    subject: Subject,
    places: readonly P[],
    ask: (charges: readonly P[]) => Later<Answer>
  ): Promise<Decision> => {
    const known = await Promise.all(places.map(place => withQuota(services, subject, place)))
    if (known.includes('closed')) return undecidable('closed', [])
    const charges = known.filter(place => typeof place === 'object')
    const nobody = charges.length === 0 && known.length > 0
    return remember(decide(charges, nobody ? NOBODY_KNOWS : await ask(charges), []), charges)
  }

  return {
    async consume(subject, charges) {
      const names = checkCharges(charges)
      const places = await placesOf('consume', subject, names)
      const priced = places.map((place, i) => ({ ...place, units: charges[names[i]!]! }))
      for (const { policy } of priced) refuseLease(policy, 'consumed')
      const decision = await decideAt(subject, priced, known => store.consume(known))
      published(decision, requestOf(subject))
      return decision
    },

    async reserve(subject, name, units) {
      checkUnits('units of reserve', units)
      const policy = policyNamed(registry, name)
      const parts = await partsOf(subject, [policy])
      const request = requestOf(subject)
      const reserver = { parts, ledger: new Ledger(store), request, whenAlive: undefined, refresh: () => {} }
      const reservation = await reserve(services, leases, reserver, policy, units)
      published(reservation, request)
      return reservation
    },

    async peek(subject, policies) {
      return decideAt(subject, await placesOf('peek', subject, policies), places => store.peek(places))
    },

    async reset(subject, policies) {
      await store.reset(await placesOf('reset', subject, policies))
    },

    held: () => leases.held,
    store,
    routes: directory.routes,
    update: directory.update,
    reduce: directory.reduce,
    openapi: directory.openapi
  }
}

const NOBODY_KNOWS: Answer = { limits: [], source: 'open' }

async function withQuota<P extends Place>(
  services: Services,
  subject: Subject,
  place: P
): Promise<P | 'open' | 'closed'> {
  const policy = await quotaKnown(services, requestOf(subject), place.policy)
  return typeof policy === 'string' ? policy : { ...place, policy }
}

const refuseCall = refuser(FST_QUOTA_OPTION, 'app.quota')

function checkCharges(charges: Readonly<Record<string, number>>): readonly string[] {
  const entries = Object.entries(asObject(refuseCall, 'charges of consume', charges))
  if (entries.length === 0)
    refuseCall('consume must charge at least one policy, such as { daily: 1 }, got {}')
  for (const [name, units] of entries) checkUnits(`units of policy ${show(name)}`, units)
  return entries.map(([name]) => name)
}

function checkNames(call: string, names: unknown): void {
  if (names === undefined || (Array.isArray(names) && names.every(name => typeof name === 'string'))) return
  refuseCall(`${call} takes a list of policy names, such as ['daily'], got ${show(names)}`)
}
