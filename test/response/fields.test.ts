import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, InjectOptions } from 'fastify'
import t from 'tap'
import { NOON, members, start, told } from '../fixtures/wire.js'

const policies = { burst: '3/10s', daily: '10/1d' } as const
const POLICY_FIELD = '"burst";q=3;w=10, "daily";q=10;w=86400'
const FIRST = '"burst";r=2;t=10, "daily";r=9;t=86400'

t.test('both fields are Lists of Strings, with the parameters of the draft alone', async t => {
  const { app } = await start(t, {
    policies: { ...policies, tokens: { quota: 100, window: '1m', unit: 'tokens', cost: 7 } }
  })
  for (const status of [200, 200, 200, 429]) {
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, status)
    t.strictSame(members(headers['ratelimit-policy']), [
      { name: 'burst', q: 3, w: 10 },
      { name: 'daily', q: 10, w: 86_400 },
      { name: 'tokens', q: 100, qu: 'tokens', w: 60 }
    ])
    for (const limit of members(headers['ratelimit'])) t.strictSame(Object.keys(limit), ['name', 'r', 't'])
    t.strictSame(
      Object.keys(headers).filter(name => /limit|quota/.test(name)),
      ['ratelimit-policy', 'ratelimit']
    )
  }
})

t.test('RateLimit-Policy is the same bytes on all responses of a route', async t => {
  const { app, clock } = await start(
    t,
    { policies: { burst: '8/10s', daily: '1000/1d' } },
    {
      routes: app =>
        app.get<{ Params: { status: number } }>('/:status', async ({ params }, reply) => {
          if (params.status >= 500) throw Object.assign(new Error('broken'), { statusCode: params.status })
          return reply.code(params.status).send(params.status === 200 ? { ok: true } : undefined)
        })
    }
  )
  const seen = new Set<unknown>()
  const statuses = new Set<number>()
  for (let i = 0; i < 40; i++) {
    const status = [200, 201, 204, 304, 400, 401, 404, 410, 500, 503][i % 10]
    const { statusCode, headers } = await app.inject({
      method: i % 3 === 0 ? 'HEAD' : 'GET',
      url: `/${status}`
    })
    statuses.add(statusCode)
    seen.add(headers['ratelimit-policy'])
    clock.now += 700
  }
  t.strictSame([...seen], ['"burst";q=8;w=10, "daily";q=1000;w=86400'])
  t.strictSame(
    [...statuses].sort((a, b) => a - b),
    [200, 201, 204, 304, 400, 401, 404, 410, 429, 500, 503]
  )
})

t.test('a redirect has no fields, and 304, which is none, has them', async t => {
  const { app, clock } = await start(
    t,
    { policies, legacy: { style: 'x-ratelimit', reset: 'delta' } },
    {
      routes: app => {
        app.get<{ Params: { status: number } }>('/:status', async ({ params }, reply) =>
          reply.code(params.status).header('location', '/elsewhere').send()
        )
        app.get('/', async (_request, reply) => reply.redirect('/elsewhere'))
      }
    }
  )
  for (const path of ['/300', '/301', '/302', '/303', '/305', '/307', '/308', '/']) {
    const { headers } = await app.inject(path)
    t.equal(headers['location'], '/elsewhere')
    t.strictSame(
      Object.keys(headers).filter(name => /ratelimit/.test(name)),
      [],
      path
    )
    clock.now += 10_000
  }
  const { headers } = await app.inject('/304')
  t.equal(headers['ratelimit-policy'], POLICY_FIELD)
  t.match(headers['ratelimit'], /^"daily";r=1;t=\d+, "burst";r=2;t=10$/)
  t.equal(headers['x-ratelimit-remaining'], '1')
})

t.test('a redirect keeps the fields of others', async t => {
  const theirs = '"upstream";r=5;t=5'
  const { app } = await start(
    t,
    { policies },
    {
      before: app =>
        app.addHook('onRequest', async (_request, reply) => {
          reply.header('ratelimit', theirs)
        }),
      routes: app => app.get('/', async (_request, reply) => reply.redirect('/elsewhere'))
    }
  )
  const { headers } = await app.inject('/')
  t.equal(headers['ratelimit'], theirs)
  t.equal(headers['ratelimit-policy'], undefined)
})

