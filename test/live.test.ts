import t from 'tap'
import type { Test } from 'tap'
import quota from '../src/index.js'
import type { PolicyOptions, QuotaOptions, UpdateOptions } from '../src/index.js'
import { acting, bare, left, leftOf, listed, ready, serve, serveLater } from './plugin/kit.js'
import type { Server } from './plugin/kit.js'

/** An app that serves: its routes are planned. */
async function serving(t: Test, options: QuotaOptions | QuotaOptions['policies']): Promise<Server> {
  const server = await serve(t, options)
  await ready(server.app)
  return server
}

const MINUTE = 60_000

t.test('another quota holds at once, and what was spent counts on, whatever the algorithm', async t => {
  const algorithms = [
    { algorithm: 'sliding-window' },
    { algorithm: 'sliding-window-log' },
    { algorithm: 'sliding-window-counter' },
    { algorithm: 'fixed-window' },
    { algorithm: 'token-bucket' },
    { algorithm: 'leaky-bucket' }
  ] as const
  for (const of of algorithms) {
    const { app, statuses } = await serving(t, { any: { quota: 4, window: '1m', ...of } })
    t.strictSame(await statuses('/', '/', '/'), [200, 200, 200], of.algorithm)
    t.strictSame(app.quota.update({ policies: { any: { quota: 6 } } }), [
      {
        policy: 'any',
        from: { quota: 4, window: MINUTE, algorithm: of.algorithm, mode: 'enforce' },
        to: { quota: 6, window: MINUTE, algorithm: of.algorithm, mode: 'enforce' },
        carriesOver: true
      }
    ])
    const response = await app.inject('/')
    t.match(response.headers['ratelimit-policy'], '"any";q=6;w=60')
    t.strictSame(left(response), { any: 2 })
    app.quota.update({ policies: { any: { quota: 2 } } })
    const refused = await app.inject('/')
    t.equal(refused.statusCode, 429)
    t.match(refused.headers['ratelimit-policy'], '"any";q=2;w=60')
    app.quota.update({ policies: { any: '5/1m' } })
    t.strictSame(await statuses('/', '/'), [200, 429], 'the 4 that were admitted still count')
  }
})

t.test('with another window or algorithm a policy counts anew: at most both quotas are admitted', async t => {
  const changes: readonly Partial<PolicyOptions>[] = [
    { window: '2m' },
    { algorithm: 'fixed-window' },
    { algorithm: 'token-bucket' },
    { algorithm: 'sliding-window-counter' }
  ]
  for (const change of changes) {
    const { app, statuses } = await serving(t, { any: '2/1m' })
    t.strictSame(await statuses('/', '/', '/'), [200, 200, 429])
    const [changed] = app.quota.update({ policies: { any: { ...change, quota: 3 } } })
    t.equal(changed?.carriesOver, false, JSON.stringify(change))
    t.strictSame(await statuses('/', '/', '/', '/'), [200, 200, 200, 429])
    app.quota.update({ policies: { any: { window: '1m', algorithm: undefined } } })
    t.strictSame(await statuses('/', '/'), [200, 429], 'and back: what was spent then counts again')
  }
})

t.test('more sub-windows, a larger burst and another start of windows keep what was spent', async t => {
  const table: readonly (readonly [from: Partial<PolicyOptions>, to: Partial<PolicyOptions>])[] = [
    [{}, { precision: 100 }],
    [{}, { precision: 'exact' }],
    [{ algorithm: 'token-bucket', burst: 9 }, { burst: 4 }],
    [{ algorithm: 'fixed-window' }, { align: true }]
  ]
  for (const [from, to] of table) {
    const { app, statuses } = await serving(t, { any: { quota: 4, window: '1m', ...from } })
    t.strictSame(await statuses('/', '/', '/'), [200, 200, 200])
    t.match(app.quota.update({ policies: { any: to } }), [{ carriesOver: true }])
    t.strictSame(await statuses('/', '/'), [200, 429], JSON.stringify(to))
  }
})

t.test('what stays the same is no change', async t => {
  const { app } = await serving(t, { any: '4/1m', other: { quota: 2, window: 60, default: false } })
  t.strictSame(app.quota.update({ policies: { any: '4/60s', other: {} } }), [])
  t.match(app.quota.update({ policies: { any: { quota: 5 }, other: { quota: 2 } } }), [{ policy: 'any' }])
})

t.test('a partition of another kind counts anew, and says so', async t => {
  const { app, statuses } = await serving(t, { any: '1/1m' })
  t.strictSame(await statuses('/', '/'), [200, 429])
  t.match(app.quota.update({ policies: { any: { partition: 'global' } } }), [{ carriesOver: false }])
  t.strictSame(await statuses('/', '/'), [200, 429])
})

