import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../src/index.js'
import type { RouteQuota } from '../src/index.js'

type Wrong = readonly [written: unknown, message: string]

const POLICIES = {
  daily: '100/1d',
  login: { quota: 5, window: '1m', default: false },
  tokens: { quota: 1000, window: '1m', unit: 'tokens', default: false },
  bytes: { quota: 1000, window: '1m', unit: 'content-bytes', default: false }
}

/** What the start of an app fails with; `nothing` if it starts. */
async function failure(
  build: (app: FastifyInstance) => unknown
): Promise<{ code: unknown; message: string }> {
  const app = Fastify()
  try {
    await build(app)
    await app.ready()
    return { code: 'none', message: 'the app started' }
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: unknown }
    return { code, message }
  } finally {
    await app.close().catch(() => undefined)
  }
}

/** An app with this plugin, registered with options as they come, wrong ones too. */
const register = (app: FastifyInstance, options: unknown): PromiseLike<unknown> =>
  app.register(quota, options as never)

/** An app with this plugin and a route with this `config.quota`. */
const withRoute =
  (written: unknown, policies: object = POLICIES) =>
  async (app: FastifyInstance): Promise<void> => {
    await register(app, { policies })
    app.get('/items', { config: { quota: written as RouteQuota } }, async () => 'ok')
  }

async function allRefused(
  t: Test,
  code: string,
  place: string,
  table: readonly Wrong[],
  build: (written: unknown) => (app: FastifyInstance) => unknown
): Promise<void> {
  for (const [written, message] of table) {
    t.strictSame(await failure(build(written)), { code, message: `${place}: ${message}` })
  }
}

t.test('plugin options that are wrong stop the app', async t => {
  const policies = POLICIES
  const user = (): string => 'me'
  const known =
    'expected policies, identify, store, fields, legacy, select, cap, jitter, partitionKey, sdkHints, ipv6Prefix, ' +
    'problem, onRefused, logRefusals, clock'
  const store = {
    consume: () => ({ limits: [], source: 'redis' }),
    settle: () => ({ limits: [], source: 'redis' }),
    renew: () => [],
    peek: () => ({ limits: [], source: 'redis' }),
    reset: () => undefined,
    close: () => undefined
  }
  const table: readonly Wrong[] = [
    [undefined, "policies is required, such as { default: '100/1m' }"],
    [{}, "policies is required, such as { default: '100/1m' }"],
    [{ policies: {} }, 'policies must name at least one policy, got {}'],
    [{ policies: [] }, 'policies must be an object, got []'],
    [{ policies: null }, 'policies must be an object, got null'],
    [
      { max: 100, timeWindow: '1 minute' },
      `unknown option "max" with the value 100; did you mean "policies", such as { default: '100/1m' }?`
    ],
    [{ policies, banana: 1 }, `unknown option "banana" with the value 1; ${known}`],
    [
      { policies, onRefuse: user },
      'unknown option "onRefuse" with the value a function; did you mean "onRefused"?'
    ],
    [
      { policies, store: {} },
      'store must be memoryStore(…), redisStore(…) or another Store, got an object with no keys without the method consume, settle, renew, peek, reset, close'
    ],
    [
      { policies, clock: Date.now, store },
      'clock goes with memoryStore(…) only, got the store an object with "consume", "settle", "renew", "peek", "reset"'
    ],
    [{ policies, clock: () => Number.NaN }, 'clock must return milliseconds, 0 or more, and does not'],
    [
      { policies, redis: { host: 'redis', password: 'secret' } },
      'unknown option "redis" with the value an object with "host", "password"; did you mean "store", such as redisStore(client, { onFailure, secret })?'
    ],
    [
      { policies, legacy: { style: 'x-ratelimit' } },
      'legacy.reset must be "delta" or "epoch", got undefined'
    ],
    [
      { policies, legacy: 'draft-7' },
      "legacy 'draft-7' has the names of the draft's fields and cannot stand beside them: add fields: false"
    ],
    [
      { policies, select: 'closets' },
      'select must be "all" or "closest", got "closets"; did you mean "closest"?'
    ],
    [
      { policies, cap: { request: 10 } },
      'cap names "request", which no policy counts; did you mean "requests"?'
    ],
    [{ policies, store, partitionKey: 'hash' }, "partitionKey 'hash' needs a store with the method label"],
    [{ policies, ipv6Prefix: 0 }, 'ipv6Prefix must be an integer from 1 to 128, got 0'],
    [{ policies, ipv6Prefix: 129 }, 'ipv6Prefix must be an integer from 1 to 128, got 129'],
    [
      { policies, fields: 'draft-10' },
      'fields must be "draft-11" or false, got "draft-10"; did you mean "draft-11"?'
    ],
    [{ policies, identify: user }, 'identify must be an object, got a function'],
    [{ policies, identify: null }, 'identify must be an object, got null'],
    [{ policies, identify: { user: 'id' } }, 'identify.user must be a function, got "id"'],
    [new Map([['policies', policies]]), 'options must be a plain object, got an instance of Map']
  ]
  await allRefused(t, 'FST_QUOTA_OPTION', 'fastify-quota', table, written => app => register(app, written))
  for (const name of ['ip', 'global', 'route']) {
    t.strictSame(await failure(app => register(app, { policies, identify: { [name]: user } })), {
      code: 'FST_QUOTA_OPTION',
      message: `fastify-quota: identify cannot define "${name}": it is a partition already`
    })
  }
})

