import t from 'tap'
import { left, leftOf, listed, ready, serve, violated, watchWarnings } from './kit.js'

const stages = {
  address: { quota: 9, window: '1m', hook: 'onRequest' },
  user: { quota: 9, window: '1m' },
  body: { quota: 2, window: '1m', hook: 'preHandler' }
} as const

t.test('a route with policies at several hooks decides at each, and boot says so', async t => {
  const { heard } = watchWarnings(t)
  const { app } = await serve(t, stages)
  await ready(app)
  const [warning, ...others] = await heard()
  t.match(warning, { code: 'FST_QUOTA_STAGES', message: /GET \/.*onRequest, preParsing, preHandler/ })
  t.strictSame(others, [])
  const served = await app.inject('/')
  t.strictSame(listed(served), ['address', 'user', 'body'])
  t.strictSame(left(served), { body: 1, address: 8, user: 8 })
})

t.test('a refusal at a later stage gives back what earlier stages charged', async t => {
  const { app, statuses } = await serve(t, stages)
  t.strictSame(await statuses('/', '/'), [200, 200])
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.strictSame(violated(refused), ['body'])
  t.strictSame(left(refused), { body: 0 })
  t.strictSame(await leftOf(app, ['address', 'user', 'body']), { address: 7, user: 7, body: 0 })
})

t.test('what is given back is what this request was charged, in whole for a window', async t => {
  for (const algorithm of ['sliding-window', 'fixed-window'] as const) {
    const { app, clock } = await serve(t, {
      first: { quota: 9, window: '1m', algorithm, hook: 'onRequest', cost: 3 },
      never: { quota: 0, window: '1m' }
    })
    app.addHook('onRequest', async () => {
      t.strictSame(await leftOf(app, ['first']), { first: 6 })
      clock.pass(100)
    })
    t.equal((await app.inject('/')).statusCode, 429)
    t.strictSame(await leftOf(app, ['first']), { first: 9 })
  }
})

t.test('a bucket is given back less what has drained since', async t => {
  const { app, clock, statuses } = await serve(t, {
    bucket: {
      quota: 10,
      window: '10s',
      algorithm: 'token-bucket',
      hook: 'onRequest',
      cost: ({ url }) => (url === '/' ? 4 : 6)
    },
    late: { quota: 1, window: '1h', cost: ({ url }) => (url === '/' ? 2 : 0) }
  })
  app.get('/first', async () => 'first')
  app.addHook('onRequest', async ({ url }) => {
    if (url === '/') clock.pass(2000)
  })
  t.strictSame(await statuses('/first', '/'), [200, 429])
  t.strictSame(await leftOf(app, ['bucket']), { bucket: 4 }, '6 spent and 4 more; 2 drained, 2 given back')
})

t.test('a decision in the middle shows what has been decided so far', async t => {
  const { app } = await serve(t, stages)
  const seen: unknown[] = []
  for (const hook of ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const) {
    app.addHook(hook as 'onRequest', async ({ quota }) => {
      seen.push([quota.outcome, ...quota.limits.map(({ policy }) => policy.name)])
    })
  }
  await app.inject('/')
  t.strictSame(seen, [
    ['allowed', 'address'],
    ['allowed', 'address', 'user'],
    ['allowed', 'address', 'user'],
    ['allowed', 'address', 'user', 'body']
  ])
})

t.test('before its hook a request is undecided', async t => {
  const { app } = await serve(t, { late: { quota: 1, window: '1m', hook: 'preValidation' } })
  const seen: unknown[] = []
  for (const hook of ['onRequest', 'preParsing', 'preValidation', 'preHandler', 'onResponse'] as const) {
    app.addHook(hook as 'onRequest', async ({ quota }) => void seen.push(quota.outcome))
  }
  await app.inject('/')
  t.strictSame(seen, ['none', 'none', 'allowed', 'allowed', 'allowed'])
  seen.length = 0
  await app.inject('/')
  t.strictSame(seen, ['none', 'none', 'refused'])
})

