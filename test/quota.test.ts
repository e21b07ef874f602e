import t from 'tap'
import quota, { allOf, firstOf } from '../src/index.js'
import type { Decision, QuotaOptions, Subject } from '../src/index.js'
import { LaterStore, bare, left, leftOf, listed, serve, violated } from './plugin/kit.js'

const options: QuotaOptions = {
  identify: {
    user: async ({ headers }) => headers['x-user'] as string,
    tenant: ({ headers }) => headers['x-tenant'] as string
  },
  policies: {
    any: '9/1m',
    mine: { quota: 5, window: '1m', partition: 'user', default: false },
    either: { quota: 5, window: '1m', partition: firstOf('user', 'ip'), default: false },
    both: { quota: 5, window: '1m', partition: allOf('tenant', 'user'), default: false },
    each: { quota: 5, window: '1m', partition: 'route', default: false },
    all: { quota: 5, window: '1m', partition: 'global', default: false }
  }
}

const amounts = ({ limits }: Decision): Readonly<Record<string, number>> =>
  Object.fromEntries(limits.map(({ policy, remaining }) => [policy.name, remaining]))

t.test('consume charges several policies in one decision, in the order asked for', async t => {
  const { app } = await serve(t, options)
  const decision = await app.quota.consume({ ip: '192.0.2.1', user: '42' }, { mine: 2, any: 3, all: 1 })
  t.equal(decision.outcome, 'allowed')
  t.equal(decision.source, 'memory')
  t.strictSame(amounts(decision), { mine: 3, any: 6, all: 4 })
  t.strictSame(
    decision.limits.map(({ units }) => units),
    [2, 3, 1]
  )
})

t.test('consume charges all or none', async t => {
  const { app } = await serve(t, options)
  const subject = { ip: '192.0.2.1', user: '42' }
  const decision = await app.quota.consume(subject, { any: 3, mine: 6 })
  t.equal(decision.outcome, 'refused')
  t.strictSame(
    decision.limits.map(({ allowed }) => allowed),
    [true, false]
  )
  t.strictSame(amounts(await app.quota.peek(subject, ['any', 'mine'])), { any: 9, mine: 5 })
})

t.test('a subject by hand and the request it stands for have the same quota', async t => {
  const { app } = await serve(t, options)
  app.get('/spend/:id', { config: { quota: ['mine', 'either', 'both', 'each', 'all'] } }, async () => 'spent')
  await app.inject({ url: '/spend/1', headers: { 'x-user': '42', 'x-tenant': 'acme' } })
  for (const route of ['GET /spend/:id', 'HEAD /spend/:id']) {
    const subject = { user: '42', tenant: 'acme', route }
    t.strictSame(amounts(await app.quota.peek(subject, ['mine', 'either', 'both', 'each', 'all'])), {
      mine: 4,
      either: 4,
      both: 4,
      each: 4,
      all: 4
    })
  }
  await app.inject('/spend/1')
  t.strictSame(await leftOf(app, ['either'], { ip: '127.0.0.1' }), { either: 4 })
  t.strictSame(await leftOf(app, ['mine'], { ip: '::ffff:127.0.0.1' }), { mine: 4 })
})

t.test('unmatched requests are the route 404', async t => {
  const { app } = await serve(t, { each: { quota: 5, window: '1m', partition: 'route' } })
  await app.inject('/nowhere')
  t.strictSame(await leftOf(app, ['each'], { route: '404' }), { each: 4 })
})

t.test('a request is a subject, its identities asked for and waited for', async t => {
  const { app } = await serve(t, options)
  app.get('/more', async request => {
    const { limits } = await request.server.quota.consume(request, { mine: 1, each: 2, any: 1 })
    return limits.map(({ remaining }) => remaining)
  })
  const response = await app.inject({ url: '/more', headers: { 'x-user': '42' } })
  t.strictSame(response.json(), [4, 3, 7])
  t.strictSame(await leftOf(app, ['mine', 'each'], { user: '42', route: 'GET /more' }), { mine: 4, each: 3 })
})

t.test('peek changes nothing, and without policies it is about the default ones', async t => {
  const { app } = await serve(t, options)
  for (let i = 0; i < 3; i++) {
    const decision = await app.quota.peek({ ip: '192.0.2.1' })
    t.strictSame(amounts(decision), { any: 9 })
    t.equal(decision.outcome, 'allowed')
    t.strictSame(
      decision.limits.map(({ units }) => units),
      [0]
    )
  }
})