t.test('policies that are wrong stop the app, in the plugin and in place', async t => {
  const quotaIs = 'quota must be an integer from 0 to 999999999999999, got'
  const windowIs =
    "window must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d, got"
  const base = { quota: 10, window: '1m' }
  const partition = `partition takes 'ip', 'global', 'route', a name of identify (which has none), firstOf(…) or allOf(…), got`
  const table: readonly Wrong[] = [
    [{ ...base, quota: '10' }, `${quotaIs} "10"`],
    [{ ...base, quota: -1 }, `${quotaIs} -1`],
    [{ ...base, quota: Number.NaN }, `${quotaIs} NaN`],
    [{ ...base, quota: 1.5 }, `${quotaIs} 1.5`],
    [{ ...base, quota: null }, `${quotaIs} null`],
    [{ ...base, quota: Infinity }, `${quotaIs} Infinity`],
    [{ ...base, window: 'banana' }, `${windowIs} "banana"`],
    [{ ...base, window: 0 }, `${windowIs} 0`],
    [{ ...base, window: -5 }, `${windowIs} -5`],
    [{ ...base, window: Number.NaN }, `${windowIs} NaN`],
    [{ ...base, window: '1 fortnight' }, `${windowIs} "1 fortnight"`],
    [{ ...base, window: {} }, `${windowIs} {}`],
    [{ ...base, window: '1h30m' }, `${windowIs} "1h30m"`],
    [{ quota: 10 }, "window is required: seconds or a duration like '10s'"],
    [{ limit: 10, window: '1m' }, 'unknown option "limit" with the value 10; did you mean "quota"?'],
    [{ qouta: 10, window: '1m' }, 'unknown option "qouta" with the value 10; did you mean "quota"?'],
    [
      { quota: 10, windowMs: 60_000 },
      `unknown option "windowMs" with the value 60000; did you mean "window", in seconds or text like '1m'?`
    ],
    [
      { ...base, algorithm: 'sliding-log' },
      'algorithm must be "sliding-window", "sliding-window-log", "sliding-window-counter", "fixed-window", ' +
        '"token-bucket", "leaky-bucket" or "concurrency", got "sliding-log"'
    ],
    [
      { ...base, algorithm: 'fixed-window', precision: 10 },
      'precision belongs to algorithm "sliding-window", "sliding-window-counter" or "sliding-window-log", got 10 with ' +
        '"fixed-window"'
    ],
    [
      { ...base, algorithm: 'concurrency' },
      'window means nothing to "concurrency", which counts what runs at once, got "1m"'
    ],
    [
      { ...base, quota: 1001, algorithm: 'sliding-window-log' },
      'quota must be at most 1000 for an exact log, which keeps a number for each unit, unless largeLog is true, got 1001'
    ],
    [{ ...base, partition: 'user' }, `${partition} "user"`],
    [{ ...base, partition: 'ips' }, `${partition} "ips"; did you mean "ip"?`],
    [
      { ...base, partition: () => 'me' },
      `${partition} a function; functions of the request belong in identify, under a name`
    ],
    [
      { ...base, maxDelay: '1s' },
      'maxDelay belongs to algorithm "leaky-bucket", got "1s" with "sliding-window"'
    ],
    [
      { ...base, unit: 'content-bytes', hook: 'preHandler' },
      'hook must be "onRequest" or "preParsing" for content-bytes without a cost, which counts bodies as they arrive, ' +
        'got "preHandler"'
    ],
    [{ ...base, batch: { max: 10 } }, 'batch is for redisStore: this process asks nobody, got { max: 10 }'],
    [
      { ...base, hook: 'onSend' },
      'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got "onSend"'
    ]
  ]
  await allRefused(t, 'FST_QUOTA_POLICY', 'policy "wrong"', table, written => app => {
    return register(app, { policies: { wrong: written } })
  })
  await allRefused(t, 'FST_QUOTA_POLICY', 'policy "wrong"', table, written => {
    return withRoute([{ name: 'wrong', ...(written as object) }])
  })
  for (const [written, shown] of [
    [undefined, 'undefined'],
    [100, '100'],
    [() => base, 'a function']
  ] as const) {
    t.strictSame(await failure(app => register(app, { policies: { wrong: written } })), {
      code: 'FST_QUOTA_POLICY',
      message: `policy "wrong": a policy must be an object, or text like '100/1m', got ${shown}`
    })
  }
  t.strictSame(await failure(app => register(app, { policies: { wrong: '100 per minute' } })), {
    code: 'FST_QUOTA_POLICY',
    message: `policy "wrong": a short policy is written like '100/1m', with ms, s, m, h or d, got "100 per minute"`
  })
})

