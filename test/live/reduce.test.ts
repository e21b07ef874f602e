import t from 'tap'
import type { Test } from 'tap'
import { NEVER, UNKNOWN } from '../../src/index.js'
import type { QuotaOptions, ReduceOptions } from '../../src/index.js'
import { acting, left, leftOf, ready, serve } from '../plugin/kit.js'
import type { Server } from '../plugin/kit.js'

async function serving(t: Test, policies: QuotaOptions['policies']): Promise<Server> {
  const server = await serve(t, policies)
  await ready(server.app)
  return server
}

const half: ReduceOptions = { factor: 0.5, for: '10s', reason: 'maintenance' }

t.test('a reduction lowers what is enforced and told, until its time is over', async t => {
  const { app, clock, statuses } = await serving(t, { any: '6/1m' })
  const reduction = app.quota.reduce(half)
  t.equal(reduction.active, true)
  t.match((await app.inject('/')).headers, {
    'ratelimit-policy': '"any";q=3;w=60',
    ratelimit: '"any";r=2;t=60'
  })
  t.strictSame(await statuses('/', '/', '/'), [200, 200, 429])
  clock.pass(9_999)
  t.strictSame(await statuses('/'), [429])
  clock.pass(1)
  const response = await app.inject('/')
  t.match(response.headers['ratelimit-policy'], '"any";q=6;w=60')
  t.strictSame(left(response), { any: 2 }, 'as if it had never been')
  t.equal(reduction.active, false)
  t.match(app.quota.routes().routes, [{ policies: [{ quota: 6 }] }])
})

t.test('whoever looks first finds the end of a reduction', async t => {
  const { app, clock } = await serving(t, { any: '6/1m' })
  app.quota.reduce(half)
  t.match(app.quota.routes().routes[0], { policies: [{ quota: 3 }] })
  t.strictSame(await leftOf(app, ['any']), { any: 3 })
  clock.pass(10_000)
  t.match(app.quota.routes().routes[0], { policies: [{ quota: 6 }] })
  app.quota.reduce(half)
  clock.pass(10_000)
  t.strictSame(await leftOf(app, ['any']), { any: 6 })
})

t.test('a reduction can be ended before, once', async t => {
  const { app, statuses } = await serving(t, { any: '2/1m' })
  const reduction = app.quota.reduce(half)
  t.strictSame(await statuses('/', '/'), [200, 429])
  reduction.end()
  t.equal(reduction.active, false)
  t.strictSame(await statuses('/', '/'), [200, 429])
  reduction.end()
  t.strictSame(await statuses('/'), [429])
})

t.test('of several reductions the strictest holds, and those that are left after it', async t => {
  const { app, clock } = await serving(t, { any: '100/1m' })
  const told = async (): Promise<unknown> => (await app.inject('/')).headers['ratelimit-policy']
  app.quota.reduce({ ...half, for: '30s' })
  const strict = app.quota.reduce({ ...half, factor: 0.1, for: '20s' })
  app.quota.reduce({ ...half, factor: 0.8, for: '1h' })
  t.equal(await told(), '"any";q=10;w=60')
  strict.end()
  t.equal(await told(), '"any";q=50;w=60')
  clock.pass(30_000)
  t.equal(await told(), '"any";q=80;w=60')
  clock.pass(3_570_000)
  t.equal(await told(), '"any";q=100;w=60')
})

t.test('parts are rounded down, to no less than 1, and 0 stays 0', async t => {
  const { app } = await serve(t, {
    hundred: '100/1m',
    three: { quota: 3, window: '1m', default: false },
    none: { quota: 0, window: '1m', default: false },
    bucket: { quota: 60, window: '1m', algorithm: 'token-bucket', burst: 7, default: false },
    plan: { quota: () => 9, window: '1m', default: false },
    slots: { quota: 5, algorithm: 'concurrency', default: false }
  })
  const act = acting(app, ['plan'])
  await ready(app)
  app.quota.reduce({ ...half, factor: 0.29 })
  t.strictSame(await leftOf(app, ['hundred', 'three', 'none', 'bucket', 'slots']), {
    hundred: 29,
    three: 1,
    none: 0,
    bucket: 2,
    slots: 1
  })
  t.match((await act(() => '')).headers['ratelimit-policy'], '"plan";q=2;w=60')
})

t.test('only the policies that are named are reduced', async t => {
  const { app } = await serving(t, { any: '8/1m', other: '8/2m' })
  app.quota.reduce({ ...half, policies: ['other'] })
  t.match((await app.inject('/')).headers['ratelimit-policy'], '"any";q=8;w=60, "other";q=4;w=120')
})