t.test('reset forgets what was spent: by the policies named, else by the default ones', async t => {
  const { app } = await serve(t, options)
  const subject = { ip: '192.0.2.1', user: '42' }
  await app.quota.consume(subject, { any: 9, mine: 5 })
  await app.quota.consume({ user: '43' }, { mine: 5 })
  await app.quota.reset(subject)
  t.strictSame(amounts(await app.quota.peek(subject, ['any', 'mine'])), { any: 9, mine: 0 })
  await app.quota.reset(subject, ['mine'])
  t.strictSame(amounts(await app.quota.peek(subject, ['mine'])), { mine: 5 })
  t.strictSame(amounts(await app.quota.peek({ user: '43' }, ['mine'])), { mine: 0 }, 'only of that subject')
  await app.quota.reset({ ip: '192.0.2.99' })
})

t.test('units of 0 are legal and charge nothing', async t => {
  const { app } = await serve(t, options)
  t.strictSame(amounts(await app.quota.consume({ ip: '192.0.2.1' }, { any: 0 })), { any: 9 })
})

t.test('a policy that nobody has defined is refused, with the name that was meant', async t => {
  const { app } = await serve(t, options)
  const subject = { ip: '192.0.2.1' }
  const expected = { code: 'FST_QUOTA_POLICY', message: /"anny"; did you mean "any"\?/ }
  await t.rejects(app.quota.consume(subject, { anny: 1 }), expected)
  await t.rejects(app.quota.peek(subject, ['anny']), expected)
  await t.rejects(app.quota.reset(subject, ['anny']), expected)
  await t.rejects(app.quota.peek(subject, ['something']), { code: 'FST_QUOTA_POLICY' })
  await t.rejects(app.quota.consume(subject, { any: 1, anny: 1 }), expected)
  t.strictSame(await leftOf(app, ['any'], subject), { any: 9 })
})

t.test('a subject has no identities but those that are defined', async t => {
  const { app } = await serve(t, options)
  const code = 'FST_QUOTA_SUBJECT'
  await t.rejects(app.quota.peek({ usr: '42' }), { code, message: /"usr"; did you mean "user"\?/ })
  await t.rejects(app.quota.peek({ customer: '42' }), { code, message: /expected ip, route, user, tenant/ })
})

t.test('a subject needs what its policies count by, and no secret of it is told', async t => {
  const { app } = await serve(t, options)
  const code = 'FST_QUOTA_SUBJECT'
  for (const [subject, policy, missing] of [
    [{ user: 'secret' }, 'any', 'ip'],
    [{ tenant: 'secret' }, 'mine', 'ip'],
    [{ tenant: 'secret', user: '' }, 'mine', 'ip'],
    [{ tenant: 'secret' }, 'both', 'ip'],
    [{ user: 'secret' }, 'each', 'route'],
    [{ ip: '' }, 'any', 'ip']
  ] as const) {
    const message = new RegExp(`needs "${missing}"`)
    const error: unknown = await app.quota.peek(subject, [policy]).catch((reason: unknown) => reason)
    t.match(error, { code, message })
    t.notMatch((error as Error).message, /secret/)
  }
  await t.rejects(app.quota.peek({}, ['any']), { code, message: /got nothing/ })
})

t.test('what is no identity and no address is refused, not counted as something else', async t => {
  const { app } = await serve(t, options)
  const code = 'FST_QUOTA_SUBJECT'
  await t.rejects(app.quota.peek({ ip: 'localhost' }), { code, message: /ip is no address/ })
  await t.rejects(app.quota.peek({ ip: 4 } as unknown as Subject), { code })
  for (const user of [{}, [], NaN, true]) {
    await t.rejects(app.quota.peek({ user } as unknown as Subject, ['mine']), {
      code,
      message: /identity "user" of a subject/
    })
  }
})

t.test('units are integers of 0 or more', async t => {
  const { app } = await serve(t, options)
  for (const units of [-1, 1.5, NaN, Infinity, 2 ** 53, '1', null]) {
    await t.rejects(app.quota.consume({ ip: '192.0.2.1' }, { any: units as number }), {
      code: 'FST_QUOTA_OPTION',
      message: /units of policy "any" must be an integer from 0/
    })
  }
})

