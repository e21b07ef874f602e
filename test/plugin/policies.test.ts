import t from 'tap'
import { left, leftOf, listed, serve, violated } from './kit.js'

const three = {
  minute: { quota: 5, window: '1m' },
  burst: { quota: 2, window: '10s' },
  day: { quota: 50, window: '1d' }
} as const

t.test('a refusal by one of three policies charges none of the others and names only the one', async t => {
  const { app } = await serve(t, three)
  for (const r of [1, 0]) {
    const served = await app.inject('/')
    t.strictSame(left(served), { burst: r, minute: r + 3, day: r + 48 })
    t.strictSame(listed(served), ['minute', 'burst', 'day'])
  }
  for (let i = 0; i < 5; i++) {
    const refused = await app.inject('/')
    t.equal(refused.statusCode, 429)
    t.strictSame(left(refused), { burst: 0 })
    t.strictSame(violated(refused), ['burst'])
    t.strictSame(listed(refused), ['minute', 'burst', 'day'])
  }
  t.strictSame(await leftOf(app, ['minute', 'burst', 'day']), { minute: 3, burst: 0, day: 48 })
})

t.test('the order of the policies does not change what is charged', async t => {
  const a = { quota: 10, window: '60s' } as const
  const b = { quota: 2, window: '60s' } as const
  for (const policies of [
    { a, b },
    { b, a }
  ]) {
    const { app, statuses } = await serve(t, policies)
    t.strictSame(await statuses(...Array<string>(4).fill('/')), [200, 200, 429, 429])
    t.strictSame(await leftOf(app, ['a', 'b']), { a: 8, b: 0 })
  }
})

t.test('ten requests at the same time are admitted as far as all policies have room', async t => {
  const { app } = await serve(t, { a: '10/1m', b: '2/1m' })
  const responses = await Promise.all(Array.from({ length: 10 }, () => app.inject('/')))
  t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 2)
  t.strictSame(await leftOf(app, ['a', 'b']), { a: 8, b: 0 })
})

t.test('two windows of one client are counted apart, and refusals in neither', async t => {
  const { app, clock, statuses } = await serve(t, { minute: '5/1m', day: '50/1d' })
  t.strictSame(await statuses(...Array<string>(6).fill('/')), [200, 200, 200, 200, 200, 429])
  clock.pass(60_000)
  t.strictSame(await statuses(...Array<string>(6).fill('/')), [200, 200, 200, 200, 200, 429])
  t.strictSame(await leftOf(app, ['day']), { day: 40 })
})

t.test('several policies that refuse are all named', async t => {
  const { app, statuses } = await serve(t, { a: '1/1m', b: '1/1h', c: '9/1m' })
  await statuses('/')
  const refused = await app.inject('/')
  t.strictSame(violated(refused), ['b', 'a'])
  t.strictSame(left(refused), { b: 0, a: 0 })
})

t.test('each client has its own window', async t => {
  const { app, clock } = await serve(t, { each: { quota: 1, window: 10, algorithm: 'fixed-window' } })
  const by = async (remoteAddress: string): Promise<readonly [number, unknown]> => {
    const { statusCode, headers } = await app.inject({ url: '/', remoteAddress })
    return [statusCode, headers['retry-after']]
  }
  t.strictSame(await by('192.0.2.1'), [200, undefined])
  clock.pass(7000)
  t.strictSame(await by('192.0.2.2'), [200, undefined])
  clock.pass(1000)
  t.strictSame(await by('192.0.2.2'), [429, '9'])
  clock.pass(4000)
  t.strictSame(await by('192.0.2.2'), [429, '5'])
  clock.pass(5100)
  t.strictSame(await by('192.0.2.2'), [200, undefined])
})

t.test('refused attempts do not prolong the wait', async t => {
  const { app, clock } = await serve(t, { slow: '10/600s' })
  const admitted: number[] = []
  let wait = 0
  for (let at = 0; at <= 3600; at += 30) {
    const { statusCode, headers } = await app.inject('/')
    if (statusCode === 200) {
      admitted.push(at)
      wait = 0
    } else {
      const told = Number(headers['retry-after'])
      if (wait > 0) t.equal(told, wait - 30, `at ${at} s`)
      wait = told
    }
    clock.pass(30_000)
  }
  t.ok(admitted.length >= 55 && admitted.length <= 70, `${admitted.length} admitted`)
})

t.test('a shadow policy counts and reports, and neither refuses nor shows', async t => {
  const { app } = await serve(t, {
    real: '3/1m',
    trial: { quota: 1, window: '1m', mode: 'shadow' }
  })
  app.get('/seen', async ({ quota }) => quota.shadow)
  const reports: unknown[] = []
  for (let i = 0; i < 3; i++) {
    const response = await app.inject('/seen')
    t.strictSame(listed(response), ['real'])
    t.strictSame(Object.keys(left(response)), ['real'])
    reports.push(response.json())
  }
  t.strictSame(reports, [
    [{ policy: 'trial', wouldRefuse: false }],
    [{ policy: 'trial', wouldRefuse: true }],
    [{ policy: 'trial', wouldRefuse: true }]
  ])
  t.equal((await app.inject('/seen')).statusCode, 429)
})

