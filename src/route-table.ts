import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { FST_QUOTA_ROUTE } from './errors.js'
import { refuser } from './options.js'
import { adviceOnCosts, advertised, compilePlan, isAccompanied } from './plan.js'
import type { Plan } from './plan.js'
import type { Scope } from './registry.js'
import { redundant } from './redundant.js'
import { NO_WISH, readRouteQuota } from './route-quota.js'
import type { RouteWish } from './route-quota.js'
import { report } from './routes.js'
import type { RouteReport } from './routes.js'
import type { Warnings } from './warnings.js'

const entryOf: unique symbol = Symbol('fastify-quota.route')

/** A route, and its plan once all policies are known. */
interface Entry {
  readonly route: string
  readonly instance: FastifyInstance
  readonly wish: RouteWish
  plan: Plan | undefined
  /** Why there is no plan: every request of the route gets this. */
  error: Error | undefined
  /** How many policies there were then. */
  defined: number
}

/** The route of requests that match none; of others it has a method and a path. */
const UNMATCHED = '404'

type Config = Record<typeof entryOf, Entry | undefined>

/** The plans of a server's routes. Each is found through the `config` that Fastify keeps for the route alone. */
export class RouteTable {
  readonly #entries: Entry[] = []
  readonly #scopeOf: (instance: FastifyInstance) => Scope
  readonly #warnings: Warnings
  /** Whether there are routes that were declared before the plugin was loaded. */
  early = false
  /** Called before a plan is looked up, as long as plans may have to become others first. */
  due: (() => void) | undefined
  #compiled = false

  constructor(scopeOf: (instance: FastifyInstance) => Scope, warnings: Warnings) {
    this.#scopeOf = scopeOf
    this.#warnings = warnings
  }

  /**
   * Checks a route as it is declared.
   * @throws FST_QUOTA_ROUTE or FST_QUOTA_POLICY for what is wrong in its `config.quota`.
   */
  declare(instance: FastifyInstance, options: RouteOptions): void {
    const route = `${[options.method].flat().join(', ')} ${options.url}`
    const entry = this.#enter(instance, route, options.config?.quota)
    this.#entries.push(entry)
    // A copy: Fastify hands the same object to GET and HEAD, and an application may share it between routes.
    const config: object = { ...options.config, [entryOf]: entry }
    options.config = config
  }

  /**
   * Compiles the plans of all declared routes, now that all policies are known.
   * @throws FST_QUOTA_ROUTE for a policy that nobody has defined.
   */
  compile(): void {
    for (const entry of this.#entries) this.#plan(entry)
    this.#compiled = true
    this.#adviseOnIdle()
  }

  /**
   * Plans all routes anew, by the policies now in force: each request that comes from now on has a new plan, each that is in
   * hand keeps its own.
   * @throws FST_QUOTA_ROUTE where a route cannot have its policies as they are now; then all plans stay.
   */
  replan(): void {
    if (!this.#compiled) return
    const plans = this.#entries.map(entry => this.#layOut(entry))
    for (const [i, entry] of this.#entries.entries()) entry.plan = plans[i]
  }

  /** Tells again what is to be said about the plans of routes that have one of these policies. */
  advise(policies: readonly string[]): void {
    for (const entry of this.#entries) {
      if (entry.plan?.policies.some(({ name }) => policies.includes(name)) === true) this.#advise(entry)
    }
    this.#adviseOnIdle()
  }

  /** Whether no route was declared yet. */
  get empty(): boolean {
    return this.#entries.length === 0
  }

  /** Whether `reports` tells all routes, as they are decided. */
  get complete(): boolean {
    return this.#compiled && !this.early
  }

  /**
   * The plan of a request's route; `undefined`: it has no quota. A route declared before the plugin was loaded, and
   * unmatched requests, are planned at their first request.
   * @throws FST_QUOTA_ROUTE or FST_QUOTA_POLICY at every request of such a route, if its `config.quota` is wrong.
   */
  planOf(request: FastifyRequest): Plan | undefined {
    this.due?.()
    const config = request.routeOptions.config as unknown as Config
    const known = config[entryOf]
    const entry = known === undefined || this.#mayWork(known) ? this.#late(request, config, known) : known
    if (entry.error !== undefined) throw entry.error
    return entry.plan
  }

  /** The plan of a route that was declared; `undefined`: it has no quota, or is not known. */
  planIn(config: unknown): Plan | undefined {
    this.due?.()
    return (config as Config | undefined)?.[entryOf]?.plan
  }

  /** A route that failed may have named a policy that another early route has written in place since. */
  #mayWork({ error, instance, defined }: Entry): boolean {
    return error !== undefined && this.#scopeOf(instance).registry.policies.size > defined
  }

  /** The routes that have no policy, although they do not say `quota: false`. */
  get unlimited(): readonly string[] {
    return this.#entries
      .filter(({ plan, wish }) => plan === undefined && !wish.none)
      .map(({ route }) => route)
  }

  reports(): readonly RouteReport[] {
    this.due?.()
    return this.#entries
      .filter(({ route }) => route !== UNMATCHED)
      .map(({ route, plan }) => report(route, plan))
  }

  #enter(instance: FastifyInstance, route: string, quota: unknown): Entry {
    const scope = this.#scopeOf(instance)
    const wish = readRouteQuota(refuser(FST_QUOTA_ROUTE, `route ${route}`), quota)
    for (const reference of wish.references) {
      if (typeof reference === 'string') continue
      const { name, ...options } = reference
      scope.place(name, options)
    }
    return { route, instance, wish, plan: undefined, error: undefined, defined: 0 }
  }

  #plan(entry: Entry): void {
    entry.plan = this.#layOut(entry)
    this.#advise(entry)
  }