t.test('the fields survive whatever becomes of a request', async t => {
  const post = (payload: string, type = 'application/json'): InjectOptions => ({
    method: 'POST',
    url: '/',
    payload,
    headers: { 'content-type': type }
  })
  const body = { type: 'object', required: ['a'], properties: { a: { type: 'integer' } } }
  const cases: readonly (readonly [
    why: string,
    status: number,
    build: (app: FastifyInstance) => unknown,
    request?: InjectOptions
  ])[] = [
    ['an object', 200, app => app.get('/', async () => ({ a: 1 }))],
    ['no content', 204, app => app.get('/', async (_request, reply) => reply.code(204).send())],
    ['a HEAD', 200, app => app.get('/', async () => 'text'), { method: 'HEAD' }],
    ['a stream', 200, app => app.get('/', async () => Readable.from(['a', 'b']))],
    ['a web stream', 200, app => app.get('/', async () => new Response('text').body)],
    ['a Response', 201, app => app.get('/', async () => new Response('text', { status: 201 }))],
    [
      'a stream that breaks at once',
      500,
      app =>
        app.get('/', async () => {
          return new Readable({
            read() {
              this.destroy(new Error('broken'))
            }
          })
        })
    ],
    [
      'an error in the handler',
      500,
      app =>
        app.get('/', async () => {
          throw new Error('broken')
        })
    ],
    [
      'a thrown object that is no error',
      500,
      app =>
        app.get('/', async () => {
          throw { nonsense: true } // oxlint-disable-line typescript/only-throw-error -- that is the case
        })
    ],
    [
      'an error with fields of its own',
      402,
      app =>
        app.get('/', async () => {
          throw Object.assign(new Error('pay'), { statusCode: 402, headers: { 'x-own': '1' } })
        })
    ],
    [
      'an error in a later hook',
      401,
      app =>
        app.get('/', {
          preHandler: async () => {
            throw Object.assign(new Error('who?'), { statusCode: 401 })
          },
          handler: async () => 'text'
        })
    ],
    [
      "the app's error handler",
      418,
      app => {
        app.setErrorHandler(async (_error, _request, reply) => reply.code(418).send({ teapot: true }))
        app.get('/', async () => {
          throw new Error('broken')
        })
      }
    ],
    [
      'an error handler that throws itself',
      500,
      app => {
        app.setErrorHandler(async () => {
          throw new Error('worse')
        })
        app.get('/', async () => {
          throw new Error('broken')
        })
      }
    ],
    [
      'a body that its schema refuses',
      400,
      app => app.post('/', { schema: { body } }, async () => 'text'),
      post('{}')
    ],
    ['malformed JSON', 400, app => app.post('/', async () => 'text'), post('{')],
    [
      'a body that is too large',
      413,
      app => app.post('/', { bodyLimit: 4 }, async () => 'text'),
      post('{"a":12345}')
    ],
    [
      'a media type nobody reads',
      415,
      app => app.post('/', async () => 'text'),
      post('<a/>', 'application/xml')
    ],
    [
      'an answer that cannot be written',
      500,
      app => {
        const answer: Record<string, unknown> = {}
        answer['itself'] = answer
        app.get('/', async () => answer)
      }
    ],
    ['an unknown path', 404, app => app.get('/a', async () => 'text')],
    ['another method', 404, app => app.get('/', async () => 'text'), { method: 'DELETE' }],
    [
      "the app's own 404",
      410,
      app => app.setNotFoundHandler(async (_request, reply) => reply.code(410).send('gone'))
    ],
    ['callNotFound', 404, app => app.get('/', async (_request, reply) => reply.callNotFound())]
  ]
  for (const [why, status, routes, request] of cases) {
    const { app } = await start(t, { policies }, { routes })
    const { statusCode, headers } = await app.inject({ method: 'GET', url: '/', ...request })
    t.equal(statusCode, status, why)
    t.equal(headers['ratelimit-policy'], POLICY_FIELD, why)
    t.equal(headers['ratelimit'], FIRST, why)
  }
})

