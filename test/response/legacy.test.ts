import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import type { XRateLimit } from '../../src/index.js'
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
