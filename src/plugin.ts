import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { addressing } from './address.js'
import { named, reportBoot } from './boot-report.js'
import type { Decision } from './decision.js'
import { Enforcement, start } from './enforcement.js'
import type { Proceed } from './enforcement.js'
import { FST_QUOTA_OPTION, FST_QUOTA_POLICY, asError } from './errors.js'
import { createJitter } from './jitter.js'
import { Leases } from './leases.js'
import { LivePolicies } from './live.js'
import type { Admission } from './live.js'
import { joinedOccasion } from './occasion.js'
import { createTransform } from './openapi.js'
import type { Documented } from './openapi.js'
import { Newcomers } from './newcomers.js'
import { OperatorFaults } from './operator.js'
import { show } from './options.js'
import { createPartitionKey } from './partition-key.js'
import type { Plan } from './plan.js'
import { createQuota } from './quota.js'
import type { Directory, Quota } from './quota.js'
import { refusalBody } from './refusal-body.js'
import { Registry, Scope } from './registry.js'
import { RequestView } from './request-quota.js'
import type { RequestQuota } from './request-quota.js'
import { sendRefusal } from './response.js'
import type { Wire } from './response.js'
import { watchStore } from './store-watch.js'
import { RouteTable } from './route-table.js'
import type { RouteQuota } from './route-quota.js'
import { adapt, checkCap, checkFurtherSettings, readSettings } from './settings.js'
import type { QuotaOptions, Settings } from './settings.js'
import { Visit } from './visit.js'
import type { Services } from './visit.js'
import { createWarnings } from './warnings.js'
import type { Warnings } from './warnings.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route's quota; see `RouteQuota`. Left out: the default policies. */
    quota?: RouteQuota
  }
  interface FastifyRequest {
    /** What was decided about this request so far, and what may still be corrected; never null. */
    readonly quota: RequestQuota
  }
  interface FastifyReply {
    /** Answers with a refused decision: status, fields and body are those of the hook's own refusals. */
    refuse(decision: Decision): FastifyReply
  }
  interface FastifyInstance {
    readonly quota: Quota
  }
}

const visitOf: unique symbol = Symbol('fastify-quota.visit')

interface VisitingRequest extends FastifyRequest {
  /** `undefined` in scopes that were loaded before the plugin: their requests lack the decorator. */
  [visitOf]: Visit | null | undefined
}

/** The scopes of all registrations, by the instance they were made on. */
const scopes = new WeakMap<object, Scope>()

/** Instances with a first registration further in. */
const outside = new WeakSet<object>()

/** The innermost scope around an instance. */
function scopeOf(instance: object | null): Scope | undefined {
  for (let at = instance; at !== null; at = parentOf(at)) {
    const scope = scopes.get(at)
    if (scope !== undefined) return scope
  }
  return undefined
}

/** What an instance inherits from: the instance around it. */
const parentOf = (instance: object): object | null => Object.getPrototypeOf(instance) as object | null

const register: FastifyPluginAsync<QuotaOptions> = async (app, options) => {
  const around = scopeOf(app)
  if (around !== undefined) return extend(app, around, options)
  claim(app)
  const settings = readSettings(options)
  const registry = new Registry()
  if (options.identify !== undefined) registry.addIdentities(options.identify)
  const scope = new Scope(registry)
  scope.add(options.policies)
  scopes.set(app, scope)
  const warnings = createWarnings()
  options[adapt]?.(app, warnings)
  await serve(app, scope, settings, warnings)
}

/**
 * Makes the app's first registration the only one that decides in its scope.
 * @throws FST_QUOTA_OPTION if a scope further in has a first registration of its own, which would decide beside it.
 */
function claim(app: FastifyInstance): void {
  if (outside.has(app)) {
    throw new FST_QUOTA_OPTION(
      'fastify-quota: a scope inside this one has registered it already: register the outer one first'
    )
  }
  for (let at = parentOf(app); at !== null; at = parentOf(at)) outside.add(at)
}

