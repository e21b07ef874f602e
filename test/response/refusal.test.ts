import type { FastifyInstance, FastifyReply, FastifyRequest, InjectOptions } from 'fastify'
import t from 'tap'
import type { Decision, PolicyOptions, QuotaOptions } from '../../src/index.js'
import { members, start, told } from '../fixtures/wire.js'

const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'
const REDUCED_CAPACITY = 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity'

const USED_UP = {
  type: QUOTA_EXCEEDED,
  title: 'Quota Exceeded',
  status: 429,
  detail: 'Quota "burst" allows 1 request per 10 seconds and is used up. Try again in 10 seconds.',
  'violated-policies': ['burst']
}

const policies = { burst: '1/10s' } as const

/** Everything of a refusal but what every response has. */
function wire({ headers, body }: { headers: object; body: string }): unknown {
  const rest = Object.entries(headers).filter(([name]) => name !== 'date' && name !== 'connection')
  return { ...Object.fromEntries(rest), body }
}

const plain = {
  'cache-control': 'no-store',
  'content-length': String(JSON.stringify(USED_UP).length),
  'content-type': 'application/problem+json; charset=utf-8',
  'ratelimit-policy': '"burst";q=1;w=10',
  ratelimit: '"burst";r=0;t=10',
  'retry-after': '10',
  body: JSON.stringify(USED_UP)
}

t.test('a refusal is 429 with the fields, no-store and a problem document, and nothing else', async t => {
  const { app } = await start(t, { policies })
  await app.inject('/')
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.strictSame(wire(refused), plain)
})

t.test('the body tells of a bucket what the fields tell', async t => {
  const bucket = { quota: 100, window: '1m', algorithm: 'token-bucket', burst: 5 } as const
  const { app } = await start(t, { policies: { bucket } })
  for (let i = 0; i < 5; i++) await app.inject('/')
  const { headers, body } = await app.inject('/')
  t.equal(headers['ratelimit-policy'], '"bucket";q=5;w=3')
  t.match(body, 'allows 5 requests per 3 seconds and is used up')
})

t.test('clients of a server that cannot decide do not come back together', async t => {
  const { app } = await start(t, { policies: { plan: { quota: () => Number.NaN, window: '1m' } } })
  const waits = new Set<unknown>()
  for (let i = 0; i < 100; i++) {
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, 503)
    waits.add(headers['retry-after'])
  }
  t.strictSame(waits, new Set(['1', '2', '3']))
})

t.test('what is wanted as HTML is refused as a problem document all the same', async t => {
  const { app } = await start(t, { policies })
  await app.inject('/')
  t.strictSame(wire(await app.inject({ url: '/', headers: { accept: 'text/html' } })), plain)
})

t.test('a refused HEAD has the fields of a refused GET and no body', async t => {
  const { app } = await start(t, { policies })
  await app.inject('/')
  const refused = await app.inject({ method: 'HEAD', url: '/' })
  t.equal(refused.statusCode, 429)
  t.strictSame(wire(refused), { ...plain, body: '' })
})

t.test('a served response has no Retry-After, and its own cache lifetime', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app =>
        app.get('/', async (_request, reply) =>
          reply.header('cache-control', 'public, max-age=300').send('text')
        )
    }
  )
  const { headers } = await app.inject('/')
  t.equal(headers['retry-after'], undefined)
  t.equal(headers['cache-control'], 'public, max-age=300')
})

