import t from 'tap'
import { compilePlan, policyField } from '../src/plan.js'
import type { Plan } from '../src/plan.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

function scopeWith(policies: object): Scope {
  const registry = new Registry()
  registry.addIdentities({ user: () => 'me', team: () => 'us' })
  const scope = new Scope(registry)
  scope.add(policies)
  return scope
}

const POLICIES = {
  burst: '20/10s',
  daily: { quota: 100, window: '1d', partition: 'team' },
  login: { quota: 5, window: '1m', default: false, hook: 'onRequest' },
  tokens: {
    quota: 1000,
    window: '1m',
    unit: 'tokens',
    cost: 7,
    default: false,
    partition: 'user',
    hook: 'preHandler'
  },
  toString: { quota: 3, window: '1m', default: false }
}

const plan = (quota: unknown, policies: object = POLICIES): Plan | undefined =>
  compilePlan(refuse, scopeWith(policies), 'GET /', readRouteQuota(refuse, quota))

/** What is decided at each hook, and what it costs. */
const stages = (quota: unknown, policies?: object): object => {
  const present = plan(quota, policies)?.stages.filter(stage => stage !== undefined) ?? []
  return Object.fromEntries(
    present.map(({ hook, shares }) => [
      hook,
      Object.fromEntries(shares.map(({ policy, cost }) => [policy.name, cost]))
    ])
  )
}

t.test('a route has its policies at their hooks, with their costs', async t => {
  const cost = (): number => 2
  const table: readonly (readonly [quota: unknown, stages: object])[] = [
    [undefined, { preParsing: { burst: 1, daily: 1 } }],
    [{}, { preParsing: { burst: 1, daily: 1 } }],
    [false, {}],
    [['login'], { onRequest: { login: 1 } }],
    [{ also: ['login'] }, { onRequest: { login: 1 }, preParsing: { burst: 1, daily: 1 } }],
    [{ also: ['tokens'] }, { preParsing: { burst: 1, daily: 1 }, preHandler: { tokens: 7 } }],
    [{ cost: 5 }, { preParsing: { burst: 5, daily: 5 } }],
    [{ cost: 0 }, { preParsing: { burst: 0, daily: 0 } }],
    [{ cost }, { preParsing: { burst: cost, daily: cost } }],
    [
      { also: ['tokens'], cost: 5 },
      { preParsing: { burst: 5, daily: 5 }, preHandler: { tokens: 7 } }
    ],
    [
      { also: ['tokens'], cost: { tokens: 9 } },
      { preParsing: { burst: 1, daily: 1 }, preHandler: { tokens: 9 } }
    ],
    [{ cost: { daily: 0 } }, { preParsing: { burst: 1, daily: 0 } }],
    [{ policies: ['toString'], cost: Object.create(null) as object }, { preParsing: { toString: 1 } }],
    [{ policies: ['toString'], cost: {} }, { preParsing: { toString: 1 } }],
    [
      { policies: ['tokens', 'login', 'burst'], hook: 'preValidation' },
      { preValidation: { tokens: 7, login: 1, burst: 1 } }
    ]
  ]
  for (const [quota, expected] of table) t.strictSame(stages(quota), expected)
})

t.test('a stage knows the identities that its partitions read, each once', async t => {
  const policies = {
    ...POLICIES,
    hourly: { quota: 50, window: '1h', partition: 'user' },
    weekly: { quota: 50, window: '7d', partition: 'user' }
  }
  t.strictSame(
    plan(undefined, policies)?.stages.map(stage => stage?.identities),
    [undefined, [1, 0], undefined, undefined]
  )
  t.strictSame(
    plan(['burst'], policies)?.stages.map(stage => stage?.identities),
    [undefined, [], undefined, undefined]
  )
})

t.test('stages stand where their hooks do', async t => {
  t.strictSame(
    plan({ policies: ['tokens', 'login', 'burst'] })?.stages.map(stage => stage?.hook),
    ['onRequest', 'preParsing', undefined, 'preHandler']
  )
})

t.test('a route in place names the policy that is placed', async t => {
  const scope = scopeWith(POLICIES)
  const once = scope.place('once', { quota: 1, window: '1m' })
  const wish = readRouteQuota(refuse, [{ name: 'once', quota: 1, window: '1m' }])
  t.strictSame(compilePlan(refuse, scope, 'GET /', wish)?.policies, [once])
})

t.test('a server without default policies leaves routes alone that name none', async t => {
  const policies = { login: { quota: 5, window: '1m', default: false } }
  t.equal(plan(undefined, policies), undefined)
  t.equal(plan({}, policies), undefined)
  t.strictSame(stages({ also: ['login'] }, policies), { preParsing: { login: 1 } })
})

t.test('what reaches no policy is refused', async t => {
  const optional = { login: { quota: 5, window: '1m', default: false } }
  const table: readonly (readonly [quota: unknown, policies: object, message: string])[] = [
    [['logni'], POLICIES, 'no policy is named "logni"; did you mean "login"?'],
    [['login', 'login'], POLICIES, 'policy "login" is named twice or is a default already'],
    [{ also: ['burst'] }, POLICIES, 'policy "burst" is named twice or is a default already'],
    [{ cost: { login: 5 } }, POLICIES, 'cost names "login", which is no policy of this route'],
    [{ cost: { constructor: 5 } }, POLICIES, 'cost names "constructor", which is no policy of this route'],
    [
      { cost: JSON.parse('{"__proto__":5}') },
      POLICIES,
      'cost names "__proto__", which is no policy of this route'
    ],
    [
      { policies: ['tokens'], cost: 5 },
      POLICIES,
      'cost is for policies that count requests, and this route has none: write { [policy]: cost }, got 5'
    ],
    [
      { cost: 5 },
      optional,
      'cost applies to no policy: no policy is a default here and the route names none, got 5'
    ],
    [
      { cost: { login: 5 } },
      optional,
      'cost applies to no policy: no policy is a default here and the route names none, got {"login":5}'
    ],
    [
      { hook: 'preHandler' },
      optional,
      'hook applies to no policy: no policy is a default here and the route names none, got "preHandler"'
    ]
  ]
  for (const [quota, policies, message] of table)
    t.throws(() => plan(quota, policies), new RangeError(message))
})

t.test(
  'the policies field lists what is advertised and enforced, with the numbers a client can hold',
  async t => {
    const scope = scopeWith({
      burst: '20/10s',
      hidden: { quota: 1, window: '1m', advertise: false },
      shadow: { quota: 1, window: '1m', mode: 'shadow' },
      bucket: { quota: 60, window: '1m', algorithm: 'token-bucket', burst: 120 },
      closed: { quota: 0, window: '1m', algorithm: 'token-bucket', burst: 5 },
      tokens: { quota: 1000, window: '1500ms', unit: 'tokens' }
    })
    t.capture(process, 'emitWarning')
    const field =
      '"burst";q=20;w=10, "bucket";q=120;w=120, "closed";q=0;w=60, "tokens";q=1000;qu="tokens";w=2'
    t.equal(policyField(scope.defaults()), field)
    t.equal(compilePlan(refuse, scope, 'GET /', readRouteQuota(refuse, undefined))?.policyField, field)
    t.equal(policyField(scope.defaults().filter(({ name }) => name === 'hidden' || name === 'shadow')), '')
  }
)