t.test('a hijacked reply can copy the fields, for they are written when the decision is made', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app =>
        app.get('/', (_request, reply) => {
          reply.hijack()
          reply.raw.writeHead(200, reply.getHeaders() as Record<string, string>)
          reply.raw.end('raw')
        })
    }
  )
  const { headers, body } = await app.inject('/')
  t.equal(body, 'raw')
  t.equal(headers['ratelimit-policy'], POLICY_FIELD)
  t.equal(headers['ratelimit'], FIRST)
})

t.test('what somebody else has put into a field stays in front of ours', async t => {
  const cases: readonly (readonly [theirs: string | number | readonly string[], text: string])[] = [
    ['"gate";r=5;t=5', '"gate";r=5;t=5'],
    [['"gate";r=5;t=5', '"door";r=6'], '"gate";r=5;t=5, "door";r=6'],
    [7, '7']
  ]
  for (const [theirs, text] of cases) {
    for (const place of ['reply', 'raw'] as const) {
      const { app } = await start(
        t,
        { policies },
        {
          before: app =>
            app.addHook('onRequest', async (_request, reply) => {
              for (const name of ['RateLimit', 'RateLimit-Policy']) {
                if (place === 'reply') reply.header(name, theirs)
                else reply.raw.setHeader(name, theirs)
              }
              reply.header('x-ratelimit-vendor', 'kept')
            })
        }
      )
      const { headers } = await app.inject('/')
      t.equal(headers['ratelimit'], `${text}, ${FIRST}`)
      t.equal(headers['ratelimit-policy'], `${text}, ${POLICY_FIELD}`)
      t.equal(headers['x-ratelimit-vendor'], 'kept')
    }
  }
})

t.test('fields of an upstream that a handler copies over ours get ours beside them', async t => {
  const upstream = {
    ratelimit: '"upstream";r=5;t=5',
    'ratelimit-policy': ['"upstream";q=9;w=9', '"other";q=1;w=1']
  }
  const { app } = await start(
    t,
    { policies },
    { routes: app => app.get('/', async (_request, reply) => reply.headers(upstream).send('text')) }
  )
  const { headers } = await app.inject('/')
  t.equal(headers['ratelimit'], `${upstream.ratelimit}, ${FIRST}`)
  t.equal(headers['ratelimit-policy'], `"upstream";q=9;w=9, "other";q=1;w=1, ${POLICY_FIELD}`)
})

t.test('an upstream whose member starts or ends like ours does not pass for it', async t => {
  const cases: readonly (readonly [limit: string, policy: string])[] = [
    ['"burst";r=1;t=10', '"burst";q=2;w=10'],
    [String.raw`"a \"burst";r=1;t=1`, String.raw`"a \"burst";q=2;w=1`]
  ]
  for (const [ratelimit, policy] of cases) {
    const { app } = await start(
      t,
      { policies: { burst: '2/1s' } },
      {
        routes: app =>
          app.get('/', async (_request, reply) =>
            reply.headers({ ratelimit, 'ratelimit-policy': policy }).send('text')
          )
      }
    )
    const { headers } = await app.inject('/')
    t.equal(headers['ratelimit'], `${ratelimit}, "burst";r=1;t=1`)
    t.equal(headers['ratelimit-policy'], `${policy}, "burst";q=2;w=1`)
  }
})