t.test('a wrong update changes nothing, and says what is wrong', async t => {
  const { app } = await serving(t, { any: '4/1m', later: { quota: 4, window: '1m', default: false } })
  const before = JSON.stringify(app.quota.routes())
  const place = 'app.quota.update'
  const good = { later: '9/1m' } as const
  const table: readonly (readonly [written: unknown, code: string, message: string])[] = [
    [undefined, 'OPTION', `${place}: options must be an object, got undefined`],
    [{}, 'OPTION', `${place}: policies must be an object, got undefined`],
    [{ policies: {} }, 'OPTION', `${place}: policies must name at least one policy, got {}`],
    [
      { policies: good, store: 1 },
      'OPTION',
      `${place}: unknown option "store" with the value 1; expected policies`
    ],
    [
      { policies: { ...good, anny: '9/1m' } },
      'OPTION',
      `${place}: policies names "anny", which is no policy, and none is added while the app runs, for routes were checked ` +
        'against them when it started; did you mean "any"?'
    ],
    [
      { policies: { ...good, constructor: '9/1m' } },
      'OPTION',
      `${place}: policies names "constructor", which is no policy, and none is added while the app runs, for routes were ` +
        'checked against them when it started; expected "any", "later"'
    ],
    ...[undefined, null, false].map(
      gone =>
        [
          { policies: { ...good, any: gone } },
          'POLICY',
          'policy "any": a policy is not removed while the app runs, for routes were checked against it when it started: ' +
            `update it, for example to mode 'shadow', got ${String(gone)}`
        ] as const
    ),
    [
      { policies: { ...good, any: { quota: -1 } } },
      'POLICY',
      'policy "any": quota must be an integer from 0 to 999999999999999, got -1'
    ],
    [
      { policies: { ...good, any: { burst: 9 } } },
      'POLICY',
      'policy "any": burst belongs to algorithm "token-bucket" or "leaky-bucket", got 9 with "sliding-window"'
    ],
    [
      { policies: { ...good, any: { qouta: 9 } } },
      'POLICY',
      'policy "any": unknown option "qouta" with the value 9; did you mean "quota"?'
    ],
    [
      { policies: { ...good, any: { unit: 'rows' } } },
      'POLICY',
      'policy "any": unit stays "requests", for what was spent is counted in it: define another policy, got "rows"'
    ],
    [
      { policies: { ...good, any: { default: false } } },
      'POLICY',
      'policy "any": default stays true, for routes were checked against it when the app started, got false'
    ],
    [
      { policies: { ...good, any: { batch: { max: 9 } } } },
      'POLICY',
      'policy "any": batch is for redisStore: this process asks nobody, got { max: 9 }'
    ]
  ]
  for (const [written, code, message] of table) {
    t.throws(() => app.quota.update(written as UpdateOptions), { code: `FST_QUOTA_${code}`, message })
    t.equal(JSON.stringify(app.quota.routes()), before)
    t.strictSame(await leftOf(app, ['any', 'later']), { any: 4, later: 4 })
  }
})

t.test('a route that cannot have a policy as it would be keeps all as it is', async t => {
  const { app, statuses } = await serve(t, {
    any: '2/1m',
    sent: { quota: 100, window: '1m', unit: 'content-bytes', cost: 1, default: false }
  })
  app.post('/sent', { config: { quota: { policies: ['sent'], hook: 'preHandler' } } }, async () => '')
  await ready(app)
  t.throws(() => app.quota.update({ policies: { any: '9/1m', sent: { cost: undefined } } }), {
    code: 'FST_QUOTA_ROUTE',
    message: /^route POST \/sent: hook must be "onRequest" or "preParsing" for policy "sent"/
  })
  t.strictSame(await statuses('/', '/', '/'), [200, 200, 429])
})

t.test('a request in hand ends as it began: it is corrected where it was charged', async t => {
  for (const kind of [serve, serveLater]) {
    const { app } = await kind(t, { any: { quota: 100, window: '1m', cost: 10 } })
    const act = acting(app)
    const response = await act(async ({ quota }) => {
      app.quota.update({ policies: { any: { quota: 50, algorithm: 'fixed-window' } } })
      t.strictSame(await leftOf(app, ['any']), { any: 50 }, 'others meet the new policy')
      await quota.spend('any', 5)
      const reserved = await quota.reserve('any', 20)
      await reserved.settle(7)
      await quota.settle('any', 12)
      await t.rejects(quota.settle('any', 12), { code: 'FST_QUOTA_SETTLED' })
      return quota.limits.map(({ policy, remaining }) => [policy.quota, remaining])
    })
    t.strictSame(response.json(), [[100, 81]])
    t.match(response.headers, { 'ratelimit-policy': '"any";q=100;w=60', ratelimit: '"any";r=81;t=60' })
    t.strictSame(await leftOf(app, ['any']), { any: 50 })
    app.quota.update({ policies: { any: { quota: 100, algorithm: 'sliding-window' } } })
    t.strictSame(await leftOf(app, ['any']), { any: 81 })
  }
})