t.test('nothing that was said of the resource is left on its refusal', async t => {
  const ofTheResource = {
    'cache-control': 'public, max-age=300',
    'cdn-cache-control': 'max-age=600',
    'surrogate-control': 'max-age=600',
    etag: '"1"',
    'last-modified': 'Mon, 30 Nov 2026 11:00:00 GMT',
    expires: 'Mon, 30 Nov 2026 13:00:00 GMT',
    'content-length': '4',
    'content-type': 'text/csv',
    'content-encoding': 'gzip',
    'content-range': 'bytes 0-3/10',
    'content-disposition': 'attachment; filename="a.csv"'
  }
  const ofTheServer = { 'x-request-id': '7', 'strict-transport-security': 'max-age=9', vary: 'Origin' }
  for (const place of ['reply', 'raw'] as const) {
    const { app } = await start(
      t,
      { policies },
      {
        before: app =>
          app.addHook('onRequest', async (_request, reply) => {
            for (const [name, value] of Object.entries({ ...ofTheResource, ...ofTheServer })) {
              if (place === 'reply') reply.header(name, value)
              else reply.raw.setHeader(name, value)
            }
          }),
        routes: app => app.get('/', async () => 'text')
      }
    )
    t.match(
      (await app.inject('/')).headers,
      { ...ofTheResource, ...ofTheServer },
      'the served one keeps them'
    )
    t.strictSame(wire(await app.inject('/')), { ...plain, ...ofTheServer })
  }
})

t.test('no schema of the app, by status, by group or for all, changes a refusal', async t => {
  const schema = { type: 'object', properties: { message: { type: 'string' } } }
  for (const status of [429, '4xx', 'default']) {
    const { app } = await start(
      t,
      { policies },
      {
        routes: app =>
          app.get(
            '/',
            { schema: { response: { 200: { type: 'string' }, [status]: schema } } },
            async () => 'text'
          )
      }
    )
    t.equal((await app.inject('/')).body, 'text')
    t.strictSame(wire(await app.inject('/')), plain, String(status))
  }
})

t.test('no serializer of the app changes a refusal', async t => {
  const other = (): string => 'other'
  const builds: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
    setReplySerializer: app => app.setReplySerializer(other),
    setSerializerCompiler: app => app.setSerializerCompiler(() => other),
    'reply.serializer': app =>
      app.addHook('onRequest', async (_request, reply) => {
        reply.serializer(other)
      }),
    preSerialization: app => app.addHook('preSerialization', async () => ({ other: true }))
  }
  for (const [why, before] of Object.entries(builds)) {
    const { app } = await start(t, { policies }, { before })
    await app.inject('/')
    t.strictSame(wire(await app.inject('/')), plain, why)
  }
})

t.test(
  'a refusal is no error: no error handler and no onError hook hears of it, onResponse does',
  async t => {
    const heard: unknown[] = []
    const { app } = await start(
      t,
      { policies },
      {
        before: app => {
          app.setErrorHandler(async (error, _request, reply) => {
            heard.push(error)
            return reply.code(500).send('broken')
          })
          app.addHook('onError', async (_request, _reply, error) => {
            heard.push(error)
          })
          app.addHook('onResponse', async (_request, reply) => {
            heard.push(reply.statusCode)
          })
        }
      }
    )
    await app.inject('/')
    t.strictSame(wire(await app.inject('/')), plain)
    t.strictSame(heard, [200, 429])
  }
)

t.test('a refusal is logged by nobody as a fault', async t => {
  const lines: string[] = []
  const { app } = await start(
    t,
    { policies },
    { server: { logger: { level: 'warn', stream: { write: line => void lines.push(line) } } } }
  )
  await app.inject('/')
  t.equal((await app.inject('/')).statusCode, 429)
  t.strictSame(lines, [])
})

t.test('a refused request reaches neither its parser nor its handler', async t => {
  const reached: string[] = []
  const { app } = await start(
    t,
    { policies },
    {
      before: app =>
        app.addContentTypeParser(
          'text/csv',
          { parseAs: 'string' },
          async (_request: unknown, body: unknown) => {
            reached.push(`parser ${String(body)}`)
            return body
          }
        ),
      routes: app =>
        app.post('/', { preValidation: async () => void reached.push('hook') }, async () => {
          reached.push('handler')
          return 'text'
        })
    }
  )
  const request = {
    method: 'POST',
    url: '/',
    payload: 'a;b',
    headers: { 'content-type': 'text/csv' }
  } as const
  t.equal((await app.inject(request)).statusCode, 200)
  t.strictSame(wire(await app.inject(request)), plain)
  t.strictSame(reached, ['parser a;b', 'hook', 'handler'])
})

