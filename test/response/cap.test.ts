import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { NOON, members, start, told } from '../fixtures/wire.js'
import type { Started } from '../fixtures/wire.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)

// Long windows alone are what this is about.
process.removeAllListeners('warning')

const hour = { quota: 1000, window: '1h', algorithm: 'fixed-window' } as const

/** Tells what the request was decided to have left. */
const echo = (app: FastifyInstance): unknown =>
  app.get('/', async request => request.quota.limits.map(({ remaining }) => remaining))

/** A server in whose fixed windows a first request has been sent; its time is so many seconds before their end. */
async function ending(
  t: Parameters<typeof start>[0],
  options: QuotaOptions,
  seconds: number
): Promise<Started> {
  const server = await start(t, options, { routes: echo })
  await server.app.inject('/')
  server.clock.now = NOON + (3600 - seconds) * 1000
  return server
}

t.test('a long fixed window that is about to end invites to ten times its rate, no more', async t => {
  for (const [seconds, limit] of [
    [3600, '"hour";r=998;t=3600'],
    [360, '"hour";r=998;t=360'],
    [359, '"hour";r=997;t=359'],
    [36, '"hour";r=100;t=36'],
    [2, '"hour";r=5;t=2'],
    [1, '"hour";r=2;t=1']
  ] as const) {
    const { app } = await ending(t, { policies: { hour } }, seconds)
    const response = await app.inject('/')
    t.strictSame(told(response), [200, limit, undefined])
    t.strictSame(response.json(), [998], 'code sees what is left')
    t.equal((await app.quota.peek({ ip: '127.0.0.1' })).limits[0]!.remaining, 998)
  }
})

t.test('what is told has a lower bound: one unit, and a longer time', async t => {
  const { app } = await ending(t, { policies: { slow: { ...hour, quota: 3 } } }, 10)
  t.strictSame(told(await app.inject('/')), [200, '"slow";r=1;t=120', undefined])
})

t.test('the cap lowers what is told, and refuses nobody', async t => {
  const { app } = await ending(t, { policies: { hour: { ...hour, quota: 50 } } }, 10)
  const statuses: number[] = []
  for (let i = 0; i < 50; i++) statuses.push((await app.inject('/')).statusCode)
  t.strictSame(new Set(statuses.slice(0, 49)), new Set([200]))
  t.equal(statuses[49], 429)
})

t.test('the older forms tell what is left, without a cap', async t => {
  const left = {
    'draft-6': ['ratelimit-remaining', '998'],
    llm: ['x-ratelimit-remaining-requests', '998']
  } as const
  for (const legacy of ['draft-6', 'llm'] as const) {
    const { app } = await ending(t, { policies: { hour }, legacy }, 36)
    const { headers } = await app.inject('/')
    t.equal(headers['ratelimit'], '"hour";r=100;t=36')
    const [name, value] = left[legacy]
    t.equal(headers[name], value)
  }
  const { app } = await ending(
    t,
    { policies: { hour }, legacy: { style: 'x-ratelimit', reset: 'delta' } },
    36
  )
  t.match((await app.inject('/')).headers, { 'x-ratelimit-remaining': '998', 'x-ratelimit-reset': '36' })
})

t.test('a shorter policy that is told beside is cap enough; one that is not is none', async t => {
  const short = { quota: 2000, window: '30m' } as const
  const beside = async (
    policies: QuotaOptions['policies'],
    more: Partial<QuotaOptions> = {}
  ): Promise<unknown> => {
    const { app } = await ending(t, { policies: { hour, ...policies }, ...more }, 36)
    const { headers } = await app.inject('/')
    return members(headers['ratelimit']).find(({ name }) => name === 'hour')?.['r']
  }
  t.equal(await beside({ short }), 998)
  t.equal(await beside({ short: { ...short, unit: 'tokens' } }), 100)
  t.equal(await beside({ short: { ...short, window: '1h' } }), 100)
  t.equal(await beside({ short: { ...short, advertise: false } }), 100)
  t.equal(await beside({ short: { ...short, mode: 'shadow' } }), 100)
  t.equal(await beside({ short: { ...short, exempt: () => true } }), 100, 'to this request it does not apply')
  t.equal(await beside({ short }, { select: 'closest' }), 100, 'it is not selected')
})

t.test(
  'a minute, a sliding window and a bucket have no cap by default, for their rate is theirs',
  async t => {
    for (const policy of [
      { quota: 1000, window: '1m', algorithm: 'fixed-window' },
      { quota: 1000, window: '1h' },
      { quota: 1000, window: '1h', algorithm: 'sliding-window-counter' },
      { quota: 1000, window: '1h', algorithm: 'token-bucket' }
    ] as const) {
      const { app, clock } = await start(t, { policies: { policy } })
      await app.inject('/')
      clock.now += policy.window === '1m' ? 59_000 : 3_599_000
      const [limit] = members((await app.inject('/')).headers['ratelimit'])
      t.ok(Number(limit!['r']) >= 998, JSON.stringify(policy))
    }
  }
)

t.test('a cap of ones own is in requests for each second', async t => {
  const { app } = await ending(t, { policies: { hour, any: '5000/1m' }, cap: 2 }, 36)
  t.strictSame(told(await app.inject('/')), [200, '"hour";r=72;t=36, "any";r=4999;t=2500', undefined])
})

t.test('a cap by unit leaves other units alone', async t => {
  const policies = { hour, tokens: { ...hour, unit: 'tokens' } } as const
  const { app } = await ending(t, { policies, cap: { tokens: 0.5 } }, 36)
  t.strictSame(told(await app.inject('/')), [200, '"hour";r=998;t=36, "tokens";r=18;t=36', undefined])
})

t.test('false: whatever there is, is told', async t => {
  const { app } = await ending(t, { policies: { hour }, cap: false }, 1)
  t.strictSame(told(await app.inject('/')), [200, '"hour";r=998;t=1', undefined])
})

t.test('a refusal is not capped', async t => {
  const { app } = await ending(t, { policies: { hour: { ...hour, quota: 1000, cost: 400 } }, cap: 0.001 }, 36)
  await app.inject('/')
  t.strictSame(told(await app.inject('/')), [429, '"hour";r=200;t=36', '36'])
})

t.test(
  'whenever it is asked, a fixed window alone invites to ten times its rate at most, and to one unit at least',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 500 }),
        fc.integer({ min: 61, max: 100_000 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 8 }),
        async (quota, window, fractions) => {
          const ends: (() => unknown)[] = []
          const policies = { only: { quota, window, algorithm: 'fixed-window' } } as const
          const { app, clock } = await start({ teardown: end => ends.push(end) }, { policies })
          for (const fraction of [0, ...fractions.toSorted((a, b) => a - b)]) {
            clock.now = NOON + Math.floor(fraction * window * 1000)
            const [limit] = members((await app.inject('/')).headers['ratelimit'])
            const [r, t] = [Number(limit!['r']), Number(limit!['t'])]
            const left = (await app.quota.peek({ ip: '127.0.0.1' })).limits[0]!
            assert.ok(r * window <= 10 * quota * t, `r=${r};t=${t}`)
            assert.ok(r <= left.remaining && (r > 0 || left.remaining === 0))
            if (r < left.remaining)
              assert.equal(
                r,
                Math.max(1, Math.floor((10 * quota * Math.ceil(left.effectiveWindow / 1000)) / window))
              )
          }
          for (const end of ends) await end()
        }
      ),
      { seed, numRuns: 60 }
    )
  }
)