  #layOut({ route, instance, wish }: Entry): Plan | undefined {
    // The scope is asked for anew: the instance may have registered more since.
    return compilePlan(refuser(FST_QUOTA_ROUTE, `route ${route}`), this.#scopeOf(instance), wish)
  }

  #advise(entry: Entry): void {
    this.#warnings.give(adviceOnCosts(entry.route, entry.plan))
    const stages = entry.plan?.stages.filter(stage => stage !== undefined) ?? []
    if (stages.length > 1) this.#warnings.stages(entry.route, stages.map(({ hook }) => hook).join(', '))
    const told = advertised(entry.plan?.policies ?? [])
    const long = told.find(policy => policy.announcedWindow >= LONG && !isAccompanied(policy, told))
    if (long !== undefined) this.#warnings.longWindow(long.name, String(long.announcedWindow), entry.route)
  }

  /** Who never refuses is known if all routes are. */
  #adviseOnIdle(): void {
    if (!this.complete) return
    const [idle] = redundant(this.#entries.flatMap(({ plan }) => plan ?? []))
    if (idle !== undefined) this.#warnings.redundant(idle.policy, idle.behind)
  }

  #late(request: FastifyRequest, config: Config, failed: Entry | undefined): Entry {
    const route = request.is404 ? UNMATCHED : earlyRoute(request)
    const entry = this.#lateEntry(request, route, failed)
    config[entryOf] = entry
    return entry
  }

  #lateEntry(request: FastifyRequest, route: string, failed: Entry | undefined): Entry {
    const instance = request.server
    if (!request.is404) {
      this.early = true
      this.#warnings.earlyRoutes(route)
    }
    try {
      const entry = this.#enter(instance, route, request.routeOptions.config.quota)
      this.#plan(entry)
      this.#entries.push(entry)
      return entry
    } catch (error) {
      if (failed === undefined) {
        request.log.error({ err: error }, 'fastify-quota: a route is refused, for its quota cannot be read')
      }
      const defined = this.#scopeOf(instance).registry.policies.size
      return { route, instance, wish: NO_WISH, plan: undefined, error: error as Error, defined }
    }
  }
}

/** Seconds. */
const LONG = 3600

function earlyRoute({ routeOptions }: FastifyRequest): string {
  return `${[routeOptions.method].flat().join(', ')} ${routeOptions.url}`
}
