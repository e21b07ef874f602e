import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply } from 'fastify'
import { parseDictionary } from 'structured-headers'
import t from 'tap'
import type { Legacy, QuotaOptions, XRateLimit } from '../../src/index.js'
import { NOON, start } from '../fixtures/wire.js'

const DAY = 86_400_000
const delta: XRateLimit = { style: 'x-ratelimit', reset: 'delta' }
const epoch: XRateLimit = { style: 'x-ratelimit', reset: 'epoch' }

function legacy(headers: IncomingHttpHeaders | NodeJS.Dict<unknown>): readonly unknown[] {
  return ['limit', 'remaining', 'reset'].map(name => headers[`x-ratelimit-${name}`])
}

t.test('legacy fields stand beside those of the draft, or instead of them', async t => {
  for (const fields of ['draft-11', false] as const) {
    const { app } = await start(t, { policies: { burst: '2/10s' }, legacy: delta, fields })
    const served = (await app.inject('/')).headers
    t.strictSame(legacy(served), ['2', '1', '10'])
    t.equal(served['ratelimit'], fields === false ? undefined : '"burst";r=1;t=10')
    t.equal(served['ratelimit-policy'], fields === false ? undefined : '"burst";q=2;w=10')
  }
})

t.test('none is sent unless it is asked for', async t => {
  const { app } = await start(t, { policies: { burst: '1/10s' } })
  for (const status of [200, 429]) {
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, status)
    t.strictSame(legacy(headers), [undefined, undefined, undefined])
  }
})

t.test('they tell of the policy closest to exhaustion, in one plain number each', async t => {
  const { app, clock } = await start(t, {
    policies: { burst: '2/10s', daily: { quota: 3, window: '1d', algorithm: 'fixed-window' } },
    legacy: delta
  })
  t.strictSame(legacy((await app.inject('/')).headers), ['2', '1', '10'])
  t.strictSame(legacy((await app.inject('/')).headers), ['2', '0', '10'])
  clock.now += 10_000
  t.strictSame(legacy((await app.inject('/')).headers), ['3', '0', '86390'])
  t.strictSame(legacy((await app.inject('/')).headers), ['3', '0', '86390'])
})

t.test('an epoch is the second after the true reset, later than Date, and the retry passes', async t => {
  const { app, clock } = await start(t, {
    policies: { only: { quota: 1, window: 3, algorithm: 'fixed-window' } },
    legacy: epoch
  })
  const x = NOON / 1000
  clock.now = NOON + 500
  t.strictSame(legacy((await app.inject('/')).headers), ['1', '0', String(x + 4)])
  clock.now = NOON + 1500
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.strictSame(legacy(refused.headers), ['1', '0', String(x + 4)])
  clock.now = NOON + 3499
  const late = await app.inject('/')
  t.equal(late.statusCode, 429)
  t.ok(Number(late.headers['x-ratelimit-reset']) > Math.floor(clock.now / 1000))
  clock.now = (x + 4) * 1000
  t.equal((await app.inject('/')).statusCode, 200)
})

t.test('an epoch is compared with Date: without a clock of its own it follows the wall clock', async t => {
  const { app } = await start(t, { policies: { burst: '2/10s' }, legacy: epoch }, { clock: false })
  const { headers } = await app.inject('/')
  const left = Number(headers['x-ratelimit-reset']) - Date.parse(String(headers['date'])) / 1000
  t.ok(left >= 9 && left <= 12, `${left} s`)
})

t.test('a number is a bare integer in its unit, however long the window', async t => {
  for (const [window, ms] of [
    ['10s', 10_000],
    ['1d', DAY],
    ['400d', 400 * DAY]
  ] as const) {
    for (const style of [delta, epoch]) {
      const { app } = await start(t, { policies: { only: { quota: 1, window } }, legacy: style })
      for (const status of [200, 429]) {
        const { statusCode, headers } = await app.inject('/')
        t.equal(statusCode, status)
        const reset = (style === delta ? 0 : NOON / 1000) + ms / 1000
        t.strictSame(legacy(headers), ['1', '0', String(reset)])
        t.equal(reset < 1e9, style === delta)
      }
    }
  }
})

