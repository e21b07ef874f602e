import fp from 'fastify-plugin'
import t from 'tap'
import quota, { memoryStore } from '../../src/index.js'
import type { Store } from '../../src/index.js'
import { MemoryStore } from '../../src/stores/memory.js'
import { bare, left, leftOf, listed, ready, serve, serveLater, watchWarnings } from './kit.js'

t.test(
  'routes declared before and beside an un-awaited registration are limited, and that is said once',
  async t => {
    const { heard } = watchWarnings(t)
    const { app, clock, statuses } = bare(t)
    app.get('/before', async () => 'before')
    app.register(quota, { policies: { any: '6/1m' }, clock: clock.read })
    app.get('/after', async () => 'after')
    app.register(async child => {
      child.get('/nested', async () => 'nested')
    })
    t.strictSame(
      await statuses(
        '/before',
        '/after',
        '/nested',
        '/before',
        '/after',
        '/nested',
        '/before',
        '/after',
        '/nested'
      ),
      [200, 200, 200, 200, 200, 200, 429, 429, 429]
    )
    const warnings = await heard()
    t.strictSame(
      warnings.map(({ code }) => code),
      ['FST_QUOTA_EARLY_ROUTES']
    )
    t.match(warnings[0]!.message, /\/before.*\/after.*await app\.register/s)
    t.notMatch(warnings[0]!.message, /nested/)
  }
)

t.test('the routes that came too early are told with their methods and full paths', async t => {
  const { heard } = watchWarnings(t)
  const { app } = bare(t)
  app.options('*', async () => 'answered by @fastify/cors')
  app.get('/b', async () => 'b')
  app.post('/b/c', async () => 'c')
  app.get('/b/:id/d', async () => 'd')
  app.route({ method: ['PUT', 'DELETE'], url: '/e', handler: async () => 'e' })
  await app.register(quota, { policies: { any: '9/1m' } })
  const [warning] = await heard()
  t.match(
    warning?.message,
    'routes were declared before fastify-quota was loaded (GET, HEAD /b, POST /b/c, GET, HEAD /b/:id/d, PUT, DELETE /e); '
  )
})

t.test('a preflight route of @fastify/cors alone is no reason to warn', async t => {
  const { heard } = watchWarnings(t)
  const { app } = bare(t)
  app.options('*', async () => 'answered by @fastify/cors')
  await app.register(quota, { policies: { any: '9/1m' } })
  await app.ready()
  t.strictSame(await heard(), [])
  t.equal(app.quota.routes().complete, true)
})

t.test(
  'routes are only called complete if all of them were declared after an awaited registration',
  async t => {
    const awaited = await serve(t, { any: '9/1m' })
    t.equal(awaited.app.quota.routes().complete, false, 'policies may still be added')
    await awaited.app.ready()
    t.equal(awaited.app.quota.routes().complete, true)

    const early = bare(t)
    early.app.get('/early', async () => 'early')
    early.app.register(quota, { policies: { any: '9/1m' } })
    await early.app.ready()
    t.equal(early.app.quota.routes().complete, false)
    t.strictSame(early.app.quota.routes().routes, [])
    await early.statuses('/early', '/early')
    t.equal(early.app.quota.routes().complete, false)
    t.strictSame(
      early.app.quota.routes().routes.map(({ route }) => route),
      ['GET /early']
    )
  }
)

t.test('a scope that was loaded before the plugin works like any other', async t => {
  const { app, clock, statuses } = bare(t)
  app.addHook('onRequest', async (request, reply) => {
    if (request.url === '/stopped') return reply.code(403).send('stopped before the plugin')
  })
  app.register(async child => {
    child.get('/any', async ({ quota }) => quota.outcome)
    child.get('/free', { config: { quota: false } }, async ({ quota }) => quota.outcome)
    child.get('/stopped', async () => '')
    child.options('/any', async ({ quota }) => quota.outcome)
    child.get('/wrong', { config: { quota: [] } }, async () => '')
  })
  app.register(quota, { policies: { any: '1/1m' }, clock: clock.read })
  t.equal((await app.inject('/free')).body, 'none')
  const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
  t.equal((await app.inject({ method: 'OPTIONS', url: '/any', headers })).body, 'none')
  t.strictSame(await statuses('/stopped', '/any', '/any', '/wrong'), [403, 200, 429, 500])
})