t.test('an onSend hook of the app sees the bytes of a refusal', async t => {
  const seen: unknown[] = []
  const { app } = await start(
    t,
    { policies },
    {
      before: app =>
        app.addHook('onSend', async (_request, _reply, payload) => {
          seen.push(String(payload))
          return payload
        })
    }
  )
  await app.inject('/')
  t.strictSame(wire(await app.inject('/')), plain)
  t.strictSame(seen, ['served', plain.body])
})

t.test('a Retry-After that the app has set stays: no RateLimit and no other wait beside it', async t => {
  for (const theirs of ['120', 'Mon, 30 Nov 2026 13:00:00 GMT']) {
    const { app } = await start(
      t,
      { policies },
      {
        before: app =>
          app.addHook('onRequest', async (_request, reply) => {
            reply.headers({ 'retry-after': theirs, ratelimit: '"gate";r=1' })
          })
      }
    )
    t.equal((await app.inject('/')).headers['ratelimit'], '"gate";r=1, "burst";r=0;t=10')
    const { headers, body } = await app.inject('/')
    t.equal(headers['retry-after'], theirs)
    t.equal(headers['ratelimit'], '"gate";r=1')
    t.equal(headers['ratelimit-policy'], '"burst";q=1;w=10')
    t.equal(
      JSON.parse(body).detail,
      'Quota "burst" allows 1 request per 10 seconds and is used up. Try again later.'
    )
  }
})

t.test('an internal policy that refuses is named nowhere, and the wait is known all the same', async t => {
  const { app, clock } = await start(t, {
    policies: {
      burst: '10/10s',
      secret: { quota: 1, window: 60, advertise: false, unit: 'probes' }
    }
  })
  await app.inject('/')
  clock.now += 15_000
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.equal(refused.headers['retry-after'], '45')
  t.equal(refused.headers['ratelimit-policy'], '"burst";q=10;w=10')
  t.equal(refused.headers['ratelimit'], undefined)
  t.strictSame(refused.json(), {
    type: QUOTA_EXCEEDED,
    title: 'Quota Exceeded',
    status: 429,
    detail: 'A limit of this service has been reached. Try again in 45 seconds.'
  })
  t.notMatch(JSON.stringify([refused.headers, refused.body]), /secret|probes/)
})

t.test('refused by an internal policy and another, the other is named and the longer wait told', async t => {
  const { app } = await start(t, {
    policies: { burst: '1/10s', secret: { quota: 1, window: 60, advertise: false } }
  })
  await app.inject('/')
  const refused = await app.inject('/')
  t.strictSame(told(refused), [429, '"burst";r=0;t=10', '60'])
  t.strictSame(refused.json()['violated-policies'], ['burst'])
  t.equal(
    refused.json().detail,
    'Quota "burst" allows 1 request per 10 seconds and is used up. Try again in 60 seconds.'
  )
  t.notMatch(JSON.stringify([refused.headers, refused.body]), 'secret')
})

t.test('an internal policy that can never hold the request is not told as another that could', async t => {
  const { app } = await start(t, {
    policies: { burst: '1/10s', secret: { quota: 1, window: 60, cost: 2, advertise: false } }
  })
  const refused = await app.inject('/')
  t.strictSame(told(refused), [429, undefined, undefined])
  t.equal(refused.json().detail, 'This service cannot accept this request: sending it again will not help.')
})

t.test('a policy with status 503 tells of reduced capacity', async t => {
  const { app } = await start(t, {
    policies: { load: { quota: 1, window: 10, partition: 'global', status: 503 } }
  })
  await app.inject('/')
  const refused = await app.inject('/')
  t.strictSame(told(refused), [503, '"load";r=0;t=10', '10'])
  t.equal(refused.headers['content-type'], 'application/problem+json; charset=utf-8')
  t.equal(refused.headers['cache-control'], 'no-store')
  t.match(refused.json(), {
    type: REDUCED_CAPACITY,
    title: 'Temporary Reduced Capacity',
    status: 503,
    'violated-policies': ['load']
  })
})

