import cors from '@fastify/cors'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest, InjectOptions } from 'fastify'
import t from 'tap'
import quota, { exposedHeaders, firstOf } from '../src/index.js'
import { start, told } from './fixtures/wire.js'
import type { Build } from './fixtures/wire.js'

const ORIGIN = 'https://app.example'

const withCors = (app: FastifyInstance): unknown => app.register(cors, { origin: ORIGIN, exposedHeaders })

/** Authentication as it is usually done: a bearer's name is its token. */
function withUsers(app: FastifyInstance): void {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    const [, user] = /^Bearer (\w+)$/.exec(request.headers.authorization ?? '') ?? []
    if (user === undefined) return reply.code(401).send({ error: 'Unauthorized' })
    ;(request as FastifyRequest & { user: unknown }).user = { id: user }
  })
}

const identify = { user: (request: FastifyRequest) => (request as { user?: { id: string } }).user?.id }

const get = (user?: string): InjectOptions => ({
  method: 'GET',
  url: '/',
  headers: { origin: ORIGIN, ...(user === undefined ? {} : { authorization: `Bearer ${user}` }) }
})

const preflight: InjectOptions = {
  method: 'OPTIONS',
  url: '/',
  headers: {
    origin: ORIGIN,
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization'
  }
}

const serve = (app: FastifyInstance): unknown => app.get('/', async () => 'served')

/** What stands before the plugin and what behind it. */
const orders: Readonly<Record<string, Build>> = {
  'cors, quota': { before: withCors, routes: serve },
  'quota, cors': {
    routes: async app => {
      await withCors(app)
      serve(app)
    }
  }
}

for (const [order, build] of Object.entries(orders)) {
  t.test(`${order}: a script of another origin can read a 429 and its fields`, async t => {
    const { app } = await start(t, { policies: { burst: '1/10s' } }, build)
    for (const status of [200, 429]) {
      const response = await app.inject(get())
      t.equal(response.statusCode, status)
      t.equal(response.headers['access-control-allow-origin'], ORIGIN)
      const exposed = String(response.headers['access-control-expose-headers']).toLowerCase().split(', ')
      for (const name of Object.keys(response.headers)) {
        if (/ratelimit|retry/.test(name)) t.ok(exposed.includes(name), name)
      }
    }
  })

  t.test(`${order}: preflights cost nothing and are never refused`, async t => {
    const { app } = await start(t, { policies: { burst: '2/10s' } }, build)
    const seen: number[] = []
    for (let i = 0; i < 3; i++) {
      t.equal((await app.inject(preflight)).statusCode, 204)
      seen.push((await app.inject(get())).statusCode)
    }
    t.strictSame(seen, [200, 200, 429])
    for (let i = 0; i < 50; i++) {
      const { statusCode, headers } = await app.inject(preflight)
      t.equal(statusCode, 204)
      t.equal(headers['access-control-allow-origin'], ORIGIN)
      t.equal(headers['ratelimit'], undefined)
      t.equal(headers['ratelimit-policy'], undefined)
    }
  })

  t.test(`${order}: a refusal by an early policy is readable if cors is asked before it`, async t => {
    const { app } = await start(
      t,
      { policies: { burst: { quota: 1, window: 10, hook: 'onRequest' } } },
      build
    )
    await app.inject(get())
    const { statusCode, headers } = await app.inject(get())
    t.equal(statusCode, 429)
    t.equal(headers['access-control-allow-origin'], order === 'cors, quota' ? ORIGIN : undefined)
  })
}

t.test('without cors, an OPTIONS route is free for preflights and counts all else', async t => {
  for (const hook of ['onRequest', 'preParsing', 'preHandler'] as const) {
    const { app } = await start(
      t,
      { policies: { burst: { quota: 2, window: 10, hook } } },
      { routes: app => app.options('/', async () => 'options') }
    )
    const plain: readonly InjectOptions[] = [
      { method: 'OPTIONS', url: '/' },
      { method: 'OPTIONS', url: '/', headers: { origin: ORIGIN } }
    ]
    const seen: unknown[] = []
    for (const request of plain) seen.push(told(await app.inject(request)))
    t.strictSame(seen, [
      [200, '"burst";r=1;t=10', undefined],
      [200, '"burst";r=0;t=10', undefined]
    ])
    for (let i = 0; i < 5; i++) t.strictSame(told(await app.inject(preflight)), [200, undefined, undefined])
    const halfway = { ...preflight, headers: { 'access-control-request-method': 'GET' } }
    for (const request of [...plain, halfway]) {
      t.strictSame(told(await app.inject(request)), [429, '"burst";r=0;t=10', '10'], 'it is no preflight')
    }
    t.equal((await app.inject({ ...preflight, method: 'GET' })).statusCode, 429, 'and no OPTIONS')
  }
})

t.test('where nobody answers a preflight, it is a free 404', async t => {
  const { app } = await start(t, { policies: { burst: '1/10s' } })
  for (let i = 0; i < 3; i++) t.strictSame(told(await app.inject(preflight)), [404, undefined, undefined])
  t.strictSame(told(await app.inject(get())), [200, '"burst";r=0;t=10', undefined])
})

