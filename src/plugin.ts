import { channel } from 'node:diagnostics_channel'
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  HookHandlerDoneFunction
} from 'fastify'
import fp from 'fastify-plugin'
import { addressing } from './address.js'
import { decideStage, giveBack } from './charging.js'
import type { Office } from './charging.js'
import { UNDECIDED, join } from './decision.js'
import type { Decision } from './decision.js'
import { FST_QUOTA_OPTION } from './errors.js'
import { checkForwarding } from './forwarded.js'
import { isLater, whenKnown } from './later.js'
import { OperatorFaults } from './operator.js'
import { policyField } from './plan.js'
import type { Plan } from './plan.js'
import { createQuota } from './quota.js'
import type { Quota } from './quota.js'
import { refusalBody } from './refusal-body.js'
import { Registry, Scope } from './registry.js'
import { FieldSheet, correctFields, sendRefusal, writeFields } from './response.js'
import type { Wire } from './response.js'
import { RouteTable } from './route-table.js'
import type { RouteQuota } from './route-quota.js'
import { checkFurtherSettings, readSettings } from './settings.js'
import type { QuotaOptions, Settings } from './settings.js'
import { RequestParts, Visit } from './visit.js'
import { createWarnings } from './warnings.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route's quota; see `RouteQuota`. Left out: the default policies. */
    quota?: RouteQuota
  }
  interface FastifyRequest {
    /** What was decided about this request so far; never null. */
    readonly quota: Decision
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
  serve(app, scope, settings)
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
function serve(app: FastifyInstance, scope: Scope, settings: Settings): void {
  const { registry } = scope
  const { store } = settings
  const warnings = createWarnings()
  const faults = new OperatorFaults()
  const office: Office = { registry, store, addressing: addressing(settings.ipv6Prefix), faults, warnings }
  const wire: Wire = { ...settings, ...refusalBody(settings.problem, faults) }
  const table = new RouteTable(instance => scopeOf(instance)!, warnings)
  const decisions = channel('fastify-quota:decision')
  let forwardingSeen = false
  let lateAsked = -Infinity

  app.decorate('quota', createQuota(office, scope, routes, publish))
  app.decorateRequest(visitOf, null)
  app.decorateRequest('quota', { getter: decided })
  app.decorateReply('refuse', refuse)
  app.addHook('onRoute', function (route) {
    table.declare(this, route)
  })
  app.addHook('onReady', async () => table.compile())
  app.addHook('onRequest', (request, reply, done) => {
    if (arrive(request as VisitingRequest)) enforce(0, request, reply, done)
    else done()
  })
  app.addHook('preParsing', (request, reply, _payload, done) => enforce(1, request, reply, done))
  app.addHook('preValidation', (request, reply, done) => enforce(2, request, reply, done))
  app.addHook('preHandler', (request, reply, done) => enforce(3, request, reply, done))
  app.addHook('onSend', (request, reply, payload, done) => {
    done(null, leave(request, reply, payload))
  })
  app.addHook('onClose', async () => store.close())
  const early = isRoot(app) ? routesOf(app) : []
  if (early.length > 0) {
    table.early = true
    warnings.earlyRoutes(early.join(', '))
  }

  /** Whether there is anything to decide about a request. */
  function arrive(request: VisitingRequest): boolean {
    const plan = table.planOf(request)
    if (plan === undefined || isPreflight(request)) return false
    forwardingSeen ||= checkForwarding(request, warnings)
    request[visitOf] = new Visit(plan, new RequestParts(request, office))
    return true
  }

  function enforce(
    index: number,
    request: FastifyRequest,
    reply: FastifyReply,
    done: HookHandlerDoneFunction
  ): void {
    const visit = (request as VisitingRequest)[visitOf]
    if (!visit || index < visit.nextStage) return done()
    visit.nextStage = index + 1
    const stage = visit.plan.stages[index]
    if (stage === undefined) return done()
    const decision = decideStage(office, request, visit, stage)
    if (isLater(decision)) decision.then(value => conclude(value, request, reply, visit, done), done)
    else conclude(decision, request, reply, visit, done)
  }

  function conclude(
    decision: Decision,
    request: FastifyRequest,
    reply: FastifyReply,
    visit: Visit,
    done: HookHandlerDoneFunction
  ): void {
    visit.decision = join(visit.decision, decision)
    publish(decision, request)
    if (decision.outcome !== 'refused') {
      writeFields(wire, reply, visit.sheet, visit.decision, visit.plan.policyField)
      return done()
    }
    const told = whenKnown(giveBack(store, visit), () => {
      tell(visit.decision, request)
      sendRefusal(wire, reply, visit.sheet, visit.decision, visit.plan.policyField)
    })
    if (isLater(told)) told.then(undefined, done)
  }

  /** The response goes out: returns its payload. */
  function leave(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
    const visit = (request as VisitingRequest)[visitOf]
    if (!visit) return payload
    if (!warnings.lateIdentity.emitted && visit.decision.outcome === 'allowed' && visit.parts.nameless)
      askAgain(visit)
    return correctFields(reply, visit.sheet, payload)
  }

  /** At most once a second: an app may have many nameless requests, and they are no mistake. */
  function askAgain({ parts }: Visit): void {
    const now = performance.now()
    if (now - lateAsked < 1000) return
    lateAsked = now
    void parts.late().then(name => name !== undefined && warnings.lateIdentity(name))
  }

  function publish(decision: Decision, request: FastifyRequest | undefined): void {
    if (decisions.hasSubscribers) decisions.publish({ decision, request })
  }

  function tell(decision: Decision, request: FastifyRequest): void {
    const { onRefused } = settings
    if (onRefused === undefined) return
    const report = (error: unknown): void => faults.report(request.log, 'onRefused', error, 'nobody was told')
    try {
      const told: unknown = onRefused(decision, request)
      if (isLater(told)) told.catch(report)
    } catch (error) {
      report(error)
    }
  }

  function routes(): ReturnType<Quota['routes']> {
    return { complete: table.complete, routes: table.reports() }
  }

  function refuse(this: FastifyReply, decision: Decision): FastifyReply {
    if (decision.outcome !== 'refused') {
      throw new FST_QUOTA_OPTION(`reply.refuse takes a refused decision, got one that is ${decision.outcome}`)
    }
    const visit = (this.request as VisitingRequest)[visitOf]
    return sendRefusal(
      wire,
      this,
      visit?.sheet ?? new FieldSheet(),
      decision,
      policyFieldWith(visit?.plan, decision)
    )
  }
}

/** A refusal names no policy that the policies field does not list: those of other routes join it. */
function policyFieldWith(plan: Plan | undefined, { limits }: Decision): string {
  const own = plan?.policies ?? []
  const others = limits.map(({ policy }) => policy).filter(policy => !own.includes(policy))
  return plan !== undefined && others.length === 0 ? plan.policyField : policyField([...own, ...others])
}

function decided(this: FastifyRequest): Decision {
  return (this as VisitingRequest)[visitOf]?.decision ?? UNDECIDED
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}

const isRoot = (app: FastifyInstance): boolean => parentOf(app) === Object.prototype

/** The routes that an app has by now, but for the one that @fastify/cors answers preflights with. */
function routesOf(app: FastifyInstance): readonly string[] {
  const tree = app.printRoutes({ commonPrefix: false }).split('\n')
  return tree
    .filter(line => line.includes('─'))
    .map(line => line.replaceAll(/[─│├└]/g, '').trim())
    .filter(route => route !== '* (OPTIONS)')
}

/**
 * The plugin. Register it with {@link QuotaOptions}; registered again in a child scope, it adds policies there.
 * @throws FST_QUOTA_OPTION, FST_QUOTA_POLICY or FST_QUOTA_ROUTE while the app starts, for anything written wrongly.
 */
export const quota: FastifyPluginAsync<QuotaOptions> = fp(register, { name: 'fastify-quota', fastify: '5.x' })
