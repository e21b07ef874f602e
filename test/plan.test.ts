import t from 'tap'
import { adviceOnCosts, compilePlan, policyField } from '../src/plan.js'
import type { Plan } from '../src/plan.js'
import type { QuotaPolicy } from '../src/policy.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import type { ServiceLimit } from '../src/store.js'

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
  compilePlan(refuse, scopeWith(policies), readRouteQuota(refuse, quota))

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
  t.strictSame(compilePlan(refuse, scope, wish)?.policies, [once])
})

t.test('a server without default policies leaves routes alone that name none', async t => {
  const policies = { login: { quota: 5, window: '1m', default: false } }
  t.equal(plan(undefined, policies), undefined)
  t.equal(plan({}, policies), undefined)
  t.strictSame(stages({ also: ['login'] }, policies), { preParsing: { login: 1 } })
})

const METERED = {
  bytes: { quota: 1000, window: '1m', unit: 'content-bytes', default: false },
  own: { quota: 1000, window: '1m', unit: 'content-bytes', cost: 9, default: false }
}
const LATE = 'hook must be "onRequest" or "preParsing" for policy "bytes", which counts bodies as they arrive'

t.test('a policy that counts bodies stays before them; one with a cost of its own need not', async t => {
  t.strictSame(stages({ policies: ['bytes'] }, METERED), { preParsing: { bytes: 0 } })
  t.strictSame(stages({ policies: ['bytes'], hook: 'onRequest' }, METERED), { onRequest: { bytes: 0 } })
  t.strictSame(stages({ policies: ['bytes'], hook: 'preParsing' }, METERED), { preParsing: { bytes: 0 } })
  t.strictSame(stages({ policies: ['own'], hook: 'preHandler' }, METERED), { preHandler: { own: 9 } })
  t.strictSame(stages({ policies: ['own', 'bytes'], cost: { own: 3 } }, METERED), {
    preParsing: { own: 3, bytes: 0 }
  })
})

t.test('a stage ends if something is to be released or refunded', async t => {
  const policies = {
    burst: '20/10s',
    slots: { quota: 5, algorithm: 'concurrency', default: false, hook: 'preHandler' },
    failed: { quota: 5, window: '1m', refund: () => true, default: false, hook: 'onRequest' }
  }
  t.strictSame(
    plan({ also: ['slots', 'failed'] }, policies)?.stages.map(stage => stage?.ends),
    [true, false, undefined, true]
  )
})

t.test('a cost that no quota of a policy ever admits is warned of', async t => {
  const policies = {
    burst: '20/10s',
    none: '0/1m',
    tier: { quota: () => 1, window: '1m', cost: 9 },
    bucket: { quota: 5, window: '1m', algorithm: 'token-bucket', burst: 30 },
    queue: { quota: 60, window: '1m', algorithm: 'leaky-bucket', maxDelay: '4s' },
    slots: { quota: 3, algorithm: 'concurrency', default: false },
    tokens: { quota: 100, window: '1m', unit: 'tokens', default: false }
  }
  const table: readonly (readonly [quota: unknown, warned: readonly string[]])[] = [
    [undefined, []],
    [{ cost: 5 }, []],
    [{ cost: 6 }, ['6, more than the 5 that policy "queue"']],
    [{ cost: 20 }, ['20, more than the 5 that policy "queue"']],
    [{ cost: { burst: 21 } }, ['21, more than the 20 that policy "burst"']],
    [{ cost: { bucket: 30 } }, []],
    [
      { cost: { bucket: 31, queue: 6 } },
      ['31, more than the 30 that policy "bucket"', '6, more than the 5 that policy "queue"']
    ],
    [{ cost: { none: 1, tier: 1000 } }, []],
    [{ cost: () => 1000 }, []],
    [
      { policies: ['slots', 'tokens'], cost: { slots: 4, tokens: 101 } },
      ['4, more than the 3 that policy "slots"', '101, more than the 100 that policy "tokens"']
    ],
    [{ policies: ['tokens'], cost: { tokens: 100 } }, []],
    [false, []]
  ]
  for (const [quota, warned] of table) {
    t.match(
      adviceOnCosts('GET /', plan(quota, policies)),
      warned.map(costs => ({
        code: 'FST_QUOTA_COST',
        message: `GET /: each request costs ${costs} can ever hold, so all are refused: `
      }))
    )
  }
})