/** A further registration adds its policies to the routes of its scope; hooks and settings stay the first one's. */
function extend(app: FastifyInstance, around: Scope, options: QuotaOptions): void {
  checkFurtherSettings(options)
  if (options.identify !== undefined) around.registry.addIdentities(options.identify)
  const scope = scopes.get(app) ?? new Scope(around.registry, () => scopeOf(parentOf(app)))
  scope.add(options.policies)
  scopes.set(app, scope)
}

/** The first registration of a scope: decorators, hooks, one decision for each request. */
async function serve(
  app: FastifyInstance,
  scope: Scope,
  settings: Settings,
  warnings: Warnings
): Promise<void> {
  const { registry } = scope
  const { store } = settings
  const faults = new OperatorFaults()
  const services: Services = {
    registry,
    store,
    addressing: addressing(settings.ipv6Prefix),
    faults,
    warnings,
    newcomers: new Newcomers(
      settings.clock,
      () => registry.policies.keys(),
      policy => warnings.newcomers(policy)
    )
  }
  const leases = new Leases(store, error =>
    faults.report(app.log, 'store', error, 'leases may be held until they end by themselves')
  )
  const wire: Wire = {
    ...settings,
    ...refusalBody(settings.problem, faults),
    jitter: createJitter(settings.jitter),
    partitionKey: createPartitionKey(settings.partitionKey, store, faults)
  }
  const enforcement = new Enforcement(services, leases, wire, settings)
  const table = new RouteTable(instance => scopeOf(instance)!, warnings)
  const publish = enforcement.publish.bind(enforcement)
  let endings = false
  const admission: Admission = {
    check(policy) {
      const objection = store.expect?.(policy)
      if (objection !== undefined) throw new FST_QUOTA_POLICY(`policy ${show(policy.name)}: ${objection}`)
    },
    adopt(policy) {
      warnings.give(policy.advice)
      if (policy.algorithm.renew !== undefined) leases.expect(policy)
      endings ||= policy.algorithm.renew !== undefined || policy.refund !== undefined
    }
  }
  const live = new LivePolicies(registry, table, admission, app.log, settings.clock)
  registry.onDefine(policy => {
    admission.check(policy)
    admission.adopt(policy)
    live.join()
  })

  const documented: Documented = {
    planOf: ({ config }) => table.planIn(config),
    fields: settings.fields,
    body: settings.problem === undefined ? 'draft' : settings.problem === false ? 'fastify' : 'own'
  }
  const directory: Directory = {
    scopeOf: request => (request === undefined ? scope : scopeOf(request.server)!),
    partsOf: request => visit(request).parts,
    routes: () => ({ complete: table.complete, routes: table.reports() }),
    update: options => live.update(options),
    reduce: options => live.reduce(options),
    openapi: transform => createTransform(documented, transform)
  }

  app.decorate('quota', createQuota(services, leases, directory, publish))
  app.decorateRequest(visitOf, null)
  app.decorateRequest('quota', {
    getter() {
      const visited = visit(this)
      visited.view ??= new RequestView(services, leases, this, visited, publish)
      return visited.view
    }
  })
  app.decorateReply('refuse', refuse)
  app.addHook('onRoute', function (route) {
    table.declare(this, route)
  })
  app.addHook('onReady', async () => {
    table.compile()
    if (table.empty && !isRoot(app)) warnings.noRoutes()
    if (table.complete) checkCap(settings.cap, registry.policies.values())
    if (table.unlimited.length > 0) warnings.unlimited(named(table.unlimited))
    reportBoot(app.log, settings, {
      limited: table.reports().filter(({ policies }) => policies.length > 0).length,
      early: table.early,
      policies: registry.policies.size,
      warnings: warnings.given
    })
  })
  app.addHook('onRequest', (request, reply, done) => {
    let plan: Plan | undefined
    try {
      plan = table.planOf(request)
      if (plan !== undefined && !isPreflight(request))
        enforcement.arrive(request, reply, visit(request), plan)
      else if (endings) visit(request).meet(reply) // a handler may reserve
    } catch (error) {
      return done(asError(error))
    }
    enforce(0, request, reply, done)
  })
  app.addHook('preParsing', (request, reply, body, done) => {
    const known = (request as VisitingRequest)[visitOf]
    if (!known) return done(null, body)
    const turn = enforcement.enforce(1, request, reply, known)
    if (turn === 0) return done(null, enforcement.meter(request, reply, known, body))
    start(turn, known, error =>
      error === undefined ? done(null, enforcement.meter(request, reply, known, body)) : done(error)
    )
  })
  app.addHook('preValidation', (request, reply, done) => enforce(2, request, reply, done))
  app.addHook('preHandler', (request, reply, done) => enforce(3, request, reply, done))
  app.addHook('onSend', (request, reply, payload, done) => {
    const known = (request as VisitingRequest)[visitOf]
    done(null, known ? enforcement.leave(reply, known, payload) : payload)
  })
  const unwatch = watchStore(store, app.log)
  app.addHook('onClose', async () => {
    leases.close()
    await store.close()
    unwatch()
  })
  const early = isRoot(app) ? routesOf(app) : []
  if (early.length > 0) {
    table.early = true
    warnings.earlyRoutes(early.join(', '))
  }
  await store.open?.()

  function enforce(index: number, request: FastifyRequest, reply: FastifyReply, proceed: Proceed): void {
    const known = (request as VisitingRequest)[visitOf]
    if (!known) return proceed()
    const turn = enforcement.enforce(index, request, reply, known)
    if (turn === 0) return proceed()
    start(turn, known, proceed)
  }

  /** What a request has been through; nothing yet, if nobody has asked. */
  function visit(request: FastifyRequest): Visit {
    return ((request as VisitingRequest)[visitOf] ??= new Visit(request, services))
  }

  function refuse(this: FastifyReply, decision: Decision): FastifyReply {
    checkRefused(decision)
    const visited = visit(this.request)
    visited.stale = false // what follows is about this decision, whatever else was settled
    enforcement.tell(decision, this.request)
    return sendRefusal(wire, this, visited.sheet, decision, joinedOccasion(visited, decision))
  }
}