t.test('a handler that joins the fields itself does not get ours twice', async t => {
  const joins: readonly ((ours: unknown) => string | string[])[] = [
    ours => `"burst";r=2;t=100, ${String(ours)}, "after";r=1`,
    ours => `"burst";r=2;t=100,${String(ours)} ,"after";r=1`,
    ours => ['"burst";r=2;t=100', String(ours)],
    ours => `${String(ours)}, "after";r=1`
  ]
  for (const join of joins) {
    const { app } = await start(
      t,
      { policies },
      {
        routes: app =>
          app.get('/', async (_request, reply: FastifyReply) =>
            reply.header('ratelimit', join(reply.getHeader('ratelimit'))).send('text')
          )
      }
    )
    t.strictSame((await app.inject('/')).headers['ratelimit'], join(FIRST))
  }
})

t.test('a field that the app has removed stays away', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app => {
        app.get('/limit', async (_request, reply) => reply.removeHeader('ratelimit').send('text'))
        app.get('/both', {
          onSend: async (_request, reply) => {
            reply.removeHeader('RateLimit').removeHeader('RateLimit-Policy')
          },
          handler: async () => 'text'
        })
        app.get('/early', {
          preHandler: async (_request, reply) => {
            reply.removeHeader('ratelimit').removeHeader('ratelimit-policy')
          },
          handler: async () => 'text'
        })
      }
    }
  )
  const limit = (await app.inject('/limit')).headers
  t.equal(limit['ratelimit'], undefined)
  t.equal(limit['ratelimit-policy'], POLICY_FIELD)
  for (const path of ['/both', '/early']) {
    const { headers } = await app.inject(path)
    t.equal(headers['ratelimit'], undefined, path)
    t.equal(headers['ratelimit-policy'], undefined, path)
  }
})

t.test('a second stage replaces what the first one wrote, and what stands around it stays', async t => {
  const { app } = await start(
    t,
    {
      policies: {
        first: { quota: 2, window: '1m', hook: 'onRequest' },
        second: { quota: 2, window: '1h', hook: 'preHandler' }
      }
    },
    {
      before: app => {
        app.addHook('onRequest', async (_request, reply) => {
          reply.header('ratelimit', '"gate";r=5')
        })
        app.addHook('preValidation', async (_request, reply) => {
          reply.header('ratelimit', `${String(reply.getHeader('ratelimit'))}, "$&";r=6`)
        })
      }
    }
  )
  const { headers } = await app.inject('/')
  t.equal(headers['ratelimit'], '"gate";r=5, "second";r=1;t=3600, "first";r=1;t=60, "$&";r=6')
  t.equal(headers['ratelimit-policy'], '"first";q=2;w=60, "second";q=2;w=3600')
})

t.test(
  'RateLimit starts with the policy closest to exhaustion; of two, the one with the longer window',
  async t => {
    const { app, clock } = await start(t, {
      policies: { second: '10/1s', minute: '20/1m', hour: '40/1h', also: '40/2h' }
    })
    const order = async (): Promise<readonly string[]> =>
      members((await app.inject('/')).headers['ratelimit']).map(({ name }) => name)
    t.strictSame(await order(), ['second', 'minute', 'also', 'hour'])
    clock.now += 1000
    for (let i = 0; i < 3; i++) await order()
    clock.now += 1000
    t.strictSame(await order(), ['minute', 'also', 'hour', 'second'])
  }
)

t.test('registered twice, each policy is told once, and every name has its numbers', async t => {
  const { app } = await start(
    t,
    { policies, legacy: { style: 'x-ratelimit', reset: 'delta' } },
    {
      routes: app =>
        app.register(async child => {
          const { default: quota } = await import('../../src/index.js')
          await child.register(quota, { policies: { own: '2/1h' } })
          child.get('/child', async (_request, reply) => reply.header('x-other', '1').send('text'))
        })
    }
  )
  for (let i = 0; i < 4; i++) {
    const { headers } = await app.inject('/child')
    t.equal(headers['ratelimit-policy'], `${POLICY_FIELD}, "own";q=2;w=3600`)
    const offered = new Map(members(headers['ratelimit-policy']).map(({ name, q }) => [name, q]))
    const names = members(headers['ratelimit']).map(({ name }) => name)
    t.strictSame(names, i < 2 ? ['own', 'burst', 'daily'] : ['own'])
    for (const { name, r } of members(headers['ratelimit'])) t.ok(Number(r) <= Number(offered.get(name)))
    for (const name of ['limit', 'remaining', 'reset']) t.match(headers[`x-ratelimit-${name}`], /^\d+$/)
    t.equal(headers['x-other'], i < 2 ? '1' : undefined)
  }
})