t.test('they replace what another plugin has set, for a client cannot read two numbers', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '2/10s' }, legacy: delta },
    {
      before: app =>
        app.addHook('onRequest', async (_request, reply) => {
          reply.headers({
            'X-RateLimit-Limit': ['7', '8'],
            'X-RateLimit-Remaining': 7,
            'X-RateLimit-Reset': '7'
          })
        })
    }
  )
  t.strictSame(legacy((await app.inject('/')).headers), ['2', '1', '10'])
})

t.test('jitter makes no reset of none', async t => {
  const { app } = await start(t, {
    policies: { slots: { quota: 1, algorithm: 'concurrency' } },
    legacy: delta,
    jitter: '20s'
  })
  t.strictSame(legacy((await app.inject('/')).headers), ['1', '0', undefined])
})

t.test(
  'a refusal whose Retry-After is of somebody else has none, for theirs may be another time',
  async t => {
    const { app } = await start(
      t,
      { policies: { burst: '1/10s' }, legacy: delta },
      {
        before: app =>
          app.addHook('onRequest', async (_request, reply) => {
            reply.header('retry-after', '99')
          })
      }
    )
    t.strictSame(legacy((await app.inject('/')).headers), ['1', '0', '10'])
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, 429)
    t.equal(headers['retry-after'], '99')
    t.strictSame(legacy(headers), [undefined, undefined, undefined])
  }
)

t.test('where somebody sets one of them later, none of ours is left to be read with it', async t => {
  const theirs = { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '4999' }
  const answers = {
    reply: (reply: FastifyReply) => reply.headers(theirs).send('text'),
    Response: () => new Response('text', { headers: theirs })
  }
  for (const [by, answer] of Object.entries(answers)) {
    const { app } = await start(
      t,
      { policies: { burst: '2/10s' }, legacy: delta },
      { routes: app => app.get('/', async (_request, reply) => answer(reply)) }
    )
    const { headers } = await app.inject('/')
    t.strictSame(legacy(headers), ['5000', '4999', undefined], by)
    t.equal(headers['ratelimit'], '"burst";r=1;t=10')
  }
})

t.test('one that somebody has removed stays away, and the others stay', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '2/10s' }, legacy: delta },
    {
      routes: app => app.get('/', async (_request, reply) => reply.removeHeader('x-ratelimit-reset').send(''))
    }
  )
  t.strictSame(legacy((await app.inject('/')).headers), ['2', '1', undefined])
})

t.test('a redirect keeps those that somebody else has set', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '2/10s' }, legacy: delta },
    {
      routes: app =>
        app.get('/', async (_request, reply) =>
          reply.header('x-ratelimit-limit', '5000').redirect('/elsewhere')
        )
    }
  )
  t.strictSame(legacy((await app.inject('/')).headers), ['5000', undefined, undefined])
})

t.test('there is no reset where none is known, not even that of another policy', async t => {
  const { app } = await start(t, {
    policies: {
      first: { quota: 5, window: 60, hook: 'onRequest' },
      none: { quota: 0, window: 60, hook: 'preHandler' }
    },
    legacy: delta
  })
  t.strictSame(legacy((await app.inject('/')).headers), ['0', '0', undefined])
})

/** All fields of a response that are about quota. */
function fieldsOf(headers: IncomingHttpHeaders | NodeJS.Dict<unknown>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)))
}

const two: QuotaOptions['policies'] = { burst: '3/10s', daily: { quota: 50, window: '1d', cost: 2 } }
const PRESENT = {
  'ratelimit-policy': '"burst";q=3;w=10, "daily";q=50;w=86400',
  ratelimit: '"burst";r=2;t=10, "daily";r=48;t=86400'
}