t.test('names that cannot be written in a field stop the app, in the plugin and in place', async t => {
  const table: readonly (readonly [name: string, shown: string, found: string])[] = [
    ['a"b', '"a\\"b"', '"\\""'],
    ['a\\b', '"a\\\\b"', '"\\\\"'],
    ['a, b;c=1', '"a, b;c=1"', '","'],
    ['é', '"é"', '"é"'],
    ['☃', '"☃"', '"☃"'],
    ['', '""', '0 characters'],
    ['x'.repeat(100), `"${'x'.repeat(56)}...`, '100 characters'],
    ['x'.repeat(10_000), `"${'x'.repeat(56)}...`, '10000 characters'],
    ['a\r\nSet-Cookie: x=1', '"a\\r\\nSet-Cookie: x=1"', '"\\r"']
  ]
  for (const [name, shown, found] of table) {
    const refused = {
      code: 'FST_QUOTA_POLICY',
      message: `policy ${shown}: a name must start with a letter, then have up to 63 of A-Z a-z 0-9 . _ -, got ${found}`
    }
    t.strictSame(await failure(app => register(app, { policies: { [name]: '10/1m' } })), refused)
    t.strictSame(await failure(withRoute([{ name, quota: 10, window: '1m' }])), refused)
  }
})

t.test('a quota of a route that is wrong stops the app', async t => {
  const quotaIs =
    "quota must be false, a list of policy names such as ['daily'], or { policies, also, cost, hook }, got"
  const cost = 'must be an integer from 0 to 999999999999999 or a function of the request, got'
  const table: readonly Wrong[] = [
    [['logni'], 'no policy is named "logni"; did you mean "login"?'],
    [['constructor'], 'no policy is named "constructor"; expected "daily", "login", "tokens", "bytes"'],
    [true, `${quotaIs} true`],
    [null, `${quotaIs} null`],
    ['login', `${quotaIs} "login"`],
    [[], 'quota must name at least one policy, got []; for no quota at all write quota: false'],
    [
      { policies: [] },
      'policies must name at least one policy, got []; for no quota at all write quota: false'
    ],
    [{ polices: ['login'] }, 'unknown option "polices" with the value ["login"]; did you mean "policies"?'],
    [
      { max: 10, timeWindow: '1m' },
      'unknown option "max" with the value 10; did you mean "policies", such as [{ name, quota, window }]?'
    ],
    [
      JSON.parse('{"__proto__":{"cost":5}}'),
      'unknown option "__proto__" with the value an object with "cost"; expected policies, also, cost, hook'
    ],
    [
      { policies: ['login'], also: ['tokens'] },
      'policies replaces the defaults and also adds to them: expected one of the two, got both'
    ],
    [['login', 'login'], 'policy "login" is named twice or is a default already'],
    [{ also: ['daily'] }, 'policy "daily" is named twice or is a default already'],
    [{ cost: { login: 5 } }, 'cost names "login", which is no policy of this route; expected "daily"'],
    [{ cost: -1 }, `cost ${cost} -1`],
    [{ cost: { daily: -1 } }, `cost of "daily" ${cost} -1`],
    [
      { policies: ['tokens'], cost: 5 },
      'cost is for policies that count requests, and this route has none: write { [policy]: cost }, got 5'
    ],
    [
      { policies: ['bytes'], cost: { bytes: 5 } },
      'cost of "bytes" is the length of the body, which no route changes, got 5'
    ],
    [
      { policies: ['bytes'], hook: 'preHandler' },
      'hook must be "onRequest" or "preParsing" for policy "bytes", which counts bodies as they arrive, got "preHandler"'
    ],
    [
      { hook: 'preSerialization' },
      'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got "preSerialization"'
    ],
    [
      [{ quota: 1, window: '1m' }],
      'a policy written in place needs a name: { name, quota, window }, got {"quota":1,"window":"1m"}'
    ],
    [[7], 'quota takes names of policies and policies { name, quota, window, … }, got 7']
  ]
  await allRefused(t, 'FST_QUOTA_ROUTE', 'route GET /items', table, written => withRoute(written))
})

