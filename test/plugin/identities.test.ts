import { request as get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { allOf, firstOf } from '../../src/index.js'
import type { Identify, PolicyOptions, QuotaOptions } from '../../src/index.js'
import { leftOf, serve, stopProcessTime, watchWarnings } from './kit.js'

const one = { quota: 1, window: '1m' } as const satisfies PolicyOptions
const user: Identify = ({ headers }) => headers['x-user'] as string | undefined
const as = (name: string, remoteAddress = '192.0.2.1'): object => ({
  url: '/',
  remoteAddress,
  headers: { 'x-user': name }
})

/** Policies by user. */
const byUser = (identify: Identify): QuotaOptions => ({
  identify: { user: identify },
  policies: { mine: { ...one, partition: 'user' } }
})

t.test('an identity has one quota, wherever it comes from', async t => {
  for (const identify of [user, async request => user(request)] as Identify[]) {
    const { statuses } = await serve(t, byUser(identify))
    t.strictSame(
      await statuses(as('a', '192.0.2.1'), as('a', '192.0.2.2'), as('b', '192.0.2.1')),
      [200, 429, 200]
    )
  }
})

t.test('an empty identity counts by address, never all nameless together', async t => {
  for (const nobody of [undefined, null, '']) {
    for (const identify of [() => nobody, async () => nobody] as Identify[]) {
      const { errors, statuses } = await serve(t, byUser(identify))
      t.strictSame(
        await statuses(as('', '192.0.2.1'), as('', '192.0.2.2'), as('', '192.0.2.1')),
        [200, 200, 429]
      )
      t.strictSame(errors, [])
    }
  }
})

t.test('0 is an identity, of a number and of a text', async t => {
  const { app, statuses } = await serve(
    t,
    byUser(({ headers }) => (headers['x-user'] === 'n' ? 0 : 1n))
  )
  t.strictSame(await statuses(as('n'), as('n', '192.0.2.2'), as('x')), [200, 429, 200])
  t.strictSame(await leftOf(app, ['mine'], { user: '0' }), { mine: 0 })
})

const nonsense: Readonly<Record<string, Identify>> = {
  NaN: () => NaN,
  'an object': () => ({}) as never,
  'a list': () => [] as never,
  'a symbol': () => Symbol('user') as never,
  true: () => true as never,
  false: () => false as never,
  'a promise of an object': async () => ({}) as never,
  'an error': () => {
    throw new Error('who?')
  },
  'a rejection': async () => {
    throw new Error('who, later?')
  }
}

for (const [what, identify] of Object.entries(nonsense)) {
  t.test(`an identity that is ${what} counts by address and is logged once a minute`, async t => {
    const process = stopProcessTime(t)
    const { errors, statuses } = await serve(t, byUser(identify))
    t.strictSame(
      await statuses(as('a', '192.0.2.1'), as('b', '192.0.2.2'), as('c', '192.0.2.1')),
      [200, 200, 429]
    )
    t.strictSame(
      errors.map(({ option }) => option),
      ['identify.user']
    )
    process.pass(60_000)
    await statuses(as('d', '192.0.2.3'))
    t.equal(errors.length, 2)
  })
}

t.test('a function is asked once for a request, however many policies count by it', async t => {
  let asked = 0
  const identify: Identify = async request => {
    asked++
    return user(request)
  }
  const mine = { quota: 9, window: '1m', partition: 'user' } as const
  const { statuses } = await serve(t, {
    identify: { user: identify, unused: () => t.fail('nobody counts by it') as never },
    policies: {
      a: mine,
      b: { ...mine, partition: firstOf('user', 'ip') },
      c: { ...mine, hook: 'preHandler' }
    }
  })
  await statuses(as('a'))
  t.equal(asked, 1)
})

t.test('an identity that is known only after the decision is warned of once', async t => {
  const { heard } = watchWarnings(t)
  const { app, statuses } = await serve(t, {
    identify: { early: user, late: request => Object(request).late },
    policies: { a: { ...one, quota: 9, partition: allOf('early', 'late') } }
  })
  app.decorateRequest('late', null)
  app.addHook('preHandler', async request => {
    if (request.headers['x-user'] === 'late') Object.assign(request, { late: 'known' })
  })
  await statuses(as('late'), as('late'))
  const [warning, ...others] = await heard()
  t.match(warning, { code: 'FST_QUOTA_LATE_IDENTITY', message: /"late".*`hook`/ })
  t.strictSame(others, [])
})

t.test('nameless requests are asked for their name again once a second at most', async t => {
  const process = stopProcessTime(t)
  const { heard } = watchWarnings(t)
  let asked = 0
  const identify = (): undefined => void asked++
  const { statuses } = await serve(t, {
    identify: { user: identify },
    policies: { mine: { quota: 99, window: '1m', partition: 'user' } }
  })
  await statuses(as('a'), as('a'), as('a'))
  t.equal(asked, 4)
  process.pass(1000)
  await statuses(as('a'), as('a'))
  t.equal(asked, 7)
  t.strictSame(await heard(), [])
})

t.test('IPv6 clients count by network, mapped and NAT64 addresses as the IPv4 ones they are', async t => {
  const { statuses } = await serve(t, { any: one })
  const from = (...addresses: readonly string[]): Promise<readonly number[]> =>
    statuses(...addresses.map(remoteAddress => ({ url: '/', remoteAddress })))
  t.strictSame(await from('2001:db8::1', '2001:db8::ffff:2', '2001:db8:0:1::1'), [200, 429, 200])
  t.strictSame(await from('::ffff:192.0.2.1', '192.0.2.1', '64:ff9b::c000:201'), [200, 429, 429])
})

t.test('a client is the address that Fastify trusts, without port and brackets', async t => {
  const two = { quota: 2, window: '60s' } as const
  for (const [peer, left] of [
    ['10.0.0.1', { '203.0.113.9': 0, '10.0.0.1': 2 }],
    ['198.51.100.20', { '203.0.113.9': 2, '198.51.100.20': 0 }]
  ] as const) {
    const { app, statuses } = await serve(t, { any: two }, { trustProxy: '10.0.0.0/8' })
    const chain = (n: number): object => ({
      url: '/',
      remoteAddress: peer,
      headers: { 'x-forwarded-for': `6.6.6.${n}, 203.0.113.9` }
    })
    t.strictSame(await statuses(chain(1), chain(2), chain(3), chain(4)), [200, 200, 429, 429])
    for (const [ip, any] of Object.entries(left)) t.strictSame(await leftOf(app, ['any'], { ip }), { any })
  }

  const { statuses } = await serve(t, { any: one }, { trustProxy: '10.0.0.0/8' })
  const forwarded = (address: string): object => ({
    url: '/',
    remoteAddress: '10.0.0.1',
    headers: { 'x-forwarded-for': address }
  })
  t.strictSame(await statuses(forwarded('203.0.113.9:50001'), forwarded('203.0.113.9:50002')), [200, 429])
  t.strictSame(
    await statuses(forwarded('[2001:db8::1]:443'), forwarded('[2001:db8::1]:444'), forwarded('2001:db8::1')),
    [200, 429, 429]
  )
})

t.test('forwarded headers that nobody trusts are warned of once', async t => {
  for (const trustProxy of [false, 1, '10.9.9.9'] as const) {
    const { heard } = watchWarnings(t)
    const { statuses } = await serve(t, { any: one }, { trustProxy: trustProxy as boolean })
    const via = (client: string): object => ({
      url: '/',
      remoteAddress: '10.0.0.1',
      headers: { 'x-forwarded-for': client }
    })
    t.strictSame(await statuses(via('203.0.113.1'), via('203.0.113.9')), [200, 429])
    t.match(await heard(), [{ code: 'FST_QUOTA_FORWARDED', message: /X-Forwarded-For.*trustProxy/ }])
  }
})

t.test('a trustProxy that knows no more addresses is no fault of a request', async t => {
  const trustProxy = (_address: string, hop: number): boolean => {
    if (hop > 3) throw new RangeError('no such hop')
    return true
  }
  const { app } = await serve(t, { any: '9/1m' }, { trustProxy })
  const answer = await app.inject({ url: '/', headers: { 'x-forwarded-for': '203.0.113.9' } })
  t.equal(answer.statusCode, 200)
})

t.test('who believes what clients write is warned, and who trusts a range of proxies is not', async t => {
  const forged = '6.6.6.6, 203.0.113.9'
  const honest = '203.0.113.9'
  for (const [trustProxy, chain, codes] of [
    [true, forged, ['FST_QUOTA_SPOOFABLE']],
    [true, honest, ['FST_QUOTA_SPOOFABLE']],
    ['10.0.0.0/8', forged, []],
    ['10.0.0.0/8', honest, []],
    ['10.0.0.0/8', '10.1.2.3', []]
  ] as const) {
    const { heard } = watchWarnings(t)
    const { statuses } = await serve(t, { any: '9/1m' }, { trustProxy })
    const via = { url: '/', remoteAddress: '10.0.0.1', headers: { 'x-forwarded-for': chain } }
    await statuses('/', via, via)
    t.strictSame(
      (await heard()).map(({ code }) => code),
      codes,
      `${trustProxy}: ${chain}`
    )
  }
})

t.test('no forwarded header, no warning', async t => {
  const { heard } = watchWarnings(t)
  const { statuses } = await serve(t, { any: '9/1m' })
  await statuses('/', '/')
  t.strictSame(await heard(), [])
})

t.test('clients of a Unix socket share one quota, and that is warned of once', async t => {
  const { heard } = watchWarnings(t)
  const { app, errors } = await serve(t, { any: { quota: 2, window: '1m' } })
  const path = join(tmpdir(), `fastify-quota-${process.pid}.sock`)
  await app.listen({ path })
  const codes: number[] = []
  for (let i = 0; i < 5; i++) codes.push(await statusAt(path))
  t.strictSame(codes, [200, 200, 429, 429, 429])
  t.strictSame(
    (await heard()).map(({ code }) => code),
    ['FST_QUOTA_NO_ADDRESS']
  )
  t.strictSame(errors, [])
})

t.test('global is one quota for all, route one for each route and all of its clients', async t => {
  const { app, statuses } = await serve(t, { all: { quota: 3, window: '1m', partition: 'global' } })
  app.get('/each', { config: { quota: [{ ...one, name: 'each', partition: 'route' }] } }, async () => 'each')
  t.strictSame(
    await statuses(...[1, 2, 3, 4].map(n => ({ url: '/', remoteAddress: `192.0.2.${n}` }))),
    [200, 200, 200, 429]
  )
  t.strictSame(
    await statuses(...[1, 2].map(n => ({ url: '/each', remoteAddress: `192.0.2.${n}` }))),
    [200, 429]
  )
})

t.test('firstOf counts by the first that is known', async t => {
  const { app, statuses } = await serve(t, {
    identify: { user, key: ({ headers }) => headers['x-key'] as string },
    policies: { any: { ...one, partition: firstOf('key', 'user', 'ip') } }
  })
  const with_ = (headers: object): object => ({ url: '/', headers })
  t.strictSame(
    await statuses(
      with_({ 'x-key': 'k', 'x-user': 'u' }),
      with_({ 'x-user': 'u' }),
      with_({ 'x-user': 'u' }),
      with_({}),
      with_({})
    ),
    [200, 200, 429, 200, 429]
  )
  t.strictSame(await leftOf(app, ['any'], { key: 'k' }), { any: 0 })
})

t.test('allOf keeps tuples apart, whatever their parts contain', async t => {
  const { app } = await serve(t, {
    identify: { tenant: ({ headers }) => headers['x-tenant'] as string, user },
    policies: { any: { ...one, partition: allOf('tenant', 'user') } }
  })
  const parts = ['a', 'b', 'a:b', 'b:c', 'c', ':', '1:a', 'a1:b', '{', '}', '*', 'a b', '6:tenant']
  const codes = new Set<number>()
  for (const tenant of parts) {
    for (const name of parts) {
      const headers = { 'x-tenant': tenant, 'x-user': name }
      codes.add((await app.inject({ url: '/', headers })).statusCode)
    }
  }
  t.strictSame([...codes], [200])
  const odd = ['\0', '\n', '🙂']
  for (const text of odd) t.strictSame(await leftOf(app, ['any'], { tenant: text, user: 'a' }), { any: 1 })
})

t.test('a policy and an identity never make up the name of another', async t => {
  const { app, statuses } = await serve(t, {
    identify: { user },
    policies: {
      x: { ...one, partition: 'user' },
      'x.y': { ...one, partition: 'user', default: false }
    }
  })
  app.get('/other', { config: { quota: ['x.y'] } }, async () => 'other')
  t.strictSame(await statuses(as('y:z')), [200])
  t.strictSame(await statuses({ url: '/other', headers: { 'x-user': 'z' } }), [200])
})

function statusAt(socketPath: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get({ socketPath, path: '/' }, response => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })
}