type Layer = readonly [name: string, register: (app: FastifyInstance) => unknown]

/** All orders of some layers. */
function permutations(layers: readonly Layer[]): readonly (readonly Layer[])[] {
  if (layers.length < 2) return [layers]
  return layers.flatMap((layer, i) => permutations(layers.toSpliced(i, 1)).map(rest => [layer, ...rest]))
}

const partition = firstOf('user', 'ip')
const policies = { personal: { quota: 2, window: 10, partition } } as const
const layers: readonly Layer[] = [
  ['cors', withCors],
  ['users', withUsers],
  ['quota', () => {}] // put in by what `start` is told to do before and after it
]

for (const order of permutations(layers)) {
  const at = order.findIndex(([name]) => name === 'quota')
  const title = order.map(([name]) => name).join(', ')
  const build: Build = {
    before: async app => {
      for (const [, register] of order.slice(0, at)) await register(app)
    },
    routes: async app => {
      for (const [, register] of order.slice(at + 1)) await register(app)
      serve(app)
    }
  }

  t.test(`${title}: every user has a quota of their own, and nobody spends that of another`, async t => {
    const { app } = await start(t, { policies, identify }, build)
    const left = async (user: string): Promise<unknown> => told(await app.inject(get(user))).slice(0, 2)
    t.strictSame(await left('ann'), [200, '"personal";r=1;t=10'])
    t.strictSame(await left('bob'), [200, '"personal";r=1;t=10'])
    t.strictSame(await left('ann'), [200, '"personal";r=0;t=10'])
    t.strictSame(await left('ann'), [429, '"personal";r=0;t=10'])
    t.strictSame(await left('bob'), [200, '"personal";r=0;t=10'])
    t.strictSame(await left('cid'), [200, '"personal";r=1;t=10'])
    t.equal((await app.inject(get('ann'))).headers['access-control-allow-origin'], ORIGIN)
  })

  t.test(`${title}: whoever is not let in costs nobody a unit, and sees no numbers`, async t => {
    const { app } = await start(t, { policies, identify }, build)
    for (let i = 0; i < 5; i++) t.strictSame(told(await app.inject(get())), [401, undefined, undefined])
    t.strictSame(told(await app.inject(get('ann'))), [200, '"personal";r=1;t=10', undefined])
    t.equal(
      (await app.quota.peek({ ip: '127.0.0.1' }, ['personal'])).limits[0]?.remaining,
      2,
      'not even their address'
    )
  })

  t.test(`${title}: preflights, which carry no credentials, stay free when the quota is used up`, async t => {
    const { app } = await start(t, { policies, identify }, build)
    for (let i = 0; i < 3; i++) await app.inject(get('ann'))
    for (let i = 0; i < 5; i++) {
      const { statusCode, headers } = await app.inject(preflight)
      t.equal(headers['ratelimit'], undefined)
      // Whether authentication lets preflights through is for it and cors to settle.
      t.equal(statusCode, title.indexOf('cors') < title.indexOf('users') ? 204 : 401)
    }
    t.equal((await app.inject(get('ann'))).statusCode, 429)
    t.equal((await app.inject(get('bob'))).statusCode, 200)
  })
}

t.test('by address and early, what authentication turns away is counted too', async t => {
  const { app } = await start(
    t,
    {
      policies: { ...policies, guesses: { quota: 3, window: 60, hook: 'onRequest' } },
      identify
    },
    {
      before: withCors,
      routes: app => {
        withUsers(app)
        serve(app)
      }
    }
  )
  const seen: number[] = []
  for (let i = 0; i < 5; i++) seen.push((await app.inject(get())).statusCode)
  t.strictSame(seen, [401, 401, 401, 429, 429])
  t.equal((await app.inject(get('ann'))).statusCode, 429)
  t.equal((await app.inject({ ...get('ann'), remoteAddress: '198.51.100.7' })).statusCode, 200)
})

t.test('cors in a child scope is asked before the quota of the root', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '1/10s' } },
    {
      routes: app =>
        app.register(async child => {
          await withCors(child)
          await child.register(quota, { policies: { own: '5/10s' } })
          serve(child)
        })
    }
  )
  for (const status of [200, 429]) {
    const { statusCode, headers } = await app.inject(get())
    t.equal(statusCode, status)
    t.equal(headers['access-control-allow-origin'], ORIGIN)
  }
})

t.test('a route of cors for preflights is no route that was declared too early', async t => {
  const warned: string[] = []
  const listen = (warning: Error & { code?: string }): void => void warned.push(warning.code ?? warning.name)
  process.on('warning', listen)
  const app = Fastify()
  await app.register(cors)
  await app.register(quota, { policies: { default: '2/1m' } })
  app.get('/', () => ({}))
  await app.ready()
  await new Promise(resolve => setImmediate(resolve))
  process.off('warning', listen)
  t.strictSame(warned, [])
  t.equal(app.quota.routes().complete, true)
})