t.test('errors of a caller are rejections, never thrown', async t => {
  const { app } = await serve(t, options)
  const call = app.quota.consume({ nobody: '' }, { any: 1 })
  t.ok(call instanceof Promise)
  await t.rejects(call)
})

t.test('names of what every object has are no identities', async t => {
  const { app } = await serve(t, {
    identify: { constructor: () => '1' },
    policies: { any: { quota: 1, window: '1m', partition: 'constructor' } }
  })
  await t.rejects(app.quota.peek({}), { code: 'FST_QUOTA_SUBJECT' })
  t.strictSame(amounts(await app.quota.peek({ constructor: '1' })), { any: 1 })
})

t.test('a store that answers later is waited for', async t => {
  const { app, clock } = bare(t)
  await app.register(quota, { ...options, store: new LaterStore(clock.read) })
  const subject = { ip: '192.0.2.1' }
  t.strictSame(amounts(await app.quota.consume(subject, { any: 4 })), { any: 5 })
  await app.quota.reset(subject)
  t.strictSame(amounts(await app.quota.peek(subject)), { any: 9 })
})

t.test('reply.refuse answers as the hook does', async t => {
  const { app } = await serve(t, { any: '9/1m', logins: { quota: 1, window: '1m', default: false } })
  app.get('/by-hook', { config: { quota: ['logins'] } }, async () => 'in')
  app.get('/by-hand', { config: { quota: false } }, async (request, reply) => {
    const decision = await app.quota.consume(request, { logins: 1 })
    return decision.outcome === 'refused' ? reply.refuse(decision) : 'in'
  })
  t.equal((await app.inject('/by-hand')).body, 'in')
  const hand = await app.inject('/by-hand')
  const hook = await app.inject('/by-hook')
  t.equal(hand.statusCode, 429)
  t.equal(hand.body, hook.body)
  t.strictSame({ ...hand.headers, date: '' }, { ...hook.headers, date: '' })
  t.strictSame(violated(hand), ['logins'])
})

t.test('a policy of another route that refuses joins the policies of the route', async t => {
  const { app } = await serve(t, { any: '9/1m', logins: { quota: 0, window: '1m', default: false } })
  app.get('/by-hand', async (request, reply) => reply.refuse(await app.quota.consume(request, { logins: 1 })))
  app.get('/own', async (request, reply) => reply.refuse(await app.quota.consume(request, { any: 10 })))
  const joined = await app.inject('/by-hand')
  t.strictSame(listed(joined), ['any', 'logins'])
  t.strictSame(left(joined), { logins: 0 })
  const own = await app.inject('/own')
  t.strictSame(listed(own), ['any'])
  t.strictSame(violated(own), ['any'])
})

t.test('the status of a refusal by hand is that of its policies', async t => {
  const { app } = await serve(t, {
    any: '9/1m',
    busy: { quota: 0, window: '1m', status: 503, default: false }
  })
  app.get('/busy', async (request, reply) => reply.refuse(await app.quota.consume(request, { busy: 1 })))
  t.equal((await app.inject('/busy')).statusCode, 503)
})

t.test('only what is refused can be refused', async t => {
  const { app } = await serve(t, { any: '9/1m' })
  app.get('/allowed', async (request, reply) => reply.refuse(request.quota))
  app.get('/none', { config: { quota: false } }, async (request, reply) => reply.refuse(request.quota))
  for (const [url, outcome] of [
    ['/allowed', 'allowed'],
    ['/none', 'none']
  ]) {
    const response = await app.inject(url!)
    t.equal(response.statusCode, 500)
    t.match(response.json(), { code: 'FST_QUOTA_OPTION', message: new RegExp(`got one that is ${outcome}`) })
  }
})

t.test('what is no decision cannot be refused', async t => {
  const { app } = await serve(t, { any: '9/1m' })
  const table: string[] = []
  for (const [url, decision] of [
    ['/nothing', undefined],
    ['/half', { outcome: 'refused' }]
  ] as const) {
    app.get(url, async (_request, reply) => reply.refuse(decision as never))
    table.push(url)
  }
  for (const url of table) {
    const response = await app.inject(url)
    t.match(response.json(), { statusCode: 500, code: 'FST_QUOTA_OPTION' }, url)
  }
})