t.test('refused with 429 and 503, it is 429', async t => {
  const load = { quota: 1, window: 60, status: 503 } as const
  const cases: readonly (readonly [QuotaOptions['policies'], readonly string[] | undefined])[] = [
    [{ load, burst: '1/10s' }, ['load', 'burst']],
    [{ burst: '1/10s', load }, ['load', 'burst']],
    [{ load, burst: { quota: 1, window: 10, advertise: false } }, ['load']]
  ]
  for (const [policies, violated] of cases) {
    const { app } = await start(t, { policies })
    await app.inject('/')
    const refused = await app.inject('/')
    t.equal(refused.statusCode, 429)
    t.match(refused.json(), { type: QUOTA_EXCEEDED, status: 429 })
    t.strictSame(refused.json()['violated-policies'], violated)
  }
})

t.test('refused by a 503 policy while a 429 policy has room, it is 503', async t => {
  const { app } = await start(t, {
    policies: { burst: '9/10s', load: { quota: 1, window: 60, status: 503 } }
  })
  await app.inject('/')
  t.strictSame(told(await app.inject('/')), [503, '"load";r=0;t=60', '60'])
})

t.test('refused by two, both are named in one order and the longer wait is told', async t => {
  const { app, clock } = await start(t, { policies: { burst: '1/10s', minute: '1/1m', daily: '9/1d' } })
  await app.inject('/')
  clock.now += 4000
  const refused = await app.inject('/')
  t.strictSame(told(refused), [429, '"minute";r=0;t=56, "burst";r=0;t=6', '56'])
  t.equal(refused.headers['ratelimit-policy'], '"burst";q=1;w=10, "minute";q=1;w=60, "daily";q=9;w=86400')
  t.strictSame(refused.json()['violated-policies'], ['minute', 'burst'])
  t.equal(
    refused.json().detail,
    'Quota "minute" allows 1 request per minute and is used up. ' +
      'Quota "burst" allows 1 request per 10 seconds and is used up. Try again in 56 seconds.'
  )
})

t.test('a refusal tells of the policy that refused, not of one that passed', async t => {
  for (const fields of ['draft-11', false] as const) {
    const { app } = await start(t, {
      policies: { a: '60/1m', b: '2/1h' },
      legacy: { style: 'x-ratelimit', reset: 'delta' },
      fields
    })
    await app.inject('/')
    await app.inject('/')
    const refused = await app.inject('/')
    t.strictSame(told(refused), [429, fields === false ? undefined : '"b";r=0;t=3600', '3600'])
    t.equal(refused.headers['x-ratelimit-limit'], '2')
    t.equal(refused.headers['x-ratelimit-remaining'], '0')
    t.equal(refused.headers['x-ratelimit-reset'], '3600')
    t.strictSame(refused.json()['violated-policies'], ['b'])
  }
})

const ALGORITHMS = ['sliding-window', 'fixed-window', 'token-bucket'] as const

/** A server whose requests cost what they say. */
const priced = (policy: Omit<PolicyOptions, 'cost'>): QuotaOptions => ({
  policies: { units: { ...policy, cost: ({ headers }) => Number(headers['x-cost']) } }
})

const costing = (cost: number): InjectOptions => ({
  method: 'GET',
  url: '/',
  headers: { 'x-cost': String(cost) }
})

t.test('a cost that never fits is refused without a wait, says so, and drains nothing', async t => {
  for (const algorithm of ALGORITHMS) {
    const { app } = await start(t, priced({ quota: 3, window: 10, algorithm }))
    const refused = await app.inject(costing(4))
    t.strictSame(told(refused).toSpliced(1, 1), [429, undefined], algorithm)
    t.match(members(refused.headers['ratelimit']), [{ name: 'units', r: 3 }], algorithm)
    t.equal(
      refused.json().detail,
      'This request costs 4 units, more than the 3 that quota "units" can ever hold: sending it again will not help.'
    )
    t.strictSame(refused.json()['violated-policies'], ['units'])
    const served = await app.inject(costing(3))
    t.equal(served.statusCode, 200, algorithm)
    t.match(members(served.headers['ratelimit']), [{ name: 'units', r: 0 }], algorithm)
  }
})

t.test('no wait is told if one of the refusing policies can never hold the request', async t => {
  const { app } = await start(t, { policies: { burst: '1/10s', tiny: { quota: 1, window: 60, cost: 2 } } })
  const refused = await app.inject('/')
  t.equal(refused.headers['retry-after'], undefined)
  t.match(refused.json().detail, 'costs 2 units, more than the 1 that quota "tiny" can ever hold')
})

