import type { FastifyInstance } from 'fastify'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import quota from '../../src/index.js'
import { bare, left, leftOf, listed, serve, violated } from './kit.js'

t.test('a route without config has the default policies, a list replaces them', async t => {
  const { app } = await serve(t, { any: '9/1m', login: { quota: 2, window: '1m', default: false } })
  app.post('/login', { config: { quota: ['login'] } }, async () => 'in')
  t.strictSame(listed(await app.inject('/')), ['any'])
  t.strictSame(listed(await app.inject({ method: 'POST', url: '/login' })), ['login'])
  t.strictSame(await leftOf(app, ['any', 'login']), { any: 8, login: 1 })
})

t.test('a route with quota: false has none', async t => {
  const { app, statuses } = await serve(t, { any: '1/1m' })
  app.get('/health', { config: { quota: false } }, async ({ quota }) => quota.outcome)
  t.strictSame(await statuses('/health', '/health', '/health'), [200, 200, 200])
  const { body, headers } = await app.inject('/health')
  t.equal(body, 'none')
  t.notOk('ratelimit' in headers || 'ratelimit-policy' in headers)
  t.strictSame(await leftOf(app, ['any']), { any: 1 })
})

t.test('policies replace the defaults, also adds to them', async t => {
  const { app, statuses } = await serve(t, {
    all: '2/1m',
    extra: { quota: 5, window: '1m', partition: 'route', default: false }
  })
  app.get('/more', { config: { quota: { also: ['extra'] } } }, async () => 'more')
  app.get('/only', { config: { quota: { policies: ['extra'] } } }, async () => 'only')
  t.strictSame(listed(await app.inject('/more')), ['all', 'extra'])
  t.strictSame(await statuses('/more', '/more', '/more'), [200, 429, 429])
  t.strictSame(violated(await app.inject('/more')), ['all'])
  t.strictSame(await statuses(...Array<string>(6).fill('/only')), [200, 200, 200, 200, 200, 429])
  t.strictSame(listed(await app.inject('/only')), ['extra'])
})

t.test('a route cost is for the policies in requests, a record of costs for those it names', async t => {
  const { app } = await serve(t, {
    requests: '100/1m',
    tokens: { quota: 1000, window: '1m', unit: 'tokens', cost: 10 }
  })
  app.get('/five', { config: { quota: { cost: 5 } } }, async () => 'five')
  app.get(
    '/function',
    { config: { quota: { cost: ({ query }) => Number(Object(query).n) } } },
    async () => 'n'
  )
  app.get('/record', { config: { quota: { cost: { tokens: 50, requests: () => 2 } } } }, async () => 'record')
  app.get('/free', { config: { quota: { cost: 0 } } }, async () => 'free')
  const spent = async (url: string): Promise<readonly (number | undefined)[]> => {
    await app.quota.reset({ ip: '127.0.0.1' })
    const { requests, tokens } = left(await app.inject(url))
    return [100 - requests!, 1000 - tokens!]
  }
  t.strictSame(await spent('/'), [1, 10])
  t.strictSame(await spent('/five'), [5, 10])
  t.strictSame(await spent('/function?n=7'), [7, 10])
  t.strictSame(await spent('/record'), [2, 50])
  t.strictSame(await spent('/free'), [0, 10])
})

t.test(
  'a policy written in place is one counter for the routes that share it, and known by name',
  async t => {
    const { app, statuses } = await serve(t, { any: '99/1m' })
    const mail = { name: 'mail', quota: 3, window: '1m' } as const
    app.get('/send', { config: { quota: [mail] } }, async () => 'sent')
    app.register(async child => {
      child.get('/resend', { config: { quota: { policies: [mail] } } }, async () => 'sent again')
      child.get('/named', { config: { quota: ['mail'] } }, async () => 'sent by name')
    })
    t.strictSame(await statuses('/send', '/resend', '/named', '/send', '/resend'), [200, 200, 200, 429, 429])
    t.strictSame(await leftOf(app, ['mail', 'any']), { mail: 0, any: 99 })
  }
)

