import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { start, told } from '../fixtures/wire.js'

const legacy = { style: 'x-ratelimit', reset: 'delta' } as const
const policies = { burst: '3/10s' } as const

/** Answers with a `Response`, whose status and fields Fastify applies after the last hook. */
const answering =
  (make: () => Response) =>
  (app: FastifyInstance): unknown =>
    app.get('/', async () => make())

t.test('a Response that redirects has no fields', async t => {
  const { app } = await start(
    t,
    { policies, legacy },
    { routes: answering(() => new Response(null, { status: 302, headers: { location: '/elsewhere' } })) }
  )
  const { statusCode, headers } = await app.inject('/')
  t.equal(statusCode, 302)
  t.equal(headers['location'], '/elsewhere')
  t.strictSame(
    Object.keys(headers).filter(name => /ratelimit/.test(name)),
    []
  )
})

t.test('a Response without fields of its own has ours', async t => {
  const { app } = await start(
    t,
    { policies },
    { routes: answering(() => new Response('text', { status: 201 })) }
  )
  const response = await app.inject('/')
  t.equal(response.body, 'text')
  t.strictSame(told(response), [201, '"burst";r=2;t=10', undefined])
})

t.test('a Response of an upstream keeps its fields and gets ours beside them', async t => {
  const headers = {
    ratelimit: '"upstream";r=5;t=5',
    'ratelimit-policy': '"upstream";q=9;w=9',
    'set-cookie': 'a=1',
    'x-own': '1'
  }
  const { app } = await start(
    t,
    { policies },
    { routes: answering(() => new Response('text', { status: 404, headers })) }
  )
  const response = await app.inject('/')
  t.equal(response.body, 'text')
  t.strictSame(told(response), [404, '"upstream";r=5;t=5, "burst";r=2;t=10', undefined])
  t.equal(response.headers['ratelimit-policy'], '"upstream";q=9;w=9, "burst";q=3;w=10')
  t.equal(response.headers['x-own'], '1')
  t.equal(response.headers['set-cookie'], 'a=1')
})

t.test('a Response that has our fields already does not get them twice', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app =>
        app.get('/', async (_request, reply) => {
          const headers = { ratelimit: `"upstream";r=5, ${String(reply.getHeader('ratelimit'))}` }
          return new Response('text', { headers })
        })
    }
  )
  t.strictSame(told(await app.inject('/')), [200, '"upstream";r=5, "burst";r=2;t=10', undefined])
})

t.test('a Response somebody has read is the error it is without us, with fields', async t => {
  const consumed = new Response('text', { headers: { ratelimit: '"upstream";r=5' } })
  await consumed.text()
  const { app } = await start(t, { policies }, { routes: answering(() => consumed) })
  const response = await app.inject('/')
  t.equal(response.statusCode, 500)
  t.equal(response.json().code, 'FST_ERR_REP_RESPONSE_BODY_CONSUMED')
  t.match(response.headers['ratelimit'], '"burst";r=2;t=10')
})

t.test('without fields of ours, those of a Response are left alone', async t => {
  const { app } = await start(
    t,
    { policies, fields: false },
    { routes: answering(() => new Response('text', { headers: { ratelimit: '"upstream";r=5' } })) }
  )
  t.equal((await app.inject('/')).headers['ratelimit'], '"upstream";r=5')
})