function checkRefused(decision: Decision | undefined): void {
  if (decision?.outcome === 'refused' && Array.isArray(decision.limits)) return
  const got = decision?.outcome === undefined ? show(decision) : `one that is ${decision.outcome}`
  throw new FST_QUOTA_OPTION(`reply.refuse takes a refused decision, got ${got}`)
}

function isPreflight(request: FastifyRequest): boolean {
  if (request.method !== 'OPTIONS') return false
  const { headers } = request
  return headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

const isRoot = (app: FastifyInstance): boolean => parentOf(app) === Object.prototype

/** The routes that an app has by now, but for the one that @fastify/cors answers preflights with. */
function routesOf(app: FastifyInstance): readonly string[] {
  const above: string[] = []
  const routes: string[] = []
  for (const line of app.printRoutes({ commonPrefix: false }).split('\n')) {
    const [, indent, path, methods] = /^(.*[├└]── )(.*) \(([^)]+)\)/.exec(line) ?? []
    if (indent === undefined) continue
    above.length = indent.length / 4 - 1
    above.push(path!)
    routes.push(`${methods} ${above.join('')}`)
  }
  return routes.filter(route => route !== 'OPTIONS *')
}

/**
 * The plugin. Register it with {@link QuotaOptions}; registered again in a child scope, it adds policies there.
 * @throws FST_QUOTA_OPTION, FST_QUOTA_POLICY or FST_QUOTA_ROUTE while the app starts, for anything written wrongly.
 */
export const quota: FastifyPluginAsync<QuotaOptions> = fp(register, { name: 'fastify-quota', fastify: '5.x' })
