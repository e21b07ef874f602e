import t from 'tap'
import { UNDECIDED } from '../src/decision.js'
import type { Decision } from '../src/decision.js'
import { joinedOccasion, OwnOccasion } from '../src/occasion.js'
import { compilePlan } from '../src/plan.js'
import type { QuotaPolicy } from '../src/policy.js'
import { Registry, Scope } from '../src/registry.js'
import type { Occasion } from '../src/response.js'
import { readRouteQuota } from '../src/route-quota.js'
import type { ServiceLimit } from '../src/store.js'
import { remember } from '../src/whose.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

const registry = new Registry()
const scope = new Scope(registry)
scope.add({
  burst: '20/10s',
  plan: { quota: () => 1, window: '1m' },
  hidden: { quota: 7, window: '1m', advertise: false },
  trial: { quota: 8, window: '1m', mode: 'shadow' },
  mails: { quota: 3, window: '1h', default: false },
  secret: { quota: 4, window: '1h', advertise: false, default: false }
})
const named = (name: string): QuotaPolicy => registry.policies.get(name)!
const plan = compilePlan(refuse, scope, readRouteQuota(refuse, undefined))

const decisionOf = (...policies: readonly QuotaPolicy[]): Decision => ({
  ...UNDECIDED,
  limits: policies.map(policy => ({ policy }) as ServiceLimit)
})

const names = (occasion: Occasion): readonly string[] =>
  occasion.policies().map(({ name, quota }) => `${name} ${quota}`)

const places = [
  { partition: 'ip:192.0.2.1', policy: named('burst') },
  { partition: 'user:42', policy: named('mails') }
]

t.test('a response is about the policies of its route, with the quotas of the request', async t => {
  const decision = decisionOf(named('burst'), named('plan').withQuota(5), named('hidden'))
  const occasion = new OwnOccasion({ plan, decision, places })
  t.equal(occasion.policyField, '"burst";q=20;w=10, "plan";q=5;w=60')
  t.strictSame(names(occasion), ['burst 20', 'plan 5'])
  t.equal(occasion.whose(named('burst')), 'ip:192.0.2.1')
  t.equal(occasion.whose(named('plan')), undefined)
})

t.test('policies that the request is exempt from are listed, but for plans', async t => {
  const occasion = new OwnOccasion({ plan, decision: UNDECIDED, places })
  t.equal(occasion.policyField, '"burst";q=20;w=10')
  t.strictSame(names(occasion), ['burst 20'])
})

t.test(
  'a refusal that code has asked for is about its own policies too, and never an internal one',
  async t => {
    const visit = { plan, decision: decisionOf(named('burst'), named('plan').withQuota(5)), places }
    const decision = decisionOf(named('secret'), named('mails'), named('burst'))
    const occasion = joinedOccasion(visit, decision)
    t.equal(occasion.policyField, '"burst";q=20;w=10, "plan";q=5;w=60, "mails";q=3;w=3600')
    t.strictSame(names(occasion), ['burst 20', 'plan 5', 'mails 3'])
  }
)

t.test('a refusal of the policies of the route lists nothing else', async t => {
  const visit = { plan, decision: decisionOf(named('burst')), places }
  const occasion = joinedOccasion(visit, decisionOf(named('burst')))
  t.equal(occasion.policyField, '"burst";q=20;w=10')
  t.strictSame(names(occasion), ['burst 20'])
})

t.test('a refusal on a route without quota is about its own policies', async t => {
  const visit = { plan: undefined, decision: UNDECIDED, places: [] }
  const occasion = joinedOccasion(visit, decisionOf(named('mails'), named('secret')))
  t.equal(occasion.policyField, '"mails";q=3;w=3600')
  t.strictSame(names(occasion), ['mails 3'])
})

t.test(
  'a refusal that code has asked for is of those it was decided for, whoever makes the request',
  async t => {
    const visit = { plan, decision: UNDECIDED, places }
    const decision = decisionOf(named('burst'))
    t.equal(joinedOccasion(visit, decision).whose(named('burst')), undefined)
    remember(decision, [{ partition: 'ip:198.51.100.7', policy: named('burst') }])
    t.equal(joinedOccasion(visit, decision).whose(named('burst')), 'ip:198.51.100.7')
  }
)