t.test('an early route in a scope that registers alone is found at its first request', async t => {
  const { heard } = watchWarnings(t)
  const { app, statuses } = bare(t)
  app.register(async child => {
    child.get('/early', async () => 'early')
    await child.register(quota, { policies: { any: '1/1m' } })
    child.get('/late', async ({ server }) => server.quota.routes().complete)
  })
  await app.ready()
  t.strictSame(await statuses('/early', '/early'), [200, 429])
  t.equal((await heard())[0]?.code, 'FST_QUOTA_EARLY_ROUTES')
})

t.test('an early route has the quota its config asks for', async t => {
  const { app, clock, statuses } = bare(t)
  const config = { quota: { policies: [{ name: 'own', quota: 2, window: '1m' }] } } as const
  app.get('/own', { config }, async () => 'own')
  app.get('/same', { config }, async () => 'same')
  app.get('/free', { config: { quota: false } }, async () => 'free')
  app.register(quota, { policies: { any: '1/1m' }, clock: clock.read })
  t.strictSame(await statuses('/own', '/same', '/own'), [200, 200, 429])
  t.strictSame(await statuses('/free', '/free', '/free'), [200, 200, 200])
  t.strictSame(await leftOf(app, ['any']), { any: 1 })
})

t.test(
  'an early route whose quota is written wrongly is a 500 every time, never an unlimited one',
  async t => {
    for (const wrong of [{ quota: 'any' }, { quota: { policie: ['any'] } }, { quota: ['anny'] }]) {
      const { app, clock, errors } = bare(t)
      let served = 0
      app.get('/wrong', { config: wrong as never }, async () => ++served)
      app.register(quota, { policies: { any: '9/1m' }, clock: clock.read })
      for (let i = 0; i < 3; i++) {
        const response = await app.inject('/wrong')
        t.equal(response.statusCode, 500)
        t.equal(response.json<{ code: string }>().code, 'FST_QUOTA_ROUTE')
      }
      t.equal(served, 0)
      const ours = errors.filter(({ msg }) => msg.startsWith('fastify-quota: '))
      t.equal(ours.length, 1)
      t.match(ours[0]?.err?.message, /route GET \/wrong/)
      t.strictSame(app.quota.routes().routes, [])
    }
  }
)

t.test(
  'an early route can name what another one has written in place, once that one was asked for',
  async t => {
    const { app, clock, errors, statuses } = bare(t)
    const placed = { name: 'placed', quota: 2, window: '1m' } as const
    app.get('/named', { config: { quota: ['placed'] } }, async () => 'named')
    app.get('/placing', { config: { quota: [placed] } }, async () => 'placing')
    app.register(quota, { policies: { any: '9/1m' }, clock: clock.read })
    t.strictSame(
      await statuses('/named', '/named', '/placing', '/named', '/named'),
      [500, 500, 200, 200, 429]
    )
    t.equal(errors.filter(({ msg }) => msg.startsWith('fastify-quota: ')).length, 1)
    t.strictSame(
      app.quota.routes().routes.map(({ route }) => route),
      ['GET /placing', 'GET /named']
    )
  }
)

t.test('a route declared in time and written wrongly does not start', async t => {
  const { app } = await serve(t, { any: '9/1m' })
  t.throws(() => app.get('/shape', { config: { quota: 'any' as never } }, async () => ''), {
    code: 'FST_QUOTA_ROUTE'
  })
  app.get('/name', { config: { quota: ['anny'] } }, async () => '')
  await t.rejects(ready(app), { code: 'FST_QUOTA_ROUTE', message: /did you mean "any"/ })
})

t.test('registered again in a child scope, it adds policies there and nowhere else', async t => {
  const { app, errors } = await serve(t, { outer: '9/1m' })
  app.register(
    async child => {
      child.get('/first', async () => 'declared before')
      await child.register(quota, {
        policies: { inner: '5/1m', spare: { quota: 1, window: '1m', default: false } }
      })
      child.get('/then', async () => 'declared after')
      child.get('/named', { config: { quota: ['spare'] } }, async () => 'named')
      child.register(async grandchild => {
        grandchild.get('/deep', async () => 'deep')
      })
      child.setNotFoundHandler(async (_request, reply) => reply.code(404).send())
    },
    { prefix: '/in' }
  )
  app.register(async sibling => {
    sibling.get('/sibling', async () => 'beside')
  })
  for (const url of ['/in/first', '/in/then', '/in/deep', '/in/nowhere'])
    t.strictSame(listed(await app.inject(url)), ['outer', 'inner'], url)
  t.strictSame(listed(await app.inject('/in/named')), ['spare'])
  for (const url of ['/', '/sibling', '/nowhere']) t.strictSame(listed(await app.inject(url)), ['outer'], url)
  t.strictSame(await leftOf(app, ['outer', 'inner']), { outer: 2, inner: 1 }, 'one decision for each request')
  t.strictSame(errors, [])
})