t.test('a named policy is one counter for routes in different scopes', async t => {
  const { app, statuses } = await serve(t, { mail: { quota: 3, window: '1m', default: false } })
  app.get('/send', { config: { quota: ['mail'] } }, async () => 'sent')
  app.register(async child => {
    child.get('/resend', { config: { quota: ['mail'] } }, async () => 'sent again')
  })
  const eight = ['/send', '/resend', '/send', '/resend', '/send', '/resend', '/send', '/resend']
  t.strictSame(await statuses(...eight), [200, 200, 200, 429, 429, 429, 429, 429])
})

t.test('routes can share one config object', async t => {
  const { app, statuses } = await serve(t, { a: { quota: 2, window: '1m', partition: 'route' } })
  const shared = { config: { quota: { cost: 2 } } }
  app.get('/one', shared, async () => 'one')
  app.get('/two', shared, async () => 'two')
  t.strictSame(await statuses('/one', '/two', '/one', '/two'), [200, 200, 429, 429])
  t.strictSame(shared, { config: { quota: { cost: 2 } } })
  t.strictSame(Object.getOwnPropertySymbols(shared.config), [])
})

t.test('HEAD has the quota of GET, whoever declares it', async t => {
  for (const partition of ['ip', 'route']) {
    const { app } = await serve(t, { four: { quota: 4, window: '1m', partition } })
    app.get('/automatic', async () => 'got')
    app.head('/by-hand', async () => 'head')
    app.get('/by-hand', async () => 'got')
    for (const url of ['/automatic', '/by-hand']) {
      await app.quota.reset({ ip: '127.0.0.1', route: `GET ${url}` })
      for (const [method, units] of [
        ['GET', 3],
        ['HEAD', 2],
        ['GET', 1],
        ['HEAD', 0]
      ] as const) {
        t.strictSame(left(await app.inject({ method, url })), { four: units }, `${method} ${url}`)
      }
      for (const method of ['GET', 'HEAD'] as const)
        t.equal((await app.inject({ method, url })).statusCode, 429)
    }
  }
})

t.test('unknown paths and wrong methods share one quota', async t => {
  const { app, statuses } = await serve(t, { each: { quota: 2, window: '1m', partition: 'route' } })
  t.strictSame(
    await statuses('/guess/1', { method: 'DELETE', url: '/' }, '/guess/2', '/guess/3'),
    [404, 404, 429, 429]
  )
  const refused = await app.inject('/guess/4')
  t.equal(refused.headers['ratelimit-policy'], '"each";q=2;w=60')
  t.strictSame(left(refused), { each: 0 })
  t.equal((await app.inject('/')).statusCode, 200)
})

t.test('a not-found handler of the app and one of a child are limited', async t => {
  const { app, statuses } = await serve(t, { guess: '2/1m' })
  app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('nowhere'))
  app.register(
    async child => {
      child.setNotFoundHandler(async (_request, reply) => reply.code(404).send('nowhere in here'))
    },
    { prefix: '/in' }
  )
  t.equal((await app.inject('/x')).body, 'nowhere')
  t.equal((await app.inject('/in/x')).body, 'nowhere in here')
  t.strictSame(await statuses('/y', '/in/y', '/in'), [429, 429, 429])
})

t.test('a not-found handler set before the plugin is loaded is limited', async t => {
  const { app, clock, statuses } = bare(t)
  app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('nowhere'))
  app.register(quota, { policies: { guess: '2/1m' }, clock: clock.read })
  t.strictSame(await statuses('/1', '/2', '/3'), [404, 404, 429])
})

t.test('a not-found handler can have a quota of its own', async t => {
  const { app, statuses } = await serve(t, { any: '9/1m', guess: { quota: 1, window: '1m', default: false } })
  const own: object = { config: { quota: ['guess'] } }
  app.setNotFoundHandler(own, async (_request, reply) => reply.code(404).send('nowhere'))
  t.strictSame(await statuses('/1', '/2'), [404, 429])
  t.strictSame(await leftOf(app, ['any']), { any: 9 })
})

