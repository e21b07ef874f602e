import { isDeepStrictEqual } from 'node:util'
import type { RouteOptions } from 'fastify'
import { FST_QUOTA_ROUTE } from '../errors.js'
import { refuser, show } from '../options.js'
import type { Refuse } from '../options.js'
import type { PolicyOptions } from '../policy-options.js'
import type { PolicyReference, RouteQuota } from '../route-quota.js'
import { createDeprecation, leftoversOf } from './leftovers.js'
import type { Leftovers } from './leftovers.js'
import { policyName } from './names.js'
import { readRoute } from './theirs.js'
import type { Limit, Written } from './theirs.js'

const limitOf: unique symbol = Symbol('fastify-quota.rate-limit')

interface Config {
  readonly rateLimit?: unknown
  readonly quota?: RouteQuota
  readonly [limitOf]?: Limit
}

/** The limit of a route with a `rateLimit` of its own, by its `config`. */
export const limitIn = (config: unknown): Limit | undefined => (config as Config)[limitOf]

/** A policy that several routes may have, and what the first of them has written. */
interface Shared {
  readonly written: Written
  readonly policy: PolicyReference
}

/** The routes of an app, as they are declared: what their `config.rateLimit` says becomes their `config.quota`. */
export class Routes {
  readonly #plugin: Written
  readonly #policyOf: (limit: Limit, written: Written) => PolicyOptions
  readonly #leftovers: Leftovers
  readonly #deprecate = createDeprecation()
  readonly #policies = new Map<string, Shared>()

  constructor(
    plugin: Written,
    policyOf: (limit: Limit, written: Written) => PolicyOptions,
    leftovers: Leftovers
  ) {
    this.#plugin = plugin
    this.#policyOf = policyOf
    this.#leftovers = leftovers
  }

  /**
   * @returns The limit that the route has for itself, if it has one.
   * @throws FST_QUOTA_ROUTE for a `rateLimit` that cannot be carried over.
   */
  adopt(route: RouteOptions): Limit | undefined {
    const config = (route.config ?? {}) as Config
    const { rateLimit, quota } = config
    if (rateLimit === undefined || rateLimit === null) return undefined
    const name = nameOf(route)
    const refuse = refuser(FST_QUOTA_ROUTE, `route ${name}: rateLimit`)
    if (quota !== undefined) refuse('there is a quota beside it: expected one of the two, got both')
    this.#deprecate(name)
    if (rateLimit === false) {
      configure(route, { ...config, quota: false })
      return undefined
    }
    if (typeof rateLimit !== 'object') refuse(`it must be false or an object, got ${show(rateLimit)}`)
    const { written, limit } = readRoute(refuse, this.#plugin, rateLimit)
    const policy = this.#policy(refuse, route, limit, written)
    configure(route, { ...config, quota: [policy], [limitOf]: limit })
    return limit
  }

  /** The policy of a route: its own, which HEAD shares with GET, or that of its group, which is one counter. */
  #policy(refuse: Refuse, route: RouteOptions, limit: Limit, written: Written): PolicyReference {
    const { groupId } = limit
    const text = groupId === undefined ? textOf(route).replace(/^HEAD /, 'GET ') : `group ${groupId}`
    const known = this.#policies.get(text)
    if (known === undefined) return this.#define(text, route, limit, written)
    if (isDeepStrictEqual(known.written, written)) return known.policy
    if (groupId === undefined) return this.#define(textOf(route), route, limit, written)
    return refuse(
      `the routes of a group share one counter, so those of ${show(groupId)} need the same options, got other ones than before`
    )
  }

  #define(text: string, route: RouteOptions, limit: Limit, written: Written): PolicyReference {
    const policy = { name: policyName(text), ...this.#policyOf(limit, written) }
    this.#policies.set(text, { written, policy })
    this.#leftovers.add(nameOf(route), leftoversOf(written))
    return policy
  }
}

function configure(route: RouteOptions, config: Config): void {
  route.config = config as NonNullable<RouteOptions['config']>
}

const nameOf = ({ method, url }: RouteOptions): string => `${[method].flat().join(',')} ${url}`

/** What a route is told from others by: the same path may have several, for hosts or versions. */
function textOf(route: RouteOptions): string {
  const { constraints = {} } = route
  return Object.keys(constraints).length === 0
    ? nameOf(route)
    : `${nameOf(route)} ${JSON.stringify(constraints)}`
}