t.test('registered again without await, it adds its policies to routes on both sides', async t => {
  const { app } = await serve(t, { outer: '9/1m' })
  app.register(async child => {
    child.get('/first', async () => 'first')
    child.register(async grandchild => {
      grandchild.get('/deep', async () => 'deep')
      grandchild.register(quota, { policies: { deepest: '9/1m' } })
    })
    child.register(quota, { policies: { inner: '9/1m' } })
    child.get('/then', async () => 'then')
  })
  t.strictSame(listed(await app.inject('/first')), ['outer', 'inner'])
  t.strictSame(listed(await app.inject('/then')), ['outer', 'inner'])
  t.strictSame(listed(await app.inject('/deep')), ['outer', 'inner', 'deepest'])
})

t.test('a policy of a child scope cannot be named outside of it', async t => {
  const { app } = await serve(t, { outer: '9/1m' })
  app.register(async child => {
    await child.register(quota, { policies: { inner: { quota: 1, window: '1m', default: false } } })
  })
  app.get('/outside', { config: { quota: ['inner'] } }, async () => '')
  await t.rejects(ready(app), { code: 'FST_QUOTA_ROUTE', message: /"inner"/ })
})

t.test('registered twice in the same scope, it adds up', async t => {
  const { app } = await serve(t, { one: '9/1m' })
  await app.register(quota, { policies: { two: '9/1m' } })
  t.strictSame(listed(await app.inject('/')), ['one', 'two'])
  t.strictSame(await leftOf(app, ['one', 'two']), { one: 8, two: 8 })
})

t.test(
  'the same policy registered again is the same counter, another one of its name is refused',
  async t => {
    const { app } = await serve(t, { outer: '9/1m' })
    app.register(async child => {
      await child.register(quota, { policies: { outer: '9/1m' } })
      child.get('/in', async () => 'in')
    })
    t.strictSame(left(await app.inject('/in')), { outer: 8 })

    const other = await serve(t, { outer: '9/1m' })
    other.app.register(async child => {
      await child.register(quota, { policies: { outer: '8/1m' } })
    })
    await t.rejects(ready(other.app), { code: 'FST_QUOTA_POLICY', message: /"outer"/ })
  }
)

t.test('a further registration brings identities, and no settings', async t => {
  const { app } = await serve(t, { outer: '9/1m' })
  app.register(async child => {
    await child.register(quota, {
      identify: { user: ({ headers }) => headers['x-user'] as string },
      policies: { mine: { quota: 1, window: '1m', partition: 'user' } }
    })
    child.get('/in', async () => 'in')
  })
  for (const user of ['1', '2'])
    t.equal((await app.inject({ url: '/in', headers: { 'x-user': user } })).statusCode, 200)
  t.equal((await app.inject({ url: '/in', headers: { 'x-user': '1' } })).statusCode, 429)

  for (const setting of [{ store: memoryStore() }, { fields: false as const }]) {
    const other = await serve(t, { outer: '9/1m' })
    other.app.register(async child => {
      await child.register(quota, { policies: { inner: '1/1m' }, ...setting })
    })
    await t.rejects(ready(other.app), {
      code: 'FST_QUOTA_OPTION',
      message: /belongs to the first registration/
    })
  }
})

t.test('two siblings that register each for themselves do not know each other', async t => {
  const { app, statuses } = bare(t)
  app.get('/outside-before', async () => 'outside')
  for (const name of ['a', 'b']) {
    app.register(
      async child => {
        await child.register(quota, { policies: { own: name === 'a' ? '1/1m' : '2/1m' } })
        child.get('/', async request => request.quota.limits.map(({ policy }) => policy.quota))
      },
      { prefix: name }
    )
  }
  app.get('/outside-after', async () => 'outside')
  t.strictSame(await statuses('/a', '/a', '/b', '/b', '/b'), [200, 429, 200, 200, 429])
  for (const url of ['/outside-before', '/outside-after', '/nowhere'])
    for (let i = 0; i < 3; i++) t.strictSame(listed(await app.inject(url)), [], url)
})

t.test('an outer scope that registers after an inner one does not start: two would decide', async t => {
  const { app } = bare(t)
  app.register(async child => {
    await child.register(quota, { policies: { inner: '1/1m' } })
  })
  app.register(quota, { policies: { outer: '1/1m' } })
  await t.rejects(ready(app), {
    code: 'FST_QUOTA_OPTION',
    message: /register the outer one first/
  })
})