t.test('a handler that calls the not-found handler is not decided twice', async t => {
  for (const hook of ['onRequest', 'preParsing', 'preHandler'] as const) {
    const { app } = await serve(t, { any: { quota: 5, window: '1m', hook } })
    app.get('/gone', async (_request, reply) => reply.callNotFound())
    const response = await app.inject('/gone')
    t.equal(response.statusCode, 404)
    t.strictSame(left(response), { any: 4 })
    t.strictSame(await leftOf(app, ['any']), { any: 4 })
  }
})

t.test('spellings of a path that reach one route share its quota', async t => {
  const { app } = await serve(
    t,
    { each: { quota: 2, window: '1m', partition: 'route' } },
    { routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true, ignoreTrailingSlash: true } }
  )
  app.get('/thing/:id', async () => 'thing')
  const port = await listen(app)
  const codes: number[] = []
  for (const target of [
    '/thing/1',
    '//thing//1',
    '/THING/1',
    '/th%69ng/1',
    '/thing/1/',
    '/thing/1?x=1',
    '/thing/1;a=b',
    'http://other/thing/1'
  ]) {
    codes.push(await rawStatus(port, target))
  }
  t.strictSame(codes, [200, 200, 429, 429, 429, 429, 429, 429])
})

t.test('a prefixed route with and without its trailing slash is one', async t => {
  for (const partition of ['ip', 'route']) {
    const { app, statuses } = await serve(t, { any: { quota: 3, window: '1m', partition } })
    app.register(
      async child => {
        child.get('/', async () => 'root of the child')
      },
      { prefix: '/child' }
    )
    t.strictSame(await statuses('/child', '/child/', '/child', '/child/'), [200, 200, 200, 429])
  }
})

t.test('the quota is that of the route that runs, whatever was rewritten before', async t => {
  const { app, statuses } = await serve(
    t,
    { login: { quota: 2, window: '1m', default: false, partition: 'route' } },
    {
      rewriteUrl: raw => {
        if (raw.headers['x-http-method-override'] === 'POST') raw.method = 'POST'
        return String(raw.url)
      }
    }
  )
  app.post('/login', { config: { quota: ['login'] } }, async () => 'in')
  app.get('/login', async () => 'form')
  const overridden = { url: '/login', headers: { 'x-http-method-override': 'POST' } }
  t.strictSame(await statuses(overridden, overridden, overridden, overridden), [200, 200, 429, 429])
  t.strictSame(await statuses('/login', '/login', '/login'), [200, 200, 200])
  t.strictSame(await statuses({ method: 'POST', url: '/login' }), [429])
})

t.test('malformed requests that Fastify answers before its hooks change nothing', async t => {
  const { app } = await serve(t, { any: '2/1m' })
  app.get('/:name', async () => 'named')
  for (let i = 0; i < 20; i++) {
    t.equal((await app.inject('/%E0%A4%A')).statusCode, 400)
    t.equal((await app.inject(`/${'x'.repeat(200)}`)).statusCode, 414)
  }
  t.strictSame(left(await app.inject('/')), { any: 1 })
  t.strictSame(left(await app.inject('/')), { any: 0 })
})

t.test('a preflight is neither counted nor refused, any other OPTIONS is', async t => {
  const { app, statuses } = await serve(t, { one: '1/1m' })
  app.options('/', async ({ quota }) => quota.outcome)
  const origin = 'https://app.example'
  const preflight = {
    method: 'OPTIONS',
    url: '/',
    headers: { origin, 'access-control-request-method': 'PUT' }
  } as const
  t.strictSame(await statuses(preflight, preflight, preflight), [200, 200, 200])
  t.equal((await app.inject(preflight)).body, 'none')
  t.strictSame(await leftOf(app, ['one']), { one: 1 })
  t.strictSame(await statuses({ method: 'OPTIONS', url: '/', headers: { origin } }), [200])
  t.strictSame(await statuses({ method: 'OPTIONS', url: '/' }), [429])
  t.strictSame(await statuses({ ...preflight, method: 'GET' }), [429])
})

async function listen(app: FastifyInstance): Promise<number> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

/** Sends a request line that no client tidies up. */
function rawStatus(port: number, target: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    })
    socket.setEncoding('latin1')
    socket.on('data', text => (answer += String(text)))
    socket.on('end', () => resolve(Number(answer.split(' ')[1])))
    socket.on('error', reject)
  })
}