t.test('what reaches no policy is refused', async t => {
  const optional = { login: { quota: 5, window: '1m', default: false } }
  const table: readonly (readonly [quota: unknown, policies: object, message: string])[] = [
    [['logni'], POLICIES, 'no policy is named "logni"; did you mean "login"?'],
    [['login', 'login'], POLICIES, 'policy "login" is named twice or is a default already'],
    [{ also: ['burst'] }, POLICIES, 'policy "burst" is named twice or is a default already'],
    [
      { cost: { login: 5 } },
      POLICIES,
      'cost names "login", which is no policy of this route; expected "burst", "daily"'
    ],
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
      { policies: ['bytes'], cost: { bytes: () => 5 } },
      METERED,
      'cost of "bytes" is the length of the body, which no route changes, got a function'
    ],
    [{ policies: ['bytes'], hook: 'preValidation' }, METERED, `${LATE}, got "preValidation"`],
    [{ policies: ['own', 'bytes'], hook: 'preHandler' }, METERED, `${LATE}, got "preHandler"`],
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
      tokens: { quota: 1000, window: '1500ms', unit: 'tokens' },
      slots: { quota: 5, algorithm: 'concurrency' },
      queue: { quota: 60, window: '1m', algorithm: 'leaky-bucket', maxDelay: '5s' }
    })
    t.capture(process, 'emitWarning')
    const field =
      '"burst";q=20;w=10, "bucket";q=120;w=120, "closed";q=0;w=60, "tokens";q=1000;qu="tokens";w=2, ' +
      '"slots";q=5;qu="concurrent-requests", "queue";q=6;w=6'
    t.equal(policyField(scope.defaults()), field)
    t.equal(compilePlan(refuse, scope, readRouteQuota(refuse, undefined))?.policyField([]), field)
    t.equal(policyField(scope.defaults().filter(({ name }) => name === 'hidden' || name === 'shadow')), '')
  }
)

t.test('the policies field of a plan shows the quotas of the request, and is made once for each', async t => {
  const scope = scopeWith({
    burst: '20/10s',
    plan: { quota: () => 1, window: '1m' },
    queue: { quota: () => 1, window: '1m', algorithm: 'leaky-bucket', maxDelay: '5s' },
    hidden: { quota: () => 1, window: '1m', advertise: false },
    shadow: { quota: () => 1, window: '1m', mode: 'shadow' }
  })
  const [burst, tier, queue, hidden, shadow] = scope.defaults()
  const { policyField: field } = compilePlan(refuse, scope, readRouteQuota(refuse, undefined))!
  const limits = (...policies: readonly (QuotaPolicy | undefined)[]): readonly ServiceLimit[] =>
    policies.map(policy => ({ policy }) as ServiceLimit)
  t.equal(field([]), '"burst";q=20;w=10', 'exempt from the plans')
  t.equal(field(limits(burst, tier!.withQuota(5))), '"burst";q=20;w=10, "plan";q=5;w=60')
  t.equal(field(limits(burst, tier!.withQuota(6))), '"burst";q=20;w=10, "plan";q=6;w=60')
  t.equal(
    field(limits(queue!.withQuota(60), tier!.withQuota(7), hidden!.withQuota(8), shadow!.withQuota(9))),
    '"burst";q=20;w=10, "plan";q=7;w=60, "queue";q=6;w=6',
    'in configured order'
  )
  t.equal(field(limits(tier!.withQuota(0))), '"burst";q=20;w=10, "plan";q=0;w=60')

  // A policy that was changed behind its back tells whether the field is made again.
  const changed = (quota: number): readonly ServiceLimit[] =>
    limits({ ...tier!.withQuota(quota), capacity: 999 })
  t.equal(field(changed(5)), '"burst";q=20;w=10, "plan";q=5;w=60', 'remembered')
  for (let quota = 10; quota < 1005; quota++) field(limits(tier!.withQuota(quota)))
  t.equal(field(changed(5)), '"burst";q=20;w=10, "plan";q=5;w=60', 'a thousand are')
  field(limits(tier!.withQuota(2000)))
  t.equal(field(changed(5)), '"burst";q=20;w=10, "plan";q=999;w=60', 'then it starts again')
})
