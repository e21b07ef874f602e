import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyRequest, InjectOptions } from 'fastify'
import t from 'tap'
import type { AlgorithmName, PolicyOptions } from '../../src/index.js'
import { acting, left, leftOf, listed, serve, serveLater, stopProcessTime, stores, violated } from './kit.js'

/** The quota that a request names itself. */
const asked = ({ headers }: FastifyRequest): number => Number(headers['x-quota'])

const plan = (options: Partial<PolicyOptions> = {}): PolicyOptions => ({
  quota: asked,
  window: '10s',
  ...options
})

const of = (quota: number, url: string = '/'): InjectOptions => ({ url, headers: { 'x-quota': `${quota}` } })

const ALGORITHMS: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
]

for (const [store, start] of Object.entries(stores)) {
  for (const algorithm of ALGORITHMS) {
    t.test(`${algorithm} with ${store}: a quota that changes keeps what is counted`, async t => {
      const { app, clock } = await start(t, { plan: plan({ algorithm, cost: 3 }) })
      const seen: unknown[] = []
      for (const quota of [10, 20, 9, 5, 0, 3, 21]) {
        const response = await app.inject(of(quota))
        seen.push([quota, response.statusCode, left(response)['plan']])
        t.equal(response.headers['ratelimit-policy'], `"plan";q=${quota};w=10`)
      }
      t.strictSame(seen, [
        [10, 200, 7],
        [20, 200, 14],
        [9, 200, 0],
        [5, 429, 0],
        [0, 429, 0],
        [3, 429, 0],
        [21, 200, 9]
      ])
      clock.pass(30_000)
      t.strictSame(left(await app.inject(of(4))), { plan: 1 })
    })
  }

  t.test(`with ${store} a quota that is known later is its own partition’s, always`, async t => {
    const quotas: Record<string, number> = { a: 1, b: 100 }
    const user = ({ headers }: FastifyRequest): string => String(headers['x-user'])
    const { app } = await start(t, {
      identify: { user },
      policies: {
        plan: {
          quota: async request => sleep(Math.random() * 20, quotas[user(request)]),
          window: '1m',
          partition: 'user'
        }
      }
    })
    const ask = async (name: string): Promise<number> => {
      const response = await app.inject({ url: '/', headers: { 'x-user': name } })
      t.equal(response.headers['ratelimit-policy'], `"plan";q=${quotas[name]};w=60`)
      if (response.statusCode === 429) t.strictSame(left(response), { plan: 0 })
      return response.statusCode
    }
    const round = async (names: readonly string[]): Promise<unknown> => {
      const codes = await Promise.all(names.map(ask))
      return ['a', 'b'].map(name => codes.filter((code, i) => names[i] === name && code === 200).length)
    }
    const both = Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? 'a' : 'b'))
    t.strictSame(await round(both), [1, 50])
    quotas['a'] = 3
    t.strictSame(await round(both.slice(0, 10)), [2, 5])
    quotas['a'] = 1
    t.strictSame(await round(both.slice(0, 10)), [0, 5])
    t.strictSame(left(await app.inject({ url: '/', headers: { 'x-user': 'b' } })), { plan: 100 - 61 })
  })

  t.test(`with ${store} two plans and a policy of one route are one decision`, async t => {
    const { app } = await start(t, {
      plan: plan(),
      other: plan({ quota: async request => asked(request) * 2, cost: 2 }),
      fixed: '50/10s'
    })
    const served = await app.inject(of(3))
    t.strictSame(left(served), { plan: 2, other: 4, fixed: 49 })
    t.equal(served.headers['ratelimit-policy'], '"plan";q=3;w=10, "other";q=6;w=10, "fixed";q=50;w=10')
    const refused = await app.inject(of(1))
    t.strictSame(violated(refused), ['plan', 'other'])
    t.strictSame(left(await app.inject(of(3))), { plan: 1, other: 2, fixed: 48 }, 'all or none')
  })

  t.test(`with ${store} the policies field is the same for all answers of a plan`, async t => {
    const { app } = await start(t, {
      early: plan({ hook: 'onRequest', quota: request => asked(request) * 10 }),
      plan: plan(),
      tokens: { quota: 5, window: '10s', unit: 'tokens', default: false }
    })
    const act = acting(app)
    const fields: unknown[] = []
    const ask = async (quota: number, units: number = 0): Promise<void> => {
      const { statusCode, headers } = await act(
        async (request, reply) => {
          await request.quota.settle('plan', 1)
          const tokens = await request.quota.reserve('plan', units)
          return tokens.outcome === 'refused' ? reply.refuse(tokens) : 'done'
        },
        of(quota, '/act')
      )
      fields.push([statusCode, headers['ratelimit-policy']])
    }
    await ask(2)
    await ask(2, 9)
    await ask(2)
    await ask(4)
    await ask(4)
    const [two, four] = ['"early";q=20;w=10, "plan";q=2;w=10', '"early";q=40;w=10, "plan";q=4;w=10']
    t.strictSame(fields, [
      [200, two],
      [429, two],
      [429, two],
      [200, four],
      [200, four]
    ])
    const joined = await act(
      async (request, reply) => {
        return reply.refuse(await request.quota.reserve('tokens', 6))
      },
      of(9, '/act')
    )
    t.strictSame([listed(joined), violated(joined)], [['early', 'plan', 'tokens'], ['tokens']])
  })
}