t.test('a cost that does not fit now is told with what is left and when it fits', async t => {
  for (const algorithm of ALGORITHMS) {
    const { app, clock } = await start(t, priced({ quota: 4, window: 8, algorithm }))
    await app.inject(costing(3))
    clock.now += 1000
    const refused = await app.inject(costing(3))
    const [limit] = members(refused.headers['ratelimit'])
    t.equal(limit?.['r'], 1, algorithm)
    t.equal(String(limit?.['t']), refused.headers['retry-after'], algorithm)
    t.match(
      refused.json().detail,
      'allows 4 requests per 8 seconds and has less left than this request costs'
    )
    clock.now += Number(refused.headers['retry-after']) * 1000
    t.equal((await app.inject(costing(3))).statusCode, 200, algorithm)
  }
})

t.test('a quota of 0 allows nothing and tells no wait', async t => {
  for (const algorithm of ALGORITHMS) {
    const { app } = await start(t, {
      policies: {
        burst: '5/10s',
        none: { quota: 0, window: 60, algorithm }
      },
      legacy: { style: 'x-ratelimit', reset: 'epoch' }
    })
    for (let i = 0; i < 3; i++) {
      const refused = await app.inject('/')
      t.strictSame(told(refused), [429, '"none";r=0', undefined], algorithm)
      t.equal(refused.headers['ratelimit-policy'], '"burst";q=5;w=10, "none";q=0;w=60')
      t.equal(refused.headers['x-ratelimit-limit'], '0')
      t.equal(refused.headers['x-ratelimit-remaining'], '0')
      t.equal(refused.headers['x-ratelimit-reset'], undefined)
      t.equal(
        refused.json().detail,
        'Quota "none" allows 0 requests: sending this request again will not help.'
      )
    }
  }
})

t.test('a refusal at a later stage tells of that stage alone', async t => {
  const legacy = { style: 'x-ratelimit', reset: 'delta' } as const
  for (const advertise of [true, false]) {
    const { app } = await start(t, {
      policies: {
        first: { quota: 9, window: 60, hook: 'onRequest' },
        second: { quota: 1, window: 10, hook: 'preHandler', advertise }
      },
      legacy
    })
    t.equal((await app.inject('/')).statusCode, 200)
    const refused = await app.inject('/')
    t.strictSame(told(refused), [429, advertise ? '"second";r=0;t=10' : undefined, '10'])
    t.equal(refused.headers['ratelimit-policy'], `"first";q=9;w=60${advertise ? ', "second";q=1;w=10' : ''}`)
    t.equal(refused.headers['x-ratelimit-limit'], advertise ? '1' : undefined)
    t.equal(refused.headers['x-ratelimit-remaining'], advertise ? '0' : undefined)
    t.equal(refused.headers['x-ratelimit-reset'], advertise ? '10' : undefined)
  }
})

t.test('the body tells nothing about the client', async t => {
  const { app } = await start(t, {
    policies: { user: { quota: 1, window: 10, partition: 'user' } },
    identify: { user: ({ headers }) => headers['x-user'] as string }
  })
  const request = { url: '/', headers: { 'x-user': 'alice' }, remoteAddress: '198.51.100.7' }
  await app.inject(request)
  const refused = await app.inject(request)
  t.equal(refused.statusCode, 429)
  t.notMatch(JSON.stringify([refused.headers, refused.body]), /alice|198\.51/)
})

/** A route that asks for the quota of `policies.heavy` by itself and refuses with the hook's own answer. */
const asking =
  (respond: (reply: FastifyReply, decision: Decision) => unknown) =>
  (app: FastifyInstance): unknown =>
    app.get('/', { config: { quota: ['burst'] } }, async (request, reply) => {
      const decision = await app.quota.consume(request, { heavy: 1 })
      return decision.outcome === 'refused' ? respond(reply, decision) : 'served'
    })