t.test('nothing can be written to a decision that was not made', async t => {
  const { app } = await serve(t, { any: { quota: 1, window: '1m', default: false } })
  let quota: unknown
  app.addHook('onRequest', async request => void ({ quota } = request))
  await app.inject('/')
  t.match(quota, { outcome: 'none', limits: [], exempt: [], shadow: [], source: 'none' })
  t.throws(() => Object.assign(quota as object, { outcome: 'allowed' }), TypeError)
})

t.test('the hook of a route moves all its policies, the defaults too: one decision', async t => {
  const { heard } = watchWarnings(t)
  const { app } = await serve(t, { any: '9/1m', extra: { quota: 9, window: '2m', default: false } })
  app.post('/late', { config: { quota: { also: ['extra'], hook: 'preHandler' } } }, async () => 'late')
  const seen: unknown[] = []
  app.addHook('preValidation', async ({ quota }) => void seen.push(quota.outcome))
  t.strictSame(left(await app.inject({ method: 'POST', url: '/late' })), { any: 8, extra: 8 })
  t.strictSame(seen, ['none'])
  t.strictSame(await heard(), [])
  t.strictSame(
    app.quota
      .routes()
      .routes.find(({ route }) => route === 'POST /late')
      ?.policies.map(({ name, hook }) => [name, hook]),
    [
      ['any', 'preHandler'],
      ['extra', 'preHandler']
    ]
  )
})

t.test('what authentication rejects is counted by a policy at onRequest, and by none after it', async t => {
  const { app } = await serve(t, {
    identify: { principal: request => Object(request).principal },
    policies: {
      a: { quota: 5, window: '1m', hook: 'onRequest' },
      b: { quota: 3, window: '1m', partition: 'principal' }
    }
  })
  app.decorateRequest('principal', null)
  app.addHook('onRequest', async (request, reply) => {
    if (request.headers.authorization !== 'valid') return reply.code(401).send('who are you?')
    Object.assign(request, { principal: 'p' })
  })
  const codes: unknown[] = []
  for (let i = 0; i < 8; i++) {
    codes.push((await app.inject({ url: '/', headers: { authorization: `invented ${i}` } })).statusCode)
  }
  t.strictSame(codes, [401, 401, 401, 401, 401, 429, 429, 429])
  t.strictSame(await leftOf(app, ['b']), { b: 3 })

  const valid = { url: '/', headers: { authorization: 'valid' }, remoteAddress: '192.0.2.1' }
  for (let i = 0; i < 3; i++) t.equal((await app.inject(valid)).statusCode, 200)
  t.strictSame(violated(await app.inject(valid)), ['b'])
  t.strictSame(await leftOf(app, ['a'], { ip: '192.0.2.1' }), { a: 2 })
})

t.test('a request that is lost between two stages stays charged', async t => {
  const { app } = await serve(t, {
    early: '9/1m',
    late: { quota: 9, window: '1m', hook: 'preHandler' }
  })
  const broken = {
    method: 'POST',
    url: '/',
    payload: '{',
    headers: { 'content-type': 'application/json' }
  } as const
  t.equal((await app.inject(broken)).statusCode, 400)
  t.strictSame(await leftOf(app, ['early', 'late']), { early: 8, late: 9 })
})

t.test('a stage that all are exempt from leaves what earlier ones decided', async t => {
  const { app } = await serve(t, {
    early: '9/1m',
    late: { quota: 9, window: '1m', hook: 'preHandler', exempt: () => true }
  })
  app.get('/seen', async ({ quota: { outcome, limits, exempt, shadow, source } }) => ({
    outcome,
    limits: limits.map(({ policy }) => policy.name),
    exempt,
    shadow,
    source
  }))
  const response = await app.inject('/seen')
  t.strictSame(response.json(), {
    outcome: 'allowed',
    limits: ['early'],
    exempt: ['late'],
    shadow: [],
    source: 'memory'
  })
  t.strictSame(left(response), { early: 8 })
})