t.test('each older form stands alone, and all but one beside the fields of the draft', async t => {
  const numbers = { 'ratelimit-limit': '3', 'ratelimit-remaining': '2', 'ratelimit-reset': '10' }
  const llm = {
    'x-ratelimit-limit-requests': '3',
    'x-ratelimit-remaining-requests': '2',
    'x-ratelimit-reset-requests': '10s'
  }
  const policy = { 'ratelimit-policy': '3;w=10, 50;w=86400' }
  const cases: readonly (readonly [Legacy, QuotaOptions['fields'], object])[] = [
    ['draft-6', false, { ...numbers, ...policy }],
    ['draft-6', 'draft-11', { ...PRESENT, ...numbers }],
    ['draft-7', false, { ratelimit: 'limit=3, remaining=2, reset=10', ...policy }],
    ['llm', false, llm],
    ['llm', 'draft-11', { ...PRESENT, ...llm }]
  ]
  for (const [legacy, fields, expected] of cases) {
    const { app } = await start(t, { policies: two, legacy, fields })
    t.strictSame(
      fieldsOf((await app.inject('/')).headers),
      expected,
      `${JSON.stringify(legacy)}, ${String(fields)}`
    )
  }
})

t.test('revision 7 has the names of the present fields: beside them the app does not start', async t => {
  await t.rejects(start(t, { policies: two, legacy: 'draft-7' }), {
    code: 'FST_QUOTA_OPTION',
    message:
      "fastify-quota: legacy 'draft-7' has the names of the draft's fields and cannot stand beside them: add fields: false"
  })
})

t.test('the older revisions tell of a refusal too, and its reset is its Retry-After', async t => {
  for (const legacy of ['draft-6', 'draft-7'] as const) {
    const { app, clock } = await start(t, { policies: two, legacy, fields: false })
    for (let i = 0; i < 3; i++) await app.inject('/')
    clock.now += 2500
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, 429)
    t.equal(headers['retry-after'], '8')
    t.equal(headers['ratelimit-policy'], '3;w=10, 50;w=86400')
    if (legacy === 'draft-6') {
      t.match(headers, { 'ratelimit-limit': '3', 'ratelimit-remaining': '0', 'ratelimit-reset': '8' })
    } else {
      const members = parseDictionary(headers['ratelimit'] as string)
      t.strictSame(
        [...members].map(([name, [value]]) => [name, value]),
        [
          ['limit', 3],
          ['remaining', 0],
          ['reset', 8]
        ]
      )
    }
  }
})

t.test('the older revisions pass over what has no reset', async t => {
  for (const [legacy, told] of [
    ['draft-6', { 'ratelimit-limit': '9', 'ratelimit-remaining': '8', 'ratelimit-reset': '10' }],
    ['draft-7', { ratelimit: 'limit=9, remaining=8, reset=10' }]
  ] as const) {
    const { app } = await start(t, {
      policies: { slots: { quota: 1, algorithm: 'concurrency' }, burst: '9/10s' },
      legacy,
      fields: false
    })
    t.strictSame(fieldsOf((await app.inject('/')).headers), { ...told, 'ratelimit-policy': '9;w=10' })
  }
})

t.test('language models are told of requests and tokens apart, as their SDKs read it', async t => {
  const { app, clock } = await start(t, {
    policies: {
      rpm: { quota: 60, window: '1m' },
      rpd: { quota: 1000, window: '1d' },
      tpm: { quota: 100_000, window: '6m', unit: 'tokens', cost: ({ headers }) => Number(headers['x-cost']) }
    },
    legacy: 'llm'
  })
  const ask = async (cost: number): Promise<Readonly<Record<string, unknown>>> => {
    const { headers } = await app.inject({ url: '/', headers: { 'x-cost': String(cost) } })
    return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-ratelimit')))
  }
  t.strictSame(await ask(90_000), {
    'x-ratelimit-limit-tokens': '100000',
    'x-ratelimit-remaining-tokens': '10000',
    'x-ratelimit-reset-tokens': '6m0s',
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '59',
    'x-ratelimit-reset-requests': '1m0s'
  })
  clock.now += 180_040
  t.strictSame(
    await ask(10_001),
    {
      'x-ratelimit-limit-tokens': '100000',
      'x-ratelimit-remaining-tokens': '10000',
      'x-ratelimit-reset-tokens': '2m59.96s'
    },
    'of a refusal the unit that has run out'
  )
})

