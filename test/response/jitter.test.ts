import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { NOON, members, start, told } from '../fixtures/wire.js'

/** What a response tells to wait, in seconds. */
const waits = ({ headers }: LightMyRequestResponse): readonly [t: number, retryAfter: number] => [
  Number(members(headers['ratelimit'])[0]!['t']),
  Number(headers['retry-after'])
]

const minute: QuotaOptions['policies'] = {
  minute: { quota: 1, window: '1m', algorithm: 'fixed-window', align: true }
}
const from = (i: number): { readonly url: string; readonly remoteAddress: string } => ({
  url: '/',
  remoteAddress: `198.51.100.${i}`
})

t.test(
  'a wait is lengthened in t and Retry-After alike, by up to the jitter, for each client by its own',
  async t => {
    const { app, clock } = await start(t, { policies: minute, jitter: '20s' })
    clock.now += 30_000
    const seen = new Set<number>()
    for (let i = 0; i < 40; i++) {
      const served = await app.inject(from(i))
      const refused = await app.inject(from(i))
      const [t1] = waits(served)
      const [t2, wait] = waits(refused)
      t.equal(served.statusCode, 200)
      t.equal(refused.statusCode, 429)
      t.equal(t1, t2, 'the same before and after')
      t.equal(t2, wait)
      t.ok(wait >= 30 && wait <= 50, `${wait}`)
      t.match(refused.json().detail, `Try again in ${wait} seconds.`)
      seen.add(wait)
    }
    t.ok(seen.size > 10, `${seen.size} moments for 40 clients`)
  }
)

t.test('a client that asks again sees its wait fall as time passes', async t => {
  const { app, clock } = await start(t, { policies: minute, jitter: '20s' })
  await app.inject('/')
  const [first] = waits(await app.inject('/'))
  for (let passed = 1; passed < 60; passed++) {
    clock.now = NOON + passed * 1000
    t.strictSame(waits(await app.inject('/')), [first - passed, first - passed])
  }
})

t.test(
  'a client that comes back without waiting for its jitter is served: it is never refused for that',
  async t => {
    const { app, clock } = await start(t, { policies: minute, jitter: '20s' })
    await app.inject('/')
    const [, wait] = waits(await app.inject('/'))
    t.ok(wait >= 60)
    clock.now += 60_000
    t.equal((await app.inject('/')).statusCode, 200)
  }
)

t.test('a policy spreads its clients in another order than the next one', async t => {
  const { app } = await start(t, {
    policies: { a: { quota: 1, window: '1m' }, b: { quota: 1, window: '1m' } },
    jitter: '1h'
  })
  let differing = 0
  for (let i = 0; i < 20; i++) {
    const [one, other] = members((await app.inject(from(i))).headers['ratelimit'])
    if (one!['t'] !== other!['t']) differing++
    const refused = await app.inject(from(i))
    const longest = Math.max(...members(refused.headers['ratelimit']).map(limit => Number(limit['t'])))
    t.equal(Number(refused.headers['retry-after']), longest)
  }
  t.ok(differing > 15)
})

t.test('time to spend units in is not lengthened', async t => {
  for (const jitter of [false, '1h'] as const) {
    const { app } = await start(t, { policies: { minute: '3/1m' }, jitter })
    t.strictSame(told(await app.inject('/')), [200, '"minute";r=2;t=60', undefined])
    t.strictSame(told(await app.inject('/')), [200, '"minute";r=1;t=60', undefined])
  }
})

t.test('a wait for several units is lengthened, although there are some', async t => {
  const { app } = await start(t, { policies: { minute: { quota: 3, window: '1m', cost: 2 } }, jitter: '1h' })
  t.strictSame(told(await app.inject('/')), [200, '"minute";r=1;t=60', undefined])
  const [t1, wait] = waits(await app.inject('/'))
  t.equal(t1, wait)
  t.ok(wait > 60)
})

t.test('no wait is told where none helps, and none is beyond the longest timer', async t => {
  const { app } = await start(t, { policies: { none: '0/1m' }, jitter: '1h' })
  t.strictSame(told(await app.inject('/')), [429, '"none";r=0', undefined])
  const long = await start(t, { policies: { minute: '9/1m', long: '1/400d' }, jitter: '1h' })
  await long.app.inject('/')
  t.strictSame(told(await long.app.inject('/')), [429, '"long";r=0;t=2147483', '2147483'])
})

t.test('the reset of the older forms is lengthened by the same', async t => {
  for (const [legacy, reset] of [
    [{ style: 'x-ratelimit', reset: 'delta' }, 'x-ratelimit-reset'],
    ['draft-6', 'ratelimit-reset'],
    ['llm', 'x-ratelimit-reset-requests']
  ] as const) {
    const { app } = await start(t, { policies: { minute: '2/1m' }, jitter: '1h', legacy })
    const served = (await app.inject('/')).headers
    t.equal(served[reset], legacy === 'llm' ? '1m0s' : '60', 'units are left')
    await app.inject('/')
    const { headers } = await app.inject('/')
    const wait = Number(headers['retry-after'])
    t.ok(wait > 60)
    if (legacy === 'llm') {
      const [, minutes, seconds] = /^(\d+)m([\d.]+)s$/.exec(String(headers[reset]))!
      t.equal(Math.ceil(Number(minutes) * 60 + Number(seconds)), wait)
    } else {
      t.equal(Number(headers[reset]), wait)
    }
  }
})

t.test('identities of later stages do not move the wait of an earlier one', async t => {
  const { app } = await start(
    t,
    {
      identify: { user: request => request.headers['x-authenticated'] as string },
      policies: {
        first: { quota: 1, window: '1m', partition: 'user', hook: 'onRequest' },
        second: { quota: 9, window: '1m', partition: 'user', hook: 'preHandler' }
      },
      jitter: '1h'
    },
    {
      routes: app => {
        app.addHook('preValidation', async request => {
          request.headers['x-authenticated'] = 'anna'
        })
        app.get('/', async () => 'served')
      }
    }
  )
  const [served] = members((await app.inject('/')).headers['ratelimit'])
  const [refused] = members((await app.inject('/')).headers['ratelimit'])
  t.equal(served!.name, 'first')
  t.strictSame(served, refused, 'both are of the address that was counted')
})

t.test('a refusal that code has asked for spreads those it is about, whoever asks', async t => {
  const { app } = await start(
    t,
    {
      identify: { tenant: () => undefined },
      policies: { mails: { quota: 1, window: '1m', partition: 'tenant', default: false } },
      jitter: '1h'
    },
    {
      routes: app =>
        app.get<{ Params: { tenant: string } }>('/:tenant', async (request, reply) => {
          const decision = await app.quota.consume({ tenant: request.params.tenant }, { mails: 1 })
          return decision.outcome === 'refused' ? reply.refuse({ ...decision }) : 'sent'
        })
    }
  )
  const waitOf = async (tenant: string, i: number): Promise<number> => {
    const response = await app.inject({ ...from(i), url: `/${tenant}` })
    t.equal(response.statusCode, 429)
    return waits(response)[1]
  }
  for (const tenant of ['acme', 'globex']) t.equal((await app.inject(`/${tenant}`)).statusCode, 200)
  t.equal(await waitOf('acme', 1), await waitOf('acme', 2))
  t.not(await waitOf('acme', 1), await waitOf('globex', 1))
})