t.test('what was not limited has no fields', async t => {
  const { app } = await start(
    t,
    {
      policies: { burst: { quota: 3, window: 10, exempt: ({ headers }) => headers['x-inside'] === 'yes' } },
      legacy: { style: 'x-ratelimit', reset: 'delta' }
    },
    {
      routes: app => {
        app.get('/', async () => 'text')
        app.get('/free', { config: { quota: false } }, async () => 'text')
      }
    }
  )
  for (const request of [{ url: '/', headers: { 'x-inside': 'yes' } }, { url: '/free' }]) {
    const { headers } = await app.inject(request)
    t.strictSame(
      Object.keys(headers).filter(name => /ratelimit/.test(name)),
      []
    )
  }
  t.equal((await app.inject('/')).headers['ratelimit'], '"burst";r=2;t=10')
})

t.test('a policy that some requests are exempt from is still one of the route', async t => {
  const { app } = await start(t, {
    policies: { ...policies, services: { quota: 1, window: 60, exempt: () => true } }
  })
  const { headers } = await app.inject('/')
  t.equal(headers['ratelimit-policy'], `${POLICY_FIELD}, "services";q=1;w=60`)
  t.equal(headers['ratelimit'], FIRST)
})

t.test('a policy in shadow mode is not on the wire', async t => {
  const { app } = await start(t, {
    policies: { ...policies, trial: { quota: 1, window: 60, mode: 'shadow' } }
  })
  for (const status of [200, 200]) {
    const response = await app.inject('/')
    t.equal(response.statusCode, status)
    t.notMatch(JSON.stringify(response.headers), 'trial')
    t.equal(response.headers['ratelimit-policy'], POLICY_FIELD)
  }
})

t.test(
  'fields: false sends none, leaves those of others, and a refusal still says when to come back',
  async t => {
    const { app } = await start(
      t,
      { policies: { burst: '1/10s' }, fields: false },
      {
        before: app =>
          app.addHook('onRequest', async (_request, reply) => {
            reply.header('ratelimit', ['"gate";r=5', '"door";r=6'])
          })
      }
    )
    const served = await app.inject('/')
    t.strictSame(served.headers['ratelimit'], ['"gate";r=5', '"door";r=6'])
    t.equal(served.headers['ratelimit-policy'], undefined)
    const refused = await app.inject('/')
    t.equal(refused.statusCode, 429)
    t.equal(refused.headers['retry-after'], '10')
    t.strictSame(refused.headers['ratelimit'], ['"gate";r=5', '"door";r=6'])
    t.equal(refused.headers['ratelimit-policy'], undefined)
    t.strictSame(refused.json()['violated-policies'], ['burst'])
  }
)

t.test('GET and HEAD are one route, also where HEAD is declared by hand', async t => {
  const byHand = (app: FastifyInstance): void => {
    app.head('/', async () => '')
    app.get('/', { exposeHeadRoute: false }, async () => 'text')
  }
  for (const routes of [undefined, byHand]) {
    const { app } = await start(
      t,
      { policies: { burst: { quota: 4, window: 10, partition: 'route' } } },
      routes === undefined ? {} : { routes }
    )
    const seen: unknown[] = []
    for (const method of ['GET', 'HEAD', 'GET', 'HEAD', 'GET'] as const) {
      const { statusCode, headers } = await app.inject({ method, url: '/' })
      seen.push([statusCode, members(headers['ratelimit'])[0]?.['r']])
    }
    t.strictSame(seen, [
      [200, 3],
      [200, 2],
      [200, 1],
      [200, 0],
      [429, 0]
    ])
  }
})