t.test('a shadow policy is not charged for what others refuse', async t => {
  const { app, clock, statuses } = await serve(t, {
    trial: { quota: 2, window: '1h', mode: 'shadow' },
    real: '1/1m'
  })
  app.get('/seen', async ({ quota }) => quota.shadow[0]?.wouldRefuse)
  t.strictSame(await statuses('/', '/', '/'), [200, 429, 429])
  clock.pass(60_000)
  t.equal((await app.inject('/seen')).json(), false)
  clock.pass(60_000)
  t.equal((await app.inject('/seen')).json(), true)
})

t.test('shadow policies alone send no fields', async t => {
  const { app } = await serve(t, { trial: { quota: 0, window: '1m', mode: 'shadow' } })
  const { statusCode, headers } = await app.inject('/')
  t.equal(statusCode, 200)
  t.notOk('ratelimit' in headers || 'ratelimit-policy' in headers)
})

t.test('a request is exempt from the policies whose function says true, and from no other', async t => {
  const { app } = await serve(t, {
    some: { quota: 1, window: '1m', exempt: ({ headers }) => headers['x-probe'] === 'yes' },
    all: '3/1m'
  })
  app.get('/seen', async ({ quota }) => [quota.outcome, ...quota.exempt])
  const exempt = await app.inject({ url: '/seen', headers: { 'x-probe': 'yes' } })
  t.strictSame(exempt.json(), ['allowed', 'some'])
  t.strictSame(left(exempt), { all: 2 })
  t.strictSame(listed(exempt), ['some', 'all'])
  t.strictSame((await app.inject('/seen')).json(), ['allowed'])
  t.equal((await app.inject('/seen')).statusCode, 429)
  t.equal((await app.inject({ url: '/seen', headers: { 'x-probe': 'yes' } })).statusCode, 200)
  t.strictSame(await leftOf(app, ['some', 'all']), { some: 0, all: 0 })
})

t.test('a request that is exempt from all policies costs nothing and has no fields', async t => {
  const { app, statuses } = await serve(t, { one: { quota: 1, window: '1m', exempt: () => true } })
  t.strictSame(await statuses('/', '/', '/'), [200, 200, 200])
  const { headers } = await app.inject('/')
  t.notOk('ratelimit' in headers || 'ratelimit-policy' in headers)
  t.strictSame(await leftOf(app, ['one']), { one: 1 })
})

t.test('exempt means true and nothing else; what fails is logged once and exempts nobody', async t => {
  const wrong: readonly (() => unknown)[] = [
    () => 1,
    () => 'true',
    () => ({}),
    () => Promise.resolve(true),
    () => Promise.reject(new Error('of a promise')),
    () => {
      throw new Error('of the function')
    }
  ]
  for (const exempt of wrong) {
    const { errors, statuses } = await serve(t, { one: { quota: 1, window: '1m', exempt: exempt as never } })
    t.strictSame(await statuses('/', '/', '/'), [200, 429, 429])
    t.strictSame(
      errors.map(({ option }) => option),
      ['exempt of policy "one"']
    )
  }
  for (const answer of [undefined, null, false]) {
    const exempt = (): never => answer as never
    const { errors, statuses } = await serve(t, { one: { quota: 1, window: '1m', exempt } })
    t.strictSame(await statuses('/', '/'), [200, 429])
    t.strictSame(errors, [])
  }
})

t.test('a quota of 0 refuses everything, and nobody is told to wait', async t => {
  const { app } = await serve(t, { none: '0/1m', some: '5/1m' })
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.notOk('retry-after' in refused.headers)
  t.equal(refused.headers['ratelimit'], '"none";r=0')
  t.strictSame(await leftOf(app, ['some']), { some: 5 })
})

t.test('a server counts apart from another one with policies of the same names', async t => {
  const one = await serve(t, { same: '1/1m' })
  const two = await serve(t, { same: '1/1m' })
  t.strictSame(await one.statuses('/', '/'), [200, 429])
  t.strictSame(await two.statuses('/', '/'), [200, 429])
})

t.test('each refusal is told, once and with its decision', async t => {
  const told: unknown[] = []
  const { app, statuses } = await serve(t, {
    policies: { first: { quota: 9, window: '1m', hook: 'onRequest' }, one: '1/1m' },
    onRefused: ({ outcome, limits }, { url }) => {
      told.push([url, outcome, limits.map(({ policy, remaining }) => [policy.name, remaining])])
    }
  })
  t.strictSame(await statuses('/', '/'), [200, 429])
  const given = [
    ['first', 8],
    ['one', 0]
  ]
  t.strictSame(told, [['/', 'refused', given]])
  t.strictSame(await leftOf(app, ['first']), { first: 8 })
})

t.test('who is told of a refusal cannot prevent it, and is not waited for', async t => {
  for (const onRefused of [
    () => {
      throw new Error('not now')
    },
    async () => Promise.reject(new Error('not later')),
    () => new Promise<void>(() => {})
  ]) {
    const { errors, statuses } = await serve(t, { policies: { none: '0/1m' }, onRefused: onRefused as never })
    t.strictSame(await statuses('/', '/'), [429, 429])
    t.ok(errors.every(({ option }) => option === 'onRefused') && errors.length <= 1)
  }
})
