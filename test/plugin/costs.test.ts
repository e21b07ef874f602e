import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { RouteQuota } from '../../src/index.js'
import { left, leftOf, serve, stopProcessTime, stores } from './kit.js'

t.test('costs count as they are, and never let more through than there is', async t => {
  const { app, statuses } = await serve(t, {
    ten: { quota: 10, window: '1m', cost: ({ query }) => Number(Object(query).n) }
  })
  t.strictSame(await statuses('/?n=8', '/?n=1', '/?n=1', '/?n=1'), [200, 200, 200, 429])
  t.strictSame(await statuses('/?n=0', '/?n=0'), [200, 200])
  t.strictSame(await leftOf(app, ['ten']), { ten: 0 })
})

t.test('a cost can be known later', async t => {
  const { app } = await serve(t, {
    later: { quota: 10, window: '1m', cost: async () => 4 },
    now: { quota: 10, window: '1m', cost: () => 3 }
  })
  t.strictSame(left(await app.inject('/')), { later: 6, now: 7 })
})

const routes: Readonly<Record<string, { quota: RouteQuota; left: object }>> = {
  'a number is for the policies in requests': { quota: { cost: 4 }, left: { any: 6, other: 6, tokens: 8 } },
  'a function is too': { quota: { cost: ({ url }) => url.length }, left: { any: 3, other: 3, tokens: 8 } },
  'a function that answers later is too': {
    quota: { cost: async () => 5 },
    left: { any: 5, other: 5, tokens: 8 }
  },
  'a number for one policy leaves the others': {
    quota: { cost: { tokens: 7 } },
    left: { any: 7, other: 9, tokens: 3 }
  },
  'each policy may have a cost of its own': {
    quota: { cost: { any: 0, other: () => 2, tokens: async () => 10 } },
    left: { any: 10, other: 8, tokens: 0 }
  },
  'a hook and a cost go together': {
    quota: { cost: { any: ({ body }) => Number(body !== undefined) }, hook: 'preHandler' },
    left: { any: 10, other: 9, tokens: 8 }
  }
}

for (const [store, start] of Object.entries(stores)) {
  for (const [what, { quota, left: expected }] of Object.entries(routes)) {
    t.test(`with ${store}, of the costs of a route ${what}`, async t => {
      const { app } = await start(t, {
        any: { quota: 10, window: '1m', cost: () => 3 },
        other: '10/1m',
        tokens: { quota: 10, window: '1m', unit: 'tokens', cost: async () => 2 }
      })
      app.get('/route7', { config: { quota } }, async () => 'served')
      t.strictSame(left(await app.inject('/route7')), expected)
    })
  }
}

t.test('the largest costs are counted to the unit', async t => {
  const most = 100_000_000_000_000
  for (const algorithm of ['sliding-window', 'fixed-window'] as const) {
    const { app, statuses } = await serve(t, {
      large: { quota: most, window: '1m', algorithm, cost: ({ url }) => (url === '/' ? most - 1 : 1) }
    })
    app.get('/one', async () => 'one')
    t.strictSame(await statuses('/', '/', '/one', '/one'), [200, 429, 200, 429])
  }
})

t.test('costs are asked for together, and each once', async t => {
  const asked: string[] = []
  const cost = (name: string) => async (): Promise<number> => {
    asked.push(name)
    await new Promise(resolve => setImmediate(resolve))
    asked.push(`${name} is known`)
    return 1
  }
  const { statuses } = await serve(t, {
    a: { quota: 9, window: '1m', cost: cost('a') },
    b: { quota: 9, window: '1m', cost: cost('b') }
  })
  t.strictSame(await statuses('/'), [200])
  t.strictSame(asked, ['a', 'b', 'a is known', 'b is known'])
})