t.test('a call that charges nothing, or names policies by anything but a list, is refused', async t => {
  const { app } = await serve(t, { any: '9/1m' })
  await app.ready()
  const { consume, peek, reset } = app.quota as unknown as Record<
    string,
    (...given: unknown[]) => Promise<unknown>
  >
  const subject = { ip: '203.0.113.9' }
  const calls: readonly (readonly [call: Promise<unknown>, code: string, message: RegExp])[] = [
    [consume!(subject), 'FST_QUOTA_OPTION', /charges of consume must be an object, got undefined/],
    [consume!(subject, 1), 'FST_QUOTA_OPTION', /charges of consume must be an object, got 1/],
    [consume!(subject, ['any']), 'FST_QUOTA_OPTION', /charges of consume must be an object, got \["any"\]/],
    [consume!(subject, {}), 'FST_QUOTA_OPTION', /at least one policy, such as \{ daily: 1 \}, got \{\}/],
    [
      peek!(subject, 'any'),
      'FST_QUOTA_OPTION',
      /peek takes a list of policy names, such as \['daily'\], got "any"/
    ],
    [reset!(subject, null), 'FST_QUOTA_OPTION', /reset takes a list of policy names/],
    [peek!(subject, [1]), 'FST_QUOTA_OPTION', /peek takes a list of policy names/],
    [
      peek!(undefined),
      'FST_QUOTA_SUBJECT',
      /a subject is a request, or identities such as \{ user: '42' \}, got undefined/
    ],
    [peek!('alice'), 'FST_QUOTA_SUBJECT', /a subject is a request, or identities/],
    [consume!(null, { any: 1 }), 'FST_QUOTA_SUBJECT', /got null/]
  ]
  for (const [call, code, message] of calls) await t.rejects(call, { code, message })
})

t.test('places are reserved, not consumed, and released, not settled', async t => {
  const { app } = await serve(t, { places: { quota: 2, algorithm: 'concurrency' } })
  await app.ready()
  const subject = { ip: '203.0.113.9' }
  await t.rejects(app.quota.consume(subject, { places: 1 }), {
    code: 'FST_QUOTA_OPTION',
    message: 'policy "places" counts what runs at once, so its places are reserved, not consumed'
  })
  const reservation = await app.quota.reserve(subject, 'places', 2)
  await t.rejects(reservation.settle(1), {
    code: 'FST_QUOTA_OPTION',
    message: 'places of policy "places" are released, not settled, got 1'
  })
  await reservation.release()
  t.equal((await app.quota.peek(subject)).limits[0]!.remaining, 2)
})

t.test('a request in a child scope has the default policies of that scope', async t => {
  const { app } = await serve(t, { outer: '9/1m' })
  const { quota: plugin } = await import('../src/index.js')
  await app.register(async child => {
    await child.register(plugin, { policies: { inner: '9/1m' } })
    child.get('/inner', async request =>
      (await app.quota.peek(request)).limits.map(limit => limit.policy.name)
    )
  })
  t.strictSame((await app.inject('/inner')).json(), ['outer', 'inner'])
  t.strictSame(
    (await app.quota.peek({ ip: '203.0.113.9' })).limits.map(limit => limit.policy.name),
    ['outer']
  )
})

t.test('routes tells what is decided, with defaults, costs and names in place', async t => {
  const { app } = await serve(t, options)
  const cost = (): number => 2
  app.get('/free', { config: { quota: false } }, async () => '')
  app.post('/two', { config: { quota: { policies: ['either'], cost, hook: 'preHandler' } } }, async () => '')
  await app.ready()
  const { complete, routes } = app.quota.routes()
  t.equal(complete, true)
  const told = Object.fromEntries(routes.map(({ route, policies }) => [route, policies]))
  t.strictSame(told['GET /free'], [])
  t.strictSame(told['POST /two'], [
    {
      name: 'either',
      quota: 5,
      window: 60_000,
      algorithm: 'sliding-window',
      mode: 'enforce',
      unit: 'requests',
      partition: 'firstOf(user, ip)',
      hook: 'preHandler',
      cost
    }
  ])
  t.strictSame(
    told['HEAD /']?.map(({ name }) => name),
    ['any']
  )
})
