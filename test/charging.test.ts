import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { addressing } from '../src/address.js'
import { decideBytes, decideStage, giveBack } from '../src/charging.js'
import { join } from '../src/decision.js'
import type { Decision } from '../src/decision.js'
import { FST_QUOTA_ROUTE } from '../src/errors.js'
import type { Later } from '../src/later.js'
import { OperatorFaults } from '../src/operator.js'
import { refuser } from '../src/options.js'
import { compilePlan } from '../src/plan.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import type { Answer } from '../src/store.js'
import { memoryStore } from '../src/stores/memory.js'
import { Visit } from '../src/visit.js'
import type { Services } from '../src/visit.js'
import { createWarnings } from '../src/warnings.js'
import type { QuotaOptions } from '../src/index.js'

interface Case {
  readonly services: Services
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
  const services: Services = {
    registry,
    store,
    addressing: addressing(64),
    faults: new OperatorFaults(),
    warnings: createWarnings()
  }
  const refuse = refuser(FST_QUOTA_ROUTE, 'route GET /')
  const plan = compilePlan(refuse, scope, readRouteQuota(refuse, undefined))!
  const headers = { 'transfer-encoding': 'chunked' }
  const request = { ip: '192.0.2.1', socket: {}, headers } as FastifyRequest
  const visit = new Visit(request, services)
  const stages = plan.stages.filter(stage => stage !== undefined)
  return { services, visit, decide: () => stages.map(stage => decideStage(services, request, visit, stage)) }
}

t.test('with a store that answers at once nothing is waited for', async t => {
  const { visit: one, decide } = visit({ any: '9/1m' })
  const [decision] = decide()
  t.notOk(decision instanceof Promise)
  t.equal((decision as Decision).outcome, 'allowed')
  t.equal(giveBack(one), undefined)
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
    services,
    visit: one,
    decide
  } = visit({
    first: { quota: 9, window: '1m', hook: 'onRequest', cost: 3 },
    trial: { quota: 9, window: '1m', hook: 'onRequest', mode: 'shadow' },
    free: { quota: 9, window: '1m', cost: 0 }
  })
  for (const decision of decide()) one.decision = join(one.decision, decision as Decision)
  t.strictSame(
    one.ledger.accounts.map(({ policy, partition, charges }) => [policy.name, partition, charges]),
    [
      ['first', 'ip:192.0.2.1', [{ at: 1000, units: 3 }]],
      ['trial', 'ip:192.0.2.1', [{ at: 1000, units: 1 }]],
      ['free', 'ip:192.0.2.1', []]
    ]
  )
  const remaining = (): unknown => one.decision.limits.map(limit => [limit.policy.name, limit.remaining])
  t.strictSame(remaining(), [
    ['first', 6],
    ['free', 9]
  ])
  const settled: unknown[] = []
  const settle = services.store.settle.bind(services.store)
  services.store.settle = settlements => {
    settled.push(settlements.map(({ policy, actual }) => [policy.name, actual]))
    return settle(settlements)
  }
  giveBack(one)
  t.strictSame(remaining(), [
    ['first', 9],
    ['free', 9]
  ])
  giveBack(one)
  t.strictSame(settled, [
    [
      ['first', 0],
      ['trial', 0]
    ]
  ])
})

t.test('what refuses charges nothing that would have to be given back', async t => {
  const { visit: one, decide } = visit({ never: '0/1m', any: '9/1m' })
  t.match(decide()[0], { outcome: 'refused' })
  t.strictSame(one.ledger.accounts, [])
})

t.test('the store is not asked about nothing', async t => {
  const { services, decide } = visit({ any: { quota: 0, window: '1m', exempt: () => true } })
  services.store.consume = () => t.fail('asked') as never
  t.match(decide()[0], { outcome: 'allowed', exempt: ['any'], source: 'none' })
})

t.test('bytes are charged as they arrive, and stay charged when the rest is refused', async t => {
  const {
    services,
    visit: one,
    decide
  } = visit({
    bytes: { quota: 9, window: '1m', unit: 'content-bytes' },
    any: '9/1m'
  })
  one.decision = decide()[0] as Decision
  t.equal(one.metered.length, 1)
  const outcomes = [4, 5, 1].map(bytes => (decideBytes(services, one, bytes) as Decision).outcome)
  t.strictSame(outcomes, ['allowed', 'allowed', 'refused'])
  giveBack(one)
  const { limits } = services.store.peek(one.ledger.accounts) as Answer
  t.strictSame(
    limits.map(({ policy, remaining }) => [policy.name, remaining]),
    [
      ['bytes', 0],
      ['any', 9]
    ]
  )
})