t.test('a request in hand is decided at its later stages by the policies it came in under', async t => {
  const { app } = await serve(t, {
    early: { quota: 9, window: '1m', hook: 'onRequest' },
    late: { quota: 9, window: '1m', hook: 'preHandler' }
  })
  app.addHook('preValidation', async () => {
    app.quota.update({ policies: { late: { quota: 0, hook: 'onRequest' } } })
  })
  app.get('/change', async () => 'changed')
  const first = await app.inject('/change')
  t.match(first.headers, { ratelimit: '"early";r=8;t=60, "late";r=8;t=60' })
  const second = await app.inject('/change')
  t.equal(second.statusCode, 429)
  t.match(second.headers, {
    ratelimit: '"late";r=0',
    'ratelimit-policy': '"early";q=9;w=60, "late";q=0;w=60'
  })
})

t.test('what code has reserved of a policy that its route lacks is that policy as it was', async t => {
  const { app } = await serve(t, {
    any: '9/1m',
    rows: { quota: 9, window: '1m', unit: 'rows', default: false }
  })
  const act = acting(app)
  await act(async ({ quota }) => {
    await quota.reserve('rows', 3)
    app.quota.update({ policies: { rows: { window: '2m' } } })
    await quota.settle('rows', 1)
    return ''
  })
  t.strictSame(await leftOf(app, ['rows']), { rows: 9 })
  app.quota.update({ policies: { rows: { window: '1m' } } })
  t.strictSame(await leftOf(app, ['rows']), { rows: 8 })
})

t.test('refunds are asked for where a request was charged', async t => {
  const { app } = await serve(t, { any: { quota: 9, window: '1m', refund: () => true } })
  const act = acting(app)
  await act(() => {
    app.quota.update({ policies: { any: { window: '2m', refund: undefined } } })
    return ''
  })
  t.strictSame(await leftOf(app, ['any']), { any: 9 })
  app.quota.update({ policies: { any: { window: '1m' } } })
  t.strictSame(await leftOf(app, ['any']), { any: 9 }, 'given back')
})

t.test('of places, the limit changes and those that are held stay', async t => {
  const { app, statuses } = await serve(t, { slots: { quota: 3, algorithm: 'concurrency' } })
  await ready(app)
  const held = await Promise.all(
    [1, 1, 1].map(units => app.quota.reserve({ ip: '127.0.0.1' }, 'slots', units))
  )
  t.strictSame(await statuses('/'), [429])
  t.match(app.quota.update({ policies: { slots: { quota: 2 } } }), [{ carriesOver: true }])
  t.strictSame(app.quota.held(), { slots: 3 })
  await held[0]!.release()
  t.strictSame(await statuses('/'), [429], 'two of two are held')
  await held[1]!.release()
  t.strictSame(await statuses('/', '/'), [200, 200])
  app.quota.update({ policies: { slots: { quota: 1 } } })
  t.strictSame(await statuses('/'), [429])
  await held[2]!.release()
  t.strictSame(app.quota.held(), { slots: 0 })
  t.strictSame(await statuses('/', '/'), [200, 200])
})

t.test('places are released where they were taken, if requests are counted now', async t => {
  const { app } = await serve(t, { slots: { quota: 1, algorithm: 'concurrency', unit: 'calls' } })
  await ready(app)
  const place = await app.quota.reserve({ ip: '127.0.0.1' }, 'slots', 1)
  app.quota.update({ policies: { slots: { quota: 5, algorithm: 'sliding-window', window: '1m' } } })
  t.strictSame(await leftOf(app, ['slots']), { slots: 5 })
  await place.release()
  app.quota.update({ policies: { slots: { quota: 1, algorithm: 'concurrency', window: undefined } } })
  t.strictSame(await leftOf(app, ['slots']), { slots: 1 })
})

t.test('requests are counted at once from now on: their places are free when they are over', async t => {
  const { app } = await serve(t, { slots: { quota: 5, window: '1m', unit: 'calls' } })
  const act = acting(app)
  app.quota.update({ policies: { slots: { quota: 1, algorithm: 'concurrency', window: undefined } } })
  for (let i = 0; i < 3; i++) {
    const response = await act(() => {
      t.strictSame(app.quota.held(), { slots: 1 })
      return ''
    })
    t.equal(response.statusCode, 200)
  }
  t.strictSame(app.quota.held(), { slots: 0 })
})

