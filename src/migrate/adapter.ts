import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import type { Decision } from '../decision.js'
import { FST_QUOTA_OPTION } from '../errors.js'
import { attempt, whenKnown } from '../later.js'
import type { Later } from '../later.js'
import { OperatorFaults } from '../operator.js'
import { LARGEST_INTEGER } from '../options.js'
import type { Hook, PolicyOptions } from '../policy-options.js'
import type { Warnings } from '../warnings.js'
import { Answers } from './answers.js'
import { Callers, asks } from './callers.js'
import { Leftovers, leftoversOf } from './leftovers.js'
import type { Leftover } from './leftovers.js'
import { Routes, limitIn } from './routes.js'
import type { Limit, Max, Written } from './theirs.js'

/** The identity that stands for `keyGenerator`, whichever a route has. */
export const KEY = 'rate-limit-key'

/** Makes the plugin do what limits of theirs did. */
export class Adapter {
  readonly callers: Callers
  readonly #written: Written
  readonly #limit: Limit
  readonly #algorithm: PolicyOptions['algorithm']
  readonly #answers: Answers
  readonly #faults = new OperatorFaults()

  constructor(written: Written, limit: Limit, algorithm: PolicyOptions['algorithm']) {
    this.#written = written
    this.#limit = limit
    this.#algorithm = algorithm
    const limitOf = (request: FastifyRequest): Limit => this.#limitOf(request)
    this.callers = new Callers(limitOf)
    this.#answers = new Answers(limitOf, this.#faults)
  }

  /** The policy of all routes without a limit of their own. */
  get policy(): PolicyOptions {
    return this.#policyOf(this.#limit, this.#written)
  }

  /** A request is refused. @returns What the operator's function does, which may fail later. */
  refuse(decision: Decision, request: FastifyRequest): unknown {
    this.#answers.refuse(request, decision)
    return this.#limitOf(request).onExceeded?.(request, this.callers.keyOf(request))
  }

  /** Reads `config.rateLimit` of the routes of an app, which are declared from now on. */
  adapt(app: FastifyInstance, warnings: Warnings, further: readonly Leftover[]): void {
    const leftovers = new Leftovers()
    leftovers.add('of the plugin', [...leftoversOf(this.#written), ...further])
    const policyOf = (limit: Limit, written: Written): PolicyOptions => this.#policyOf(limit, written)
    const routes = new Routes(this.#written, policyOf, leftovers)
    app.addHook('onRoute', route => this.#watch(route, routes.adopt(route) ?? this.#limit))
    app.addHook('onReady', async () => warnings.give(leftovers.advice))
    app.addHook('onSend', (request, reply, payload, done) => {
      done(null, this.#answers.send(request, reply, payload))
    })
    refuseCalls(app)
  }

  #limitOf(request: FastifyRequest): Limit {
    return limitIn(request.routeOptions.config) ?? this.#limit
  }

  #policyOf(limit: Limit, written: Written): PolicyOptions {
    const { max, window, hook, allowList, skipOnError } = limit
    const isByKey = asks(limit) || limit.ipv6Subnet !== this.#limit.ipv6Subnet
    return {
      quota: typeof max === 'function' ? request => this.#quotaOf(max, request) : max,
      window,
      algorithm: this.#algorithm ?? 'fixed-window',
      hook: hookOf(hook),
      ...(isByKey ? { partition: KEY } : {}),
      ...(typeof allowList === 'function' || allowList.length > 0 ? { exempt: this.callers.isListed } : {}),
      ...(written['skipOnError'] === undefined ? {} : { onStoreFailure: skipOnError ? 'open' : 'closed' })
    }
  }

  /** What is no number stays none, which the plugin refuses. */
  #quotaOf(max: Max, request: FastifyRequest): Later<number> {
    return whenKnown(max(request, this.callers.keyOf(request)), most =>
      Math.trunc(Math.min(Math.max(0, most), LARGEST_INTEGER))
    )
  }

  /** Tells of the requests that are served. */
  #watch(route: RouteOptions, { hook, onExceeding }: Limit): void {
    if (onExceeding === undefined) return
    const tell = async (request: FastifyRequest): Promise<void> => {
      const { outcome, limits } = request.quota
      if (outcome !== 'allowed' || limits.length === 0) return
      attempt(
        () => onExceeding(request, this.callers.keyOf(request)),
        error => this.#faults.report(request.log, 'onExceeding', error, 'nobody was told')
      )
    }
    route[hookOf(hook)] = [route[hookOf(hook)] ?? [], tell].flat() as never
  }
}

/** Theirs came after all hooks of `onRequest`, whoever had registered them, and so does `preParsing`. */
const hookOf = (hook: Hook): Hook => (hook === 'onRequest' ? 'preParsing' : hook)

/** What theirs decorates an app with. */
const CALLS = {
  rateLimit:
    'name policies in config.quota of the route; requests that match no route have the default ones anyway',
  createRateLimit:
    "write app.quota.consume(request, { policy: 1 }), and app.quota.peek(request, ['policy']) to look only"
} as const

/** Who calls what is not here any more reads what to write instead. */
function refuseCalls(app: FastifyInstance): void {
  for (const [name, advice] of Object.entries(CALLS)) {
    if (app.hasDecorator(name)) continue
    app.decorate<() => never, string>(name, () => {
      throw new FST_QUOTA_OPTION(`app.${name}() is not carried over: ${advice}`)
    })
  }
}
