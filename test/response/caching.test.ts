import type { FastifyInstance, FastifyReply } from 'fastify'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { start } from '../fixtures/wire.js'

const policies = { burst: '100/10s' } as const
const forms: readonly Omit<QuotaOptions, 'policies'>[] = [
  { legacy: { style: 'x-ratelimit', reset: 'delta' }, partitionKey: 'hash' },
  { legacy: 'draft-6' },
  { legacy: 'draft-7', fields: false },
  { legacy: 'llm' }
]

/** What a shared cache may keep and give to another client. */
const SHARED: readonly (string | readonly string[])[] = [
  'public',
  'public, max-age=300',
  'max-age=300,public',
  'max-age=300 , Public',
  's-maxage=1',
  'max-age=0, s-maxage=060',
  's-maxage="60"',
  'S-MaxAge=60',
  'public, private="set-cookie"',
  ['max-age=300', 'public']
]

/** What it may not, or is not told that it may. */
const OWN: readonly (string | readonly string[] | undefined)[] = [
  undefined,
  '',
  'private',
  'private, max-age=300',
  'no-store',
  'no-store, public',
  'private, s-maxage=60',
  'max-age=300',
  's-maxage=0',
  's-maxage=000',
  'no-cache',
  'max-age=300, must-revalidate',
  'publicly',
  'x-public',
  'x-s-maxage=60'
]

/** Sets `Cache-Control` in each place where an application may, before the response leaves. */
const places: Readonly<Record<string, (app: FastifyInstance, value: string | readonly string[]) => unknown>> =
  {
    'a handler': (app, value) =>
      app.get('/', async (_request, reply) => reply.header('cache-control', value).send('text')),
    'an earlier hook': (app, value) => {
      app.addHook('onRequest', async (_request, reply) => {
        reply.header('cache-control', value)
      })
      app.get('/', async () => 'text')
    },
    'a serializer hook': (app, value) => {
      app.addHook('preSerialization', async (_request, reply, payload) => {
        reply.header('cache-control', value)
        return payload
      })
      app.get('/', async () => ({ an: 'object' }))
    },
    'the raw response': (app, value) =>
      app.get('/', async (_request, reply) => {
        reply.raw.setHeader('cache-control', value)
        return 'text'
      }),
    'a Response': (app, value) =>
      app.get(
        '/',
        async () => new Response('text', { headers: { 'cache-control': [value].flat().join(', ') } })
      ),
    'a Response that overrules the reply': (app, value) =>
      app.get('/', async (_request, reply) => {
        reply.header('cache-control', 'no-store')
        return new Response('text', { headers: { 'cache-control': [value].flat().join(', ') } })
      })
  }

const ours = (headers: object): readonly string[] =>
  Object.keys(headers).filter(name => /ratelimit/.test(name))

for (const [place, set] of Object.entries(places)) {
  t.test(`what ${place} lets shared caches keep has no field of ours`, async t => {
    for (const [i, value] of SHARED.entries()) {
      const form = forms[i % forms.length]
      const { app } = await start(t, { policies, ...form }, { routes: app => set(app, value) })
      const { statusCode, headers } = await app.inject('/')
      t.equal(statusCode, 200)
      t.strictSame(ours(headers), [], String(value))
      t.ok(headers['cache-control'])
    }
  })
}

t.test('what shared caches are not told to keep has them', async t => {
  for (const value of OWN) {
    const { app } = await start(
      t,
      { policies, legacy: 'draft-6' },
      {
        routes: app =>
          app.get('/', async (_request, reply) =>
            (value === undefined ? reply : reply.header('cache-control', value)).send('text')
          )
      }
    )
    t.equal(ours((await app.inject('/')).headers).length, 5, String(value))
  }
})

