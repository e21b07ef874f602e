import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { NOON, start, told } from '../fixtures/wire.js'

const policies: QuotaOptions['policies'] = {
  second: '10/1s',
  hour: { quota: 1000, window: '1h', cost: 300 },
  tokens: { quota: 100, window: '1m', unit: 'tokens', cost: 5 }
}
const POLICIES = '"second";q=10;w=1, "hour";q=1000;w=3600, "tokens";q=100;qu="tokens";w=60'

t.test('all: every policy is told, the closest to exhaustion first', async t => {
  for (const select of ['all', undefined] as const) {
    const { app } = await start(t, { policies, select })
    const response = await app.inject('/')
    t.strictSame(told(response), [
      200,
      '"hour";r=700;t=3600, "second";r=9;t=1, "tokens";r=95;t=60',
      undefined
    ])
    t.equal(response.headers['ratelimit-policy'], POLICIES)
  }
})

t.test('closest: one policy of each unit is told, and all stay offered', async t => {
  const { app, clock } = await start(t, { policies, select: 'closest' })
  const response = await app.inject('/')
  t.strictSame(told(response), [200, '"hour";r=700;t=3600, "tokens";r=95;t=60', undefined])
  t.equal(response.headers['ratelimit-policy'], POLICIES)
  clock.now += 1000
  for (const hour of [400, 100]) {
    t.strictSame(told(await app.inject('/')).slice(0, 1), [200])
    t.equal((await app.quota.peek({ ip: '127.0.0.1' }, ['hour'])).limits[0]!.remaining, hour)
  }
})

t.test('closest: another policy takes its place when it is closer', async t => {
  const { app, clock } = await start(t, { policies: { second: '4/1s', hour: '20/1h' }, select: 'closest' })
  t.strictSame(told(await app.inject('/')), [200, '"second";r=3;t=1', undefined])
  clock.now = NOON + 5000
  for (let i = 0; i < 4; i++) await app.inject('/')
  clock.now = NOON + 10_000
  t.strictSame(told(await app.inject('/')), [200, '"hour";r=14;t=3600', undefined])
})

t.test(
  'closest: of several that refuse, one of each unit is told, all are named, and one wait is enough',
  async t => {
    const { app, clock } = await start(t, {
      policies: { short: '1/10s', long: '1/1m', tokens: { quota: 1, window: 20, unit: 'tokens' } },
      select: 'closest'
    })
    await app.inject('/')
    const refused = await app.inject('/')
    t.strictSame(told(refused), [429, '"long";r=0;t=60, "tokens";r=0;t=20', '60'])
    t.strictSame(refused.json()['violated-policies'], ['long', 'tokens', 'short'])
    clock.now += 60_000
    t.equal((await app.inject('/')).statusCode, 200)
  }
)

t.test('closest: the older forms tell of the same policies', async t => {
  const { app } = await start(t, { policies, select: 'closest', legacy: 'llm' })
  const { headers } = await app.inject('/')
  t.equal(headers['x-ratelimit-limit-requests'], '1000')
  t.equal(headers['x-ratelimit-limit-tokens'], '100')
})