t.test('a refusal says why, as a quota exceeded or as capacity reduced', async t => {
  const { app } = await serve(t, {
    any: { quota: 2, window: '1m', default: false },
    capacity: { quota: 2, window: '1m', status: 503, default: false }
  })
  const exceeded = acting(app, ['any'])
  app.quota.reduce(half)
  await exceeded(() => '')
  const refused = await exceeded(() => '')
  t.equal(refused.statusCode, 429)
  t.match(refused.json(), {
    type: /#quota-exceeded$/,
    detail:
      'Quota "any" for now allows only 1 request per minute (maintenance) and is used up. Try again in 60 seconds.'
  })
  const subject = { ip: '127.0.0.1' }
  await app.quota.consume(subject, { capacity: 1 })
  const decision = await app.quota.consume(subject, { capacity: 1 })
  t.match(decision.limits[0]?.policy.reduction, { factor: 0.5, reason: 'maintenance', capacity: 2 })
  const busy = await exceeded((_request, reply) => reply.refuse(decision), { remoteAddress: '192.0.2.1' })
  t.equal(busy.statusCode, 503)
  t.match(busy.json(), { type: /#temporary-reduced-capacity$/, detail: /\(maintenance\)/ })
})

t.test('what only the reduced quota cannot hold is not refused for ever', async t => {
  const { app } = await serve(t, { any: '6/1m' })
  const waits = async (units: number): Promise<unknown> =>
    (await app.quota.consume({ ip: '127.0.0.1' }, { any: units })).limits[0]?.retryAfter
  app.quota.reduce(half)
  t.equal(await waits(4), UNKNOWN)
  t.equal(await waits(7), NEVER)
  app.get('/dear', { config: { quota: { cost: 4 } } }, async () => '')
  const refused = await app.inject('/dear')
  t.equal(refused.headers['retry-after'], undefined)
  t.match(refused.json(), { detail: /has less left than this request costs\. Try again later\.$/ })
})

t.test('an update during a reduction is reduced too, and whole after it', async t => {
  const { app, clock } = await serving(t, { any: '6/1m' })
  app.quota.reduce(half)
  app.quota.update({ policies: { any: { quota: 20 } } })
  t.match((await app.inject('/')).headers['ratelimit-policy'], '"any";q=10;w=60')
  clock.pass(10_000)
  t.match((await app.inject('/')).headers['ratelimit-policy'], '"any";q=20;w=60')
})

t.test('a wrong reduction changes nothing, and says what is wrong', async t => {
  const { app } = await serving(t, { any: '6/1m' })
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [undefined, 'options must be an object, got undefined'],
    [{ ...half, factor: 0 }, 'factor must be a number above 0 and at most 1, got 0'],
    [{ ...half, factor: 1.1 }, 'factor must be a number above 0 and at most 1, got 1.1'],
    [{ ...half, factor: Number.NaN }, 'factor must be a number above 0 and at most 1, got NaN'],
    [{ ...half, factor: '0.5' }, 'factor must be a number above 0 and at most 1, got "0.5"'],
    [
      { ...half, reason: '' },
      'reason must be 1 to 200 characters on one line, which clients are told, got ""'
    ],
    [
      { ...half, reason: 'a\nb' },
      'reason must be 1 to 200 characters on one line, which clients are told, got "a\\nb"'
    ],
    [{ ...half, policies: [] }, "policies must be a list of policy names, such as ['daily'], got []"],
    [{ ...half, policies: 'any' }, `policies must be a list of policy names, such as ['daily'], got "any"`],
    [{ ...half, policies: ['anny'] }, 'policies names "anny", which is no policy; did you mean "any"?'],
    [
      { ...half, policies: ['any', undefined] },
      'policies names undefined, which is no policy; expected "any"'
    ],
    [
      { ...half, policies: [undefined, 'any'] },
      'policies names undefined, which is no policy; expected "any"'
    ],
    [{ ...half, policies: ['other'] }, 'policies names "other", which is no policy; expected "any"'],
    [{ ...half, until: 5 }, 'unknown option "until" with the value 5; expected factor, for, reason, policies']
  ]
  for (const [written, message] of table) {
    t.throws(() => app.quota.reduce(written as ReduceOptions), {
      code: 'FST_QUOTA_OPTION',
      message: `app.quota.reduce: ${message}`
    })
  }
  t.throws(() => app.quota.reduce({ ...half, for: '10 s' }), {
    message: /^app\.quota\.reduce: for must be/
  })
  t.strictSame(await leftOf(app, ['any']), { any: 6 })
})