t.test('the policies fields of a thousand plans and more are all their own', async t => {
  const { app } = await serve(t, { plan: plan({ quota: ({ query }) => Number(Object(query).n) }) })
  for (const n of [1, 2, ...Array.from({ length: 1100 }, (_, i) => i + 3), 1, 2]) {
    const { headers } = await app.inject(`/?n=${n}`)
    if (headers['ratelimit-policy'] !== `"plan";q=${n};w=10`)
      t.fail(`${n}: ${String(headers['ratelimit-policy'])}`)
  }
})

const nonsense: Readonly<Record<string, () => unknown>> = {
  'a negative number': () => -1,
  'a fraction': () => 1.5,
  NaN: () => NaN,
  Infinity: () => Infinity,
  'a text': () => '5',
  nothing: () => undefined,
  'a promise of nothing': async () => undefined,
  'more than can be counted exactly': () => 2 ** 52,
  'an error': () => {
    throw new Error('no plan')
  },
  'a rejection': async () => Promise.reject(new Error('no plan, later'))
}

for (const [what, quota] of Object.entries(nonsense)) {
  const wrong = plan({ quota: quota as () => number, algorithm: 'token-bucket' })

  t.test(`a quota that is ${what} is answered as an outage: 503, no fields, nothing charged`, async t => {
    const { app, errors } = await serve(t, {
      first: { quota: 9, window: '10s', hook: 'onRequest' },
      wrong,
      other: '9/10s'
    })
    for (let i = 0; i < 2; i++) {
      const response = await app.inject('/')
      t.equal(response.statusCode, 503)
      t.match(response.headers['content-type'], /^application\/problem\+json/)
      t.match(response.json(), { type: /temporary-reduced-capacity$/, status: 503 })
      t.notOk('violated-policies' in response.json())
      t.match(response.headers, { 'retry-after': /^[123]$/, 'cache-control': 'no-store' })
      t.notOk('ratelimit' in response.headers || 'ratelimit-policy' in response.headers)
    }
    t.strictSame(await leftOf(app, ['first', 'other']), { first: 9, other: 9 })
    t.match(errors, [{ option: 'quota of policy "wrong"', msg: /failed, so the request is refused/ }])
    t.equal(errors.length, 1)
  })

  t.test(`a quota that is ${what} is skipped by a policy that fails open`, async t => {
    const { app, errors } = await serve(t, { wrong: { ...wrong, onStoreFailure: 'open' } })
    app.get('/seen', async ({ quota: { outcome, source } }) => ({ outcome, source }))
    const response = await app.inject('/seen')
    t.strictSame(response.json(), { outcome: 'allowed', source: 'open' })
    t.notOk('ratelimit' in response.headers || 'ratelimit-policy' in response.headers)
    t.match(errors, [{ option: 'quota of policy "wrong"', msg: /failed, so the request passes without it/ }])
  })
}