t.test('a cost of a route without any policy stops the app', async t => {
  t.strictSame(await failure(withRoute({ cost: 5 }, { login: POLICIES.login })), {
    code: 'FST_QUOTA_ROUTE',
    message:
      'route GET /items: cost applies to no policy: no policy is a default here and the route names none, got 5'
  })
})

t.test('a route says where it is, with its methods and its prefix', async t => {
  const refused = await failure(async app => {
    await register(app, { policies: POLICIES })
    await app.register(
      async child => {
        child.route({
          method: ['POST', 'PUT'],
          url: '/items/:id',
          config: { quota: ['dayly'] },
          handler: async () => 'ok'
        })
      },
      { prefix: '/v1' }
    )
  })
  t.strictSame(refused, {
    code: 'FST_QUOTA_ROUTE',
    message: 'route POST, PUT /v1/items/:id: no policy is named "dayly"; did you mean "daily"?'
  })
})

t.test('a name is one policy everywhere: with other options it stops the app', async t => {
  const taken = {
    code: 'FST_QUOTA_POLICY',
    message:
      'policy "daily": the name is taken by a policy with other options, and a name is one policy everywhere'
  }
  const inChild = (policies: object) => async (app: FastifyInstance) => {
    await register(app, { policies: POLICIES })
    await app.register(async child => {
      await register(child, { policies })
      child.get('/items', async () => 'ok')
    })
  }
  t.strictSame(await failure(inChild({ daily: '200/1d' })), taken)
  t.strictSame(await failure(inChild({ daily: { quota: 100, window: '1d', mode: 'shadow' } })), taken)
  t.strictSame(await failure(withRoute([{ name: 'daily', quota: 200, window: '1d' }])), taken)
  const started = { code: 'none', message: 'the app started' }
  t.strictSame(await failure(inChild({ daily: '100/1d' })), started)
  t.strictSame(await failure(inChild({ daily: { window: '1d', quota: 100 } })), started)
  t.strictSame(await failure(inChild({ daily: { window: '24h', quota: 100, partition: 'ip' } })), started)
  t.strictSame(await failure(withRoute([{ name: 'daily', quota: 100, window: '1d' }])), started)
})

t.test('a policy of one child is unknown in another', async t => {
  const refused = await failure(async app => {
    await register(app, { policies: POLICIES })
    await app.register(async child => register(child, { policies: { inner: '1/1m' } }))
    await app.register(async child => {
      child.get('/items', { config: { quota: ['inner'] } }, async () => 'ok')
    })
  })
  t.strictSame(refused, {
    code: 'FST_QUOTA_ROUTE',
    message:
      'route GET /items: policy "inner" is defined elsewhere: define it in a registration around this route'
  })
})

t.test('a further registration with settings of its own stops the app', async t => {
  const again = (options: object) => async (app: FastifyInstance) => {
    await register(app, { policies: POLICIES, identify: { user: () => 'me' } })
    await app.register(async child => register(child, { policies: { inner: '1/1m' }, ...options }))
  }
  const first = 'belongs to the first registration; a further one has policies and identify, got'
  const table: readonly Wrong[] = [
    [{ ipv6Prefix: 48 }, `ipv6Prefix ${first} 48`],
    [{ legacy: false }, `legacy ${first} false`],
    [{ policies: {} }, 'policies must name at least one policy, got {}'],
    [
      { identify: { user: () => 'you' } },
      'identify.user is taken by another function, and a name is one identity everywhere'
    ]
  ]
  await allRefused(t, 'FST_QUOTA_OPTION', 'fastify-quota', table, written => again(written as object))
})

t.test('names of Object.prototype are policies, identities and costs like any other', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  await register(app, {
    identify: { valueOf: () => 'me' },
    policies: {
      constructor: '10/1m',
      toString: { quota: 5, window: '1m', partition: 'valueOf' },
      hasOwnProperty: { quota: 7, window: '1m', default: false }
    },
    clock: () => 0
  })
  app.get('/', { config: { quota: { also: ['hasOwnProperty'], cost: { toString: 2 } } } }, async () => 'ok')
  const { headers } = await app.inject('/')
  t.equal(
    headers['ratelimit-policy'],
    '"constructor";q=10;w=60, "toString";q=5;w=60, "hasOwnProperty";q=7;w=60'
  )
  t.equal(headers['ratelimit'], '"toString";r=3;t=60, "hasOwnProperty";r=6;t=60, "constructor";r=9;t=60')
})
