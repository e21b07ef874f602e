import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { addressing } from '../src/address.js'
import { decideStage, giveBack } from '../src/charging.js'
import type { Office } from '../src/charging.js'
import { join } from '../src/decision.js'
import type { Decision } from '../src/decision.js'
import { FST_QUOTA_ROUTE } from '../src/errors.js'
import type { Later } from '../src/later.js'
import { OperatorFaults } from '../src/operator.js'
import { refuser } from '../src/options.js'
import { compilePlan } from '../src/plan.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import { memoryStore } from '../src/stores/memory.js'
import { RequestParts, Visit } from '../src/visit.js'
import { createWarnings } from '../src/warnings.js'
import type { QuotaOptions } from '../src/index.js'

interface Case {
  readonly office: Office
  readonly visit: Visit
  /** Decides the stages one after the other. */
  readonly decide: () => readonly Later<Decision>[]
}

function visit(policies: QuotaOptions['policies']): Case {
  const store = memoryStore()
  t.teardown(() => store.close())
  store.useClock(() => 1000)
  const registry = new Registry()
  const scope = new Scope(registry)
  scope.add(policies)
  const office: Office = {
    registry,
    store,
    addressing: addressing(64),
    faults: new OperatorFaults(),
    warnings: createWarnings()
  }
  const refuse = refuser(FST_QUOTA_ROUTE, 'route GET /')
  const plan = compilePlan(refuse, scope, 'GET /', readRouteQuota(refuse, undefined))!
  const request = { ip: '192.0.2.1', socket: {} } as FastifyRequest
  const visit = new Visit(plan, new RequestParts(request, office))
  const stages = plan.stages.filter(stage => stage !== undefined)
  return { office, visit, decide: () => stages.map(stage => decideStage(office, request, visit, stage)) }
}

t.test('with a store that answers at once nothing is waited for', async t => {
  const { office, visit: one, decide } = visit({ any: '9/1m' })
  const [decision] = decide()
  t.notOk(decision instanceof Promise)
  t.equal((decision as Decision).outcome, 'allowed')
  t.equal(giveBack(office.store, one), undefined)
})

t.test('a cost that is known later is waited for', async t => {
  const [decision] = visit({ any: { quota: 9, window: '1m', cost: async () => 2 }, other: '9/1m' }).decide()
  t.ok(decision instanceof Promise)
  t.strictSame(
    (await decision)?.limits.map(({ units }) => units),
    [2, 1]
  )
})

t.test('what was charged is kept, and given back once', async t => {
  const {
    office,
    visit: one,
    decide
  } = visit({
    first: { quota: 9, window: '1m', hook: 'onRequest', cost: 3 },
    trial: { quota: 9, window: '1m', hook: 'onRequest', mode: 'shadow' },
    free: { quota: 9, window: '1m', cost: 0 }
  })
  for (const decision of decide()) one.decision = join(one.decision, decision as Decision)
  t.strictSame(
    one.charged.map(({ policy, partition, charges }) => [policy.name, partition, charges]),
    [
      ['first', 'ip:192.0.2.1', [{ at: 1000, units: 3 }]],
      ['trial', 'ip:192.0.2.1', [{ at: 1000, units: 1 }]]
    ]
  )
  const remaining = (): unknown => one.decision.limits.map(limit => [limit.policy.name, limit.remaining])
  t.strictSame(remaining(), [
    ['first', 6],
    ['free', 9]
  ])
  giveBack(office.store, one)
  t.strictSame(remaining(), [
    ['first', 9],
    ['free', 9]
  ])
  t.strictSame(one.charged, [])
  giveBack(office.store, one)
})

t.test('what refuses charges nothing that would have to be given back', async t => {
  const { visit: one, decide } = visit({ never: '0/1m', any: '9/1m' })
  t.match(decide()[0], { outcome: 'refused' })
  t.strictSame(one.charged, [])
})

t.test('the store is not asked about nothing', async t => {
  const { office, decide } = visit({ any: { quota: 0, window: '1m', exempt: () => true } })
  office.store.consume = () => t.fail('asked') as never
  t.match(decide()[0], { outcome: 'allowed', exempt: ['any'], source: 'none' })
})