const nonsense: Readonly<Record<string, () => unknown>> = {
  'a negative number': () => -1,
  NaN: () => NaN,
  'a fraction': () => 1.5,
  'a text': () => '2',
  Infinity: () => Infinity,
  'more than a field can say': () => 2 ** 53,
  nothing: () => undefined,
  'a promise of nothing': async () => undefined,
  'an error': () => {
    throw new Error('no cost')
  },
  'a rejection': async () => {
    throw new Error('no cost, later')
  }
}

for (const [what, cost] of Object.entries(nonsense)) {
  t.test(`a cost that is ${what} is all the policy can hold, and is logged once`, async t => {
    const { app, errors, statuses } = await serve(t, {
      window: { quota: 10, window: '1m', cost: cost as never },
      bucket: { quota: 10, window: '1m', algorithm: 'token-bucket', burst: 5, cost: cost as never },
      other: '9/1m'
    })
    t.strictSame(await statuses('/', '/', '/'), [200, 429, 429])
    t.strictSame(await leftOf(app, ['window', 'bucket', 'other']), { window: 0, bucket: 0, other: 8 })
    t.strictSame(
      errors.map(({ option }) => option),
      ['cost of policy "window"', 'cost of policy "bucket"']
    )
    t.match(errors[0]?.msg, /the request costs all the policy can hold/)
  })
}

t.test('a cost that reads the body before there is one is told where it can', async t => {
  const cost = (request: FastifyRequest): number => (request.body as readonly unknown[]).length
  for (const [hook, payload, told] of [
    ['preParsing', [1, 2], true],
    ['preHandler', null, false],
    ['preParsing', undefined, false]
  ] as const) {
    const { app, errors } = await serve(t, { any: { quota: 9, window: '1m', cost, hook } })
    const headers = { 'content-type': 'application/json' }
    const body = payload === undefined ? {} : { headers, payload: JSON.stringify(payload) }
    await app.inject({ method: 'POST', url: '/', ...body })
    const hint = "; its body is not read yet: if the cost is read from it, it needs hook: 'preHandler'"
    t.equal(errors[0]?.msg.endsWith(`the request costs all the policy can hold${told ? hint : ''}`), true)
  }
})

t.test('a function that fails on every request is logged once a minute', async t => {
  const process = stopProcessTime(t)
  const { errors, statuses } = await serve(t, { any: { quota: 9, window: '1m', cost: () => NaN } })
  await statuses('/', '/', '/')
  process.pass(59_999)
  await statuses('/')
  t.equal(errors.length, 1)
  process.pass(1)
  await statuses('/', '/')
  t.equal(errors.length, 2)
})

t.test('a cost beyond the quota is refused without a time to wait, and drains nothing', async t => {
  const { app } = await serve(t, { ten: { quota: 10, window: '1m', cost: 11 }, other: '9/1m' })
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.notOk('retry-after' in refused.headers)
  t.strictSame(await leftOf(app, ['ten', 'other']), { ten: 10, other: 9 })
})

t.test('a batch costs its operations, read from the body at preHandler', async t => {
  const { app } = await serve(t, {
    operations: {
      quota: 10,
      window: '1m',
      hook: 'preHandler',
      cost: ({ body }) => (Array.isArray(body) ? Math.max(1, body.length) : 1)
    }
  })
  let executed = 0
  app.post('/batch', async ({ body }) => void (executed += Array.isArray(body) ? body.length : 1))
  const batch = async (operations: number): Promise<readonly [number, unknown]> => {
    const payload = Array<number>(operations).fill(0)
    const { statusCode, headers } = await app.inject({ method: 'POST', url: '/batch', payload })
    return [statusCode, headers['ratelimit']]
  }
  t.strictSame(await batch(4), [200, '"operations";r=6;t=60'])
  t.equal((await batch(25))[0], 429)
  t.equal(executed, 4)
  t.strictSame(await leftOf(app, ['operations']), { operations: 6 })
  t.strictSame(await batch(6), [200, '"operations";r=0;t=60'])
  t.equal((await batch(0))[0], 429)
  t.equal((await app.inject({ method: 'POST', url: '/batch', payload: { no: 'array' } })).statusCode, 429)
})