t.test('prefixes of nested scopes are part of a route', async t => {
  const { app, statuses } = await serve(t, { each: { quota: 1, window: '1m', partition: 'route' } })
  for (const version of ['/v1', '/v2']) {
    app.register(
      async outer => {
        outer.register(
          async inner => {
            inner.get('/items/:id', async () => 'item')
          },
          { prefix: '/shop' }
        )
      },
      { prefix: version }
    )
  }
  t.strictSame(
    await statuses('/v1/shop/items/1', '/v2/shop/items/1', '/v1/shop/items/2', '/v2/shop/items/2'),
    [200, 200, 429, 429]
  )
})

t.test('a plugin of the app can register it for the whole app', async t => {
  const { app, clock, statuses } = bare(t)
  await app.register(
    fp(async instance => {
      await instance.register(quota, { policies: { any: '1/1m' }, clock: clock.read })
    })
  )
  app.get('/', async () => 'served')
  t.strictSame(await statuses('/', '/'), [200, 429])
})

t.test('a plugin of the app that registers it for itself alone is warned that no route has it', async t => {
  const { heard } = watchWarnings(t)
  const alone = bare(t)
  await alone.app.register(async child => {
    await child.register(quota, { policies: { any: '1/1m' } })
  })
  alone.app.get('/', async () => 'unlimited')
  t.strictSame(await alone.statuses('/', '/'), [200, 200])
  t.match(await heard(), [{ code: 'FST_QUOTA_NO_ROUTES', message: /wrap .* with fastify-plugin/ }])

  const jobs = bare(t)
  await jobs.app.register(quota, { policies: { any: '1/1m' } })
  const admin = bare(t)
  await admin.app.register(async child => {
    await child.register(quota, { policies: { any: '1/1m' } })
    child.get('/admin', async () => 'limited')
  })
  for (const { app } of [jobs, admin]) await app.ready()
  t.equal((await heard()).length, 1, 'an app for jobs has no routes, and a scope may be all that is limited')
})

t.test('options can be a function of the instance', async t => {
  const { app, statuses } = bare(t)
  app.decorate('limit', '1/1m')
  await app.register(quota, instance => ({ policies: { any: instance.getDecorator<'1/1m'>('limit') } }))
  app.get('/', async () => 'served')
  t.strictSame(await statuses('/', '/'), [200, 429])
})

t.test('apps can share a store, and closing one of them leaves it to the other', async t => {
  const store = memoryStore()
  const one = bare(t)
  const two = bare(t)
  for (const { app } of [one, two]) {
    await app.register(quota, { policies: { shared: '2/1m' }, store })
    app.get('/', async () => 'served')
  }
  t.strictSame(await one.statuses('/'), [200])
  await one.app.close()
  t.strictSame(await two.statuses('/', '/'), [200, 429])
})

t.test('a store is told of each app that begins to use it and of each that ends', async t => {
  const calls: string[] = []
  const memory = memoryStore()
  const store: Store = {
    consume: charges => memory.consume(charges),
    settle: settlements => memory.settle(settlements),
    renew: leases => memory.renew(leases),
    peek: charges => memory.peek(charges),
    reset: charges => memory.reset(charges),
    open: () => void calls.push('open'),
    close: () => void calls.push('close')
  }
  const [one, two] = [bare(t), bare(t)]
  for (const { app } of [one, two]) {
    await app.register(quota, { policies: { any: '9/1m' }, store })
    app.register(async child => child.register(quota, { policies: { inner: '9/1m' } }))
    await app.ready()
  }
  t.strictSame(calls, ['open', 'open'], 'not by a further registration')
  await one.app.close()
  t.strictSame(calls, ['open', 'open', 'close'])
  await two.app.close()
  t.strictSame(calls, ['open', 'open', 'close', 'close'])
})

t.test('a store need not be told when an app begins', async t => {
  const { app, statuses } = bare(t)
  const { store } = await serveLater(t, { any: '1/1m' })
  t.notOk('open' in store)
  await app.register(quota, { policies: { any: '1/1m' }, store })
  app.get('/', async () => 'served')
  t.strictSame(await statuses('/', '/'), [200, 429])
})

t.test('an app that is refused at boot leaves the store alone', async t => {
  const opened = t.capture(MemoryStore.prototype, 'open')
  const { app } = bare(t)
  app.register(quota, { policies: { any: '-1/1m' } })
  await t.rejects(ready(app), { code: 'FST_QUOTA_POLICY' })
  t.strictSame(opened(), [])
})