t.test(
  'a unit of the form for language models is that of its policy, and the time may be less than a second',
  async t => {
    t.capture(process, 'emitWarning')
    const { app } = await start(t, {
      policies: {
        images: { quota: 2, window: '500ms', unit: 'images', algorithm: 'fixed-window' },
        slots: { quota: 4, algorithm: 'concurrency' }
      },
      legacy: 'llm',
      fields: false
    })
    t.strictSame(fieldsOf((await app.inject('/')).headers), {
      'x-ratelimit-limit-images': '2',
      'x-ratelimit-remaining-images': '1',
      'x-ratelimit-reset-images': '500ms',
      'x-ratelimit-limit-concurrent-requests': '4',
      'x-ratelimit-remaining-concurrent-requests': '3'
    })
  }
)

t.test('a long time is told whole, in each form', async t => {
  for (const [legacy, name, served, refused] of [
    ['draft-6', 'ratelimit-reset', '34560000', '34560000'],
    ['draft-7', 'ratelimit', 'limit=2, remaining=1, reset=34560000', 'limit=2, remaining=0, reset=34560000'],
    ['llm', 'x-ratelimit-reset-requests', '9600h0m0s', '9600h0m0s']
  ] as const) {
    const { app } = await start(t, { policies: { only: '2/400d' }, legacy, fields: false })
    t.equal((await app.inject('/')).headers[name], served)
    await app.inject('/')
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, 429)
    t.equal(headers[name], refused)
    t.equal(headers['retry-after'], '2147483')
  }
})

t.test('an internal policy appears in no form, nor in the policies of reply.refuse', async t => {
  for (const legacy of [delta, 'draft-6', 'draft-7', 'llm'] as const) {
    const { app } = await start(
      t,
      {
        policies: {
          burst: '7/10s',
          secret: { quota: 13, window: 77, advertise: false },
          mails: { quota: 1, window: '1h', default: false },
          hidden: { quota: 1, window: 99, advertise: false, default: false }
        },
        legacy,
        fields: false
      },
      {
        routes: app =>
          app.get<{ Querystring: { mails?: string } }>('/', async (request, reply) => {
            if (request.query.mails === undefined) return 'served'
            return reply.refuse(await app.quota.consume(request, { mails: 2, hidden: 2 }))
          })
      }
    )
    for (const url of ['/', '/?mails']) {
      const { headers, body } = await app.inject(url)
      const shown = JSON.stringify({ ...headers, date: undefined, body })
      t.notMatch(shown, /13|77|99|secret|hidden/, `${JSON.stringify(legacy)} ${url}`)
    }
    const { headers } = await app.inject('/?mails')
    if (legacy === 'draft-6' || legacy === 'draft-7') {
      t.equal(headers['ratelimit-policy'], '7;w=10, 1;w=3600')
    }
  }
})

t.test('a route that refuses by code lists its policies and those of the refusal', async t => {
  const { app } = await start(
    t,
    {
      policies: { burst: '7/10s', mails: { quota: 3, window: '1h', default: false } },
      legacy: 'draft-7',
      fields: false
    },
    {
      routes: app =>
        app.get('/', async (request, reply) => {
          await app.quota.consume(request, { mails: 2 })
          return reply.refuse(await app.quota.consume(request, { mails: 2 }))
        })
    }
  )
  t.strictSame(fieldsOf((await app.inject('/')).headers), {
    ratelimit: 'limit=3, remaining=1, reset=3600',
    'ratelimit-policy': '7;w=10, 3;w=3600',
    'retry-after': '3600'
  })
})

t.test('what is settled before the response leaves is told in each form', async t => {
  for (const [legacy, name, text] of [
    ['draft-6', 'ratelimit-remaining', '97'],
    ['draft-7', 'ratelimit', 'limit=100, remaining=97, reset=60'],
    ['llm', 'x-ratelimit-remaining-tokens', '97']
  ] as const) {
    const { app } = await start(
      t,
      { policies: { tpm: { quota: 100, window: '1m', unit: 'tokens', cost: 50 } }, legacy, fields: false },
      {
        routes: app =>
          app.get('/', async request => {
            await request.quota.settle('tpm', 3)
            return 'settled'
          })
      }
    )
    t.equal((await app.inject('/')).headers[name], text)
  }
})