t.test('a trial becomes what it tried, and back', async t => {
  const { app, statuses } = await serving(t, {
    any: '9/1m',
    next: { quota: 1, window: '1m', mode: 'shadow' }
  })
  t.strictSame(listed(await app.inject('/')), ['any'])
  t.strictSame(await statuses('/'), [200])
  t.match(app.quota.update({ policies: { next: { mode: 'enforce' } } }), [
    { from: { mode: 'shadow' }, to: { mode: 'enforce' }, carriesOver: true }
  ])
  t.strictSame(await statuses('/'), [429], 'what it has counted as a trial is spent')
  app.quota.update({ policies: { next: { mode: 'shadow' } } })
  t.strictSame(await statuses('/'), [200])
})

t.test('a plan becomes a number, and a number a plan', async t => {
  const { app } = await serving(t, { any: { quota: () => 3, window: '1m' } })
  t.strictSame(left(await app.inject('/')), { any: 2 })
  t.match(app.quota.update({ policies: { any: { quota: 9 } } }), [
    { from: { quota: 'by request' }, to: { quota: 9 } }
  ])
  t.strictSame(left(await app.inject('/')), { any: 7 })
  app.quota.update({ policies: { any: { quota: async () => 4 } } })
  t.strictSame(left(await app.inject('/')), { any: 1 })
})

t.test('all routes follow: of scopes, in place, unmatched, and those that came too early', async t => {
  const { app, clock, statuses } = bare(t)
  const own = { name: 'own', quota: 9, window: '1m' } as const
  app.get('/early', { config: { quota: [own] } }, async () => '')
  app.get('/too-early', { config: { quota: [own] } }, async () => '')
  app.register(quota, { policies: { any: '9/1m' }, clock: clock.read })
  app.register(async child => {
    await child.register(quota, { policies: { inner: '9/1m' } })
    child.get('/inner', async () => '')
  })
  t.strictSame(await statuses('/early', '/inner', '/nowhere'), [200, 200, 404])
  app.quota.update({ policies: { any: { quota: 1 }, inner: { quota: 0 }, own: { quota: 1 } } })
  t.strictSame(await statuses('/early', '/inner', '/nowhere'), [429, 429, 429])
  t.strictSame(
    await statuses('/too-early'),
    [429],
    'written in place as it was before, it is the same policy'
  )
  const quotas = app.quota
    .routes()
    .routes.map(({ route, policies }) => [route, policies.map(({ quota }) => quota)])
  t.strictSame(quotas, [
    ['GET /inner', [1, 0]],
    ['HEAD /inner', [1, 0]],
    ['GET /early', [1]],
    ['GET /too-early', [1]]
  ])
})

t.test('a policy that is written in place at a first request joins those that were updated', async t => {
  const { app, clock, statuses } = bare(t)
  app.get('/early', { config: { quota: [{ name: 'own', quota: 1, window: '1m' }] } }, async () => '')
  app.register(quota, { policies: { any: '9/1m' }, clock: clock.read })
  await ready(app)
  app.quota.update({ policies: { any: { quota: 8 } } })
  t.strictSame(await statuses('/early', '/early'), [200, 429])
  t.match(app.quota.update({ policies: { own: { quota: 2 } } }), [{ from: { quota: 1 }, to: { quota: 2 } }])
  t.strictSame(await statuses('/early', '/early'), [200, 429])
})

t.test('an update before the app is ready is what its routes are planned with', async t => {
  const { app, statuses } = await serve(t, { any: '9/1m' })
  app.quota.update({ policies: { any: { quota: 1 } } })
  t.strictSame(await statuses('/', '/'), [200, 429])
})

t.test('an update says what is unwise about it, of the routes it is about', async t => {
  const { app } = await serve(t, { any: '9/1m', other: { quota: 9, window: '1m', default: false } })
  app.get('/dear', { config: { quota: { cost: 5 } } }, async () => '')
  app.get('/other', { config: { quota: { policies: ['other'], cost: 5 } } }, async () => '')
  await ready(app)
  const emitted = t.capture(process, 'emitWarning')
  app.quota.update({ policies: { any: { quota: 4, window: '2h' } } })
  t.match(
    emitted().map(({ args: [message, , code] }) => [code, message]),
    [
      ['FST_QUOTA_LONG_WINDOW', 'policy "any"'],
      ['FST_QUOTA_COST', 'GET /dear: each request costs 5, more than the 4']
    ]
  )
})

t.test('an update is a line in the log', async t => {
  const lines: unknown[] = []
  const { app } = await serve(t, { any: '9/1m' })
  app.log.info = (...line: unknown[]) => void lines.push(line)
  const changes = app.quota.update({ policies: { any: { quota: 1 } } })
  t.strictSame(lines, [[{ changes }, 'fastify-quota: policies have changed']])
  app.quota.update({ policies: { any: { quota: 1 } } })
  t.equal(lines.length, 1)
})