/** What is said to some shared caches alone, which do not read `Cache-Control` then. */
const TARGETED: readonly (readonly [name: string, value: string, isKept: boolean])[] = [
  ['cdn-cache-control', 'max-age=60', true],
  ['CDN-Cache-Control', 'Public', true],
  ['cdn-cache-control', 'stale-while-revalidate=9, max-age=060', true],
  ['surrogate-control', 'max-age=60+30, content="ESI/1.0"', true],
  ['cdn-cache-control', 'max-age=0', false],
  ['cdn-cache-control', 'max-age=60, private', false],
  ['cdn-cache-control', 'no-store', false],
  ['surrogate-control', 'no-store', false],
  ['surrogate-control', 'content="ESI/1.0"', false]
]

t.test('what one kind of shared cache is told to keep has none, whatever the others are told', async t => {
  for (const cacheControl of ['private', 'no-store', 'max-age=5']) {
    for (const [name, value, isKept] of TARGETED) {
      const told = { 'cache-control': cacheControl, [name]: value }
      for (const answer of [
        (reply: FastifyReply) => reply.headers(told).send('text'),
        () => new Response('text', { headers: told })
      ]) {
        const { app } = await start(
          t,
          { policies, legacy: 'draft-6' },
          { routes: app => app.get('/', async (_request, reply) => answer(reply)) }
        )
        t.equal(ours((await app.inject('/')).headers).length, isKept ? 0 : 5, JSON.stringify(told))
      }
    }
  }
})

t.test('a Response that shared caches may not keep has them, whatever the reply said', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app =>
        app.get('/', async (_request, reply) => {
          reply.header('cache-control', 'public')
          return new Response('text', { headers: { 'cache-control': 'private' } })
        })
    }
  )
  const { headers } = await app.inject('/')
  t.equal(headers['cache-control'], 'private')
  t.equal(headers['ratelimit'], '"burst";r=99;t=10')
})

t.test('the fields of others stay on what is kept', async t => {
  const upstream = { ratelimit: '"gate";r=5;t=5', 'ratelimit-policy': '"gate";q=9;w=9' }
  const { app } = await start(
    t,
    { policies },
    {
      before: app =>
        app.addHook('onRequest', async (_request, reply) => {
          reply.headers({ ...upstream, 'cache-control': 'public' })
        })
    }
  )
  t.match((await app.inject('/')).headers, upstream)
  t.notMatch(JSON.stringify((await app.inject('/')).headers), 'burst')
})

t.test('a request whose answer is kept is counted all the same, and its refusal is told', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '2/10s' } },
    {
      before: app =>
        app.addHook('onRequest', async (_request, reply) => {
          reply.header('cache-control', 'public, max-age=60')
        })
    }
  )
  for (let i = 0; i < 2; i++) t.strictSame(ours((await app.inject('/')).headers), [])
  const { statusCode, headers } = await app.inject('/')
  t.equal(statusCode, 429)
  t.equal(headers['cache-control'], 'no-store')
  t.equal(headers['ratelimit'], '"burst";r=0;t=10')
})

t.test('a 304 has fields, and none if caches may keep it, for it renews what they have', async t => {
  const { app } = await start(
    t,
    { policies, legacy: 'draft-6' },
    {
      routes: app =>
        app.get<{ Querystring: { cache?: string } }>('/', async ({ query }, reply) => {
          if (query.cache !== undefined) reply.header('cache-control', query.cache)
          return reply.code(304).send()
        })
    }
  )
  t.equal(ours((await app.inject('/')).headers).length, 5)
  t.equal(ours((await app.inject('/?cache=private')).headers).length, 5)
  t.strictSame(ours((await app.inject('/?cache=public')).headers), [])
})

t.test('a redirect has no field of any form', async t => {
  for (const form of forms) {
    const { app } = await start(
      t,
      { policies, ...form },
      { routes: app => app.get('/', async (_request, reply) => reply.redirect('/elsewhere')) }
    )
    t.strictSame(ours((await app.inject('/')).headers), [])
  }
})