t.test('reply.refuse answers as the hook does, and adds the policy to those of the route', async t => {
  const { app } = await start(
    t,
    {
      policies: { burst: '9/10s', heavy: { quota: 1, window: 60, default: false } },
      legacy: { style: 'x-ratelimit', reset: 'delta' }
    },
    {
      routes: asking((reply, decision) =>
        reply
          .headers({ 'content-disposition': 'attachment', etag: '"1"', 'cache-control': 'public, max-age=9' })
          .type('text/csv')
          .refuse(decision)
      )
    }
  )
  t.strictSame(told(await app.inject('/')), [200, '"burst";r=8;t=10', undefined])
  const body = {
    type: QUOTA_EXCEEDED,
    title: 'Quota Exceeded',
    status: 429,
    detail: 'Quota "heavy" allows 1 request per minute and is used up. Try again in 60 seconds.',
    'violated-policies': ['heavy']
  }
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.strictSame(wire(refused), {
    'cache-control': 'no-store',
    'content-length': String(JSON.stringify(body).length),
    'content-type': 'application/problem+json; charset=utf-8',
    'ratelimit-policy': '"burst";q=9;w=10, "heavy";q=1;w=60',
    ratelimit: '"heavy";r=0;t=60',
    'retry-after': '60',
    'x-ratelimit-limit': '1',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': '60',
    body: JSON.stringify(body)
  })
})

t.test('a refusal by nobody, made by code, says to come back soon', async t => {
  const { app } = await start(
    t,
    { policies },
    {
      routes: app =>
        app.get('/', async (_request, reply) =>
          reply.refuse({ outcome: 'refused', limits: [], exempt: [], shadow: [], source: 'closed' })
        )
    }
  )
  const { statusCode, headers } = await app.inject('/')
  t.equal(statusCode, 503)
  t.match(headers['retry-after'], /^[123]$/)
  t.equal(headers['ratelimit'], undefined)
})

t.test('reply.refuse works on a route without quota, and names its own policy', async t => {
  const { app } = await start(
    t,
    { policies: { heavy: { quota: 1, window: 60, default: false } } },
    {
      routes: app =>
        app.get('/', { config: { quota: false } }, async (request, reply) => {
          const decision = await app.quota.consume(request, { heavy: 1 })
          return decision.outcome === 'refused' ? reply.refuse(decision) : 'served'
        })
    }
  )
  const served = await app.inject('/')
  t.strictSame(told(served), [200, undefined, undefined])
  const refused = await app.inject('/')
  t.strictSame(told(refused), [429, '"heavy";r=0;t=60', '60'])
  t.equal(refused.headers['ratelimit-policy'], '"heavy";q=1;w=60')
})

t.test(
  'onRefused hears of each refusal once, and what it throws or rejects with is logged alone',
  async t => {
    const heard: unknown[] = []
    const faults: Readonly<Record<string, () => unknown>> = {
      nothing: () => undefined,
      throws: () => {
        throw new Error('broken')
      },
      rejects: async () => {
        throw new Error('broken')
      },
      'never ends': () => new Promise(() => {})
    }
    for (const [why, fault] of Object.entries(faults)) {
      const lines: Record<string, unknown>[] = []
      const { app } = await start(
        t,
        {
          policies,
          onRefused: (decision: Decision, request: FastifyRequest) => {
            heard.push([why, decision.outcome, decision.limits.map(({ policy }) => policy.name), request.url])
            return fault() as undefined
          }
        },
        {
          server: { logger: { level: 'warn', stream: { write: line => void lines.push(JSON.parse(line)) } } }
        }
      )
      await app.inject('/')
      t.strictSame(wire(await app.inject('/')), plain, why)
      t.strictSame(wire(await app.inject('/')), plain, why)
      const refusal = [why, 'refused', ['burst'], '/']
      t.strictSame(heard.splice(0), [refusal, refusal], why)
      const logged = why === 'throws' || why === 'rejects'
      t.strictSame(
        lines.map(({ option, level, msg }) => ({ option, level, msg })),
        logged
          ? [{ option: 'onRefused', level: 50, msg: 'fastify-quota: onRefused failed, so nobody was told' }]
          : [],
        why
      )
    }
  }
)