const throwing = plan({
  quota: () => {
    throw new Error('no plan')
  }
})

t.test('the other policies of the decision still count when one fails open', async t => {
  const { app } = await serve(t, { wrong: { ...throwing, onStoreFailure: 'open' }, other: '9/10s' })
  const response = await app.inject('/')
  t.strictSame([left(response), listed(response)], [{ other: 8 }, ['other']])
})

t.test('a shadow policy refuses nothing, not even when its quota fails', async t => {
  const { app, errors } = await serve(t, { trial: { ...throwing, mode: 'shadow' }, other: '9/10s' })
  const response = await app.inject('/')
  t.strictSame([response.statusCode, left(response)], [200, { other: 8 }])
  t.match(errors, [{ msg: /failed, so the request passes without it/ }])
})

t.test('a policy that fails closed is not outvoted by one that fails open', async t => {
  const { app } = await serve(t, {
    open: { ...throwing, onStoreFailure: 'open' },
    local: { ...throwing, onStoreFailure: 'local' }
  })
  t.equal((await app.inject('/')).statusCode, 503)
})

t.test('a quota that fails at a later stage takes the fields of earlier ones away', async t => {
  const { app } = await serve(t, {
    policies: {
      early: { quota: 9, window: '10s', hook: 'onRequest' },
      late: { ...throwing, hook: 'preHandler' }
    },
    legacy: { style: 'x-ratelimit', reset: 'delta' },
    onRefused: ({ outcome, source }) => t.strictSame([outcome, source], ['refused', 'closed'])
  })
  app.addHook('preValidation', async (_, reply) => {
    void reply.header('ratelimit', '"cdn";r=1').header('x-app', 'mine')
  })
  const { statusCode, headers } = await app.inject('/')
  t.equal(statusCode, 503)
  t.match(headers, { ratelimit: '"cdn";r=1', 'x-app': 'mine', 'retry-after': /^[123]$/ })
  t.notOk('ratelimit-policy' in headers || 'x-ratelimit-limit' in headers)
})

t.test('a quota that fails on every request is logged once a minute', async t => {
  const process = stopProcessTime(t)
  const { errors, statuses } = await serve(t, { wrong: throwing })
  await statuses('/', '/')
  process.pass(60_000)
  await statuses('/', '/')
  t.equal(errors.length, 2)
})

t.test('nobody asks for the quota of a request that is exempt', async t => {
  const { app, errors } = await serve(t, { wrong: { ...throwing, exempt: () => true } })
  t.equal((await app.inject('/')).statusCode, 200)
  t.strictSame(errors, [])
})

t.test('plans at several stages are each decided with the quota of the request', async t => {
  const { app, statuses } = await serve(t, {
    early: plan({ hook: 'onRequest' }),
    late: plan({ hook: 'preHandler', quota: async request => asked(request) - 1 })
  })
  t.strictSame(left(await app.inject(of(3))), { early: 2, late: 1 })
  t.strictSame(await statuses(of(3), of(3)), [200, 429])
  const refused = await app.inject(of(3))
  t.strictSame([listed(refused), violated(refused)], [['early', 'late'], ['late']])
  t.strictSame(left(await app.inject(of(9))), { early: 6, late: 5 }, 'refusals gave the first back')
})

t.test('the cost of a plan that is nonsense is all that this plan can hold', async t => {
  const { app } = await serve(t, { plan: plan({ cost: () => NaN }) })
  t.strictSame(left(await app.inject(of(7))), { plan: 0 })
  t.equal((await app.inject(of(13))).statusCode, 429)
  t.equal((await app.inject(of(14))).statusCode, 429)
})