t.test('unknown paths are limited, all as one', async t => {
  const policies = { burst: { quota: 2, window: 10, partition: 'route' } } as const
  const custom = (app: FastifyInstance): unknown =>
    app.setNotFoundHandler(async (_request, reply) => reply.code(404).send('no'))
  const variants: readonly (readonly [string, { before?: typeof custom; routes: typeof custom }, string])[] =
    [
      ['none', { routes: () => {} }, '/'],
      ['of the root', { routes: custom }, '/'],
      ['before the plugin', { before: custom, routes: () => {} }, '/'],
      ['of a child', { routes: app => app.register(async child => custom(child), { prefix: '/in' }) }, '/in/']
    ]
  for (const [why, build, prefix] of variants) {
    const { app } = await start(t, { policies }, build)
    t.strictSame(told(await app.inject(`${prefix}a`)), [404, '"burst";r=1;t=10', undefined], why)
    t.strictSame(told(await app.inject(`${prefix}b?c`)), [404, '"burst";r=0;t=10', undefined], why)
    t.strictSame(
      told(await app.inject({ method: 'POST', url: `${prefix}d` })),
      [429, '"burst";r=0;t=10', '10'],
      why
    )
  }
})

t.test('what Fastify answers before any hook costs nothing', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '2/10s' } },
    { routes: app => app.get('/item/:id', async () => 'text') }
  )
  for (let i = 0; i < 20; i++) {
    t.equal((await app.inject('/item/%zz')).statusCode, 400)
    t.equal((await app.inject(`/item/${'a'.repeat(200)}`)).statusCode, 414)
  }
  t.strictSame(told(await app.inject('/item/1')), [200, '"burst";r=1;t=10', undefined])
  t.strictSame(told(await app.inject('/item/1')), [200, '"burst";r=0;t=10', undefined])
})

t.test('an internal policy is not named on what it lets pass', async t => {
  const { app } = await start(t, {
    policies: { burst: '3/10s', secret: { quota: 3, window: 60, advertise: false } },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })
  const { headers } = await app.inject('/')
  t.equal(headers['ratelimit-policy'], '"burst";q=3;w=10')
  t.equal(headers['ratelimit'], '"burst";r=2;t=10')
  t.equal(headers['x-ratelimit-reset'], '10')
})

t.test('an app of internal policies alone sends no field at all', async t => {
  const { app } = await start(t, {
    policies: { secret: { quota: 1, window: 60, advertise: false } },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })
  for (const status of [200, 429]) {
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, status)
    t.strictSame(
      Object.keys(headers).filter(name => /ratelimit/.test(name)),
      []
    )
  }
})

t.test('a served response is not capped, for that would raise the rate: a wait is', async t => {
  const { app, clock } = await start(t, {
    policies: { long: { quota: 2, window: '400d', algorithm: 'fixed-window' } }
  })
  t.strictSame(told(await app.inject('/')), [200, '"long";r=1;t=34560000', undefined])
  t.strictSame(told(await app.inject('/')), [200, '"long";r=0;t=2147483', undefined])
  t.strictSame(told(await app.inject('/')), [429, '"long";r=0;t=2147483', '2147483'])
  clock.now = NOON + 399 * 86_400_000
  t.strictSame(told(await app.inject('/')), [429, '"long";r=0;t=86400', '86400'])
})

t.test('a window of less than a second is told as one, and counted as it is', async t => {
  const { app, clock } = await start(t, {
    policies: { quick: { quota: 2, window: '500ms', algorithm: 'fixed-window' } }
  })
  const response = await app.inject('/')
  t.equal(response.headers['ratelimit-policy'], '"quick";q=2;w=1')
  t.strictSame(told(response), [200, '"quick";r=1;t=1', undefined])
  t.strictSame(told(await app.inject('/')), [200, '"quick";r=0;t=1', undefined])
  t.strictSame(told(await app.inject('/')), [429, '"quick";r=0;t=1', '1'])
  clock.now += 500
  t.strictSame(told(await app.inject('/')), [200, '"quick";r=1;t=1', undefined])
})