t.test('outside a request nobody knows its plan; a request does, and anybody may reset', async t => {
  const { app } = await serve(t, { plan: plan(), any: '9/10s' })
  const subject = { ip: '127.0.0.1' }
  const expected = { code: 'FST_QUOTA_SUBJECT', message: /policy "plan" depends on the request/ }
  await t.rejects(app.quota.peek(subject, ['plan']), expected)
  await t.rejects(app.quota.peek(subject), expected)
  await t.rejects(app.quota.consume(subject, { any: 1, plan: 1 }), expected)
  await t.rejects(app.quota.reserve(subject, 'plan', 1), expected)
  t.strictSame(await leftOf(app, ['any']), { any: 9 })
  const act = acting(app, false)
  await act(
    async request => {
      t.equal((await app.quota.consume(request, { plan: 2 })).limits[0]?.remaining, 3)
      t.equal((await app.quota.peek(request, ['plan'])).limits[0]?.remaining, 3)
      const reservation = await app.quota.reserve(request, 'plan', 2)
      t.equal(reservation.limits[0]?.policy.quota, 5)
      await reservation.settle(1)
      await request.quota.spend('plan', 1)
      t.equal((await app.quota.peek(request, ['plan'])).limits[0]?.remaining, 1)
    },
    of(5, '/act')
  )
  await app.quota.reset(subject, ['plan'])
  t.strictSame(left(await app.inject(of(5))), { plan: 4, any: 8 })
})

t.test(
  'a quota that fails fails calls too: closed they refuse, open they pass and charge nothing',
  async t => {
    const { app } = await serve(t, {
      policies: {
        closed: { ...throwing, default: false },
        open: { ...throwing, onStoreFailure: 'open', default: false },
        any: { quota: 9, window: '10s', default: false }
      }
    })
    const act = acting(app, false)
    await act(async request => {
      const closed = { outcome: 'refused', source: 'closed', limits: [] }
      const open = { outcome: 'allowed', source: 'open', limits: [] }
      t.match(await app.quota.consume(request, { closed: 1, any: 1 }), closed)
      t.match(await app.quota.peek(request, ['any', 'closed']), closed)
      t.match(await app.quota.consume(request, { open: 1 }), open)
      t.match(await app.quota.peek(request, ['open']), open)
      t.match(await app.quota.consume(request, { open: 1, any: 2 }), {
        outcome: 'allowed',
        source: 'memory',
        limits: [{ remaining: 7, units: 2 }]
      })
      for (const [name, expected] of [
        ['closed', closed],
        ['open', open]
      ] as const) {
        const reservation = await request.quota.reserve(name, 1)
        t.match(reservation, expected)
        await reservation.settle(5)
        await request.quota.spend(name, 5)
        await request.quota.settle(name, 5)
      }
    })
    const refused = await act(async (request, reply) =>
      reply.refuse(await request.quota.reserve('closed', 1))
    )
    t.equal(refused.statusCode, 503)
    t.match(refused.headers['retry-after'], /^[123]$/)
    t.notOk('ratelimit' in refused.headers || 'ratelimit-policy' in refused.headers)
    t.strictSame(await leftOf(app, ['any']), { any: 7 })
  }
)

t.test('a plan whose body is refused as it arrives still names all its policies', async t => {
  const { app } = await serve(t, {
    plan: plan(),
    bytes: plan({ unit: 'content-bytes', quota: request => asked(request) * 2 })
  })
  const refused = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'x-quota': '5', 'transfer-encoding': 'chunked', 'content-type': 'text/plain' },
    payload: Readable.from(['eleven', 'bytes'])
  })
  t.equal(refused.statusCode, 429)
  t.strictSame([violated(refused), listed(refused)], [['bytes'], ['plan', 'bytes']])
  t.strictSame(left(await app.inject(of(5))), { plan: 4, bytes: 10 })
})

t.test('a plan counts bodies and leases as well', async t => {
  const { app } = await serveLater(t, {
    bytes: plan({ unit: 'content-bytes' }),
    slots: { quota: request => asked(request) / 5, algorithm: 'concurrency' }
  })
  const post = (quota: number, payload: string): InjectOptions => ({ ...of(quota), method: 'POST', payload })
  t.strictSame(left(await app.inject(post(10, 'four'))), { slots: 1, bytes: 6 })
  t.strictSame(violated(await app.inject(post(10, 'seven..'))), ['bytes'])
  t.strictSame(left(await app.inject(post(20, 'seven..'))), { slots: 3, bytes: 9 })
})
