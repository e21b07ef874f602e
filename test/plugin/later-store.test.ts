import { request as get } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import quota from '../../src/index.js'
import type { QuotaOptions, Store } from '../../src/index.js'
import { LaterStore, bare, left, leftOf, serve, serveLater, violated } from './kit.js'

const stages: QuotaOptions = {
  policies: {
    first: { quota: 9, window: '1m', hook: 'onRequest' },
    minute: '5/1m',
    burst: '2/10s',
    last: { quota: 3, window: '1m', hook: 'preHandler' }
  }
}

t.test('a store that answers later decides what one that answers at once decides', async t => {
  const now = await serve(t, stages)
  const later = await serveLater(t, stages)
  for (let i = 0; i < 12; i++) {
    const [a, b] = await Promise.all([now.app.inject('/'), later.app.inject('/')])
    t.equal(a.statusCode, b.statusCode, `request ${i}`)
    t.equal(a.body, b.body)
    for (const name of ['ratelimit', 'ratelimit-policy', 'retry-after'])
      t.equal(a.headers[name], b.headers[name], name)
    for (const { clock } of [now, later]) clock.pass(4000)
  }
})

t.test('what a later refusal gives back is back before the client knows', async t => {
  const { app, store } = await serveLater(t, {
    policies: {
      first: { quota: 9, window: '1m', hook: 'onRequest' },
      never: { quota: 0, window: '1m' }
    }
  })
  const refused = await app.inject('/')
  t.strictSame(violated(refused), ['never'])
  t.strictSame(store.calls, ['consume', 'consume', 'settle'])
  t.strictSame(await leftOf(app, ['first']), { first: 9 })
})

t.test('requests at the same time are admitted as far as there is room', async t => {
  const { app } = await serveLater(t, { policies: { a: '10/1m', b: '2/1m' } })
  const responses = await Promise.all(Array.from({ length: 10 }, () => app.inject('/')))
  t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 2)
  t.strictSame(await leftOf(app, ['a', 'b']), { a: 8, b: 0 })
})

t.test('identities and costs that are known later go with a store that answers later', async t => {
  const { app, statuses } = await serveLater(t, {
    identify: { user: async ({ headers }) => headers['x-user'] as string },
    policies: { mine: { quota: 4, window: '1m', partition: 'user', cost: async () => 2 } }
  })
  const as = (user: string): object => ({ url: '/', headers: { 'x-user': user } })
  t.strictSame(await statuses(as('a'), as('a'), as('a'), as('b')), [200, 200, 429, 200])
  await app.quota.reset({ user: 'a' }, ['mine'])
  t.strictSame(left(await app.inject(as('a'))), { mine: 2 })
})

t.test('the store is closed with the app, and closing waits for it', async t => {
  const { app, store } = await serveLater(t, { policies: { any: '1/1m' } })
  await app.ready()
  await app.close()
  t.strictSame(store.calls, ['close'])
})

t.test('a client that leaves while it is decided is charged, and nothing is left behind', async t => {
  const { app, errors, store } = await serveLater(t, {
    policies: {
      first: { quota: 9, window: '1m', hook: 'onRequest' },
      second: '9/1m',
      third: { quota: 1, window: '1m', hook: 'preHandler' }
    }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const consume = store.consume.bind(store)
  for (const leavesAt of [1, 2, 3, 3]) {
    let calls = 0
    await new Promise<void>(resolve => {
      const request = get({ port, host: '127.0.0.1', path: '/', agent: false })
      request.on('error', () => {})
      store.consume = async charges => {
        if (++calls !== leavesAt) return consume(charges)
        const gone = new Promise(closed => app.server.getConnections(() => setImmediate(closed)))
        request.destroy()
        await gone
        const answer = await consume(charges)
        setImmediate(resolve)
        return answer
      }
      request.end()
    })
  }
  store.consume = consume
  for (let i = 0; i < 20; i++) await new Promise(resolve => setImmediate(resolve))
  t.strictSame(errors, [])
  t.strictSame(await leftOf(app, ['first', 'second', 'third']), { first: 8, second: 8, third: 0 })
  t.equal((await app.inject('/')).statusCode, 429)
})

t.test('what a store throws is an error of the server, never an unlimited request', async t => {
  const failing = (store: LaterStore): readonly (() => unknown)[] => [
    () => (store.consume = () => Promise.reject(new Error('no answer'))),
    () => {
      store.consume = () => {
        throw new Error('no answer at all')
      }
    },
    () => (store.settle = () => Promise.reject(new Error('nothing given back')))
  ]
  for (let i = 0; i < 3; i++) {
    const { app, store } = await serveLater(t, {
      policies: { first: { quota: 9, window: '1m', hook: 'onRequest' }, never: '0/1m' }
    })
    failing(store)[i]!()
    t.equal((await app.inject('/')).statusCode, 500)
  }
})

t.test('the answer of a store may come from anywhere', async t => {
  const { app, clock } = bare(t)
  const inner = new LaterStore(clock.read)
  const store: Store = {
    consume: async charges => ({ ...(await inner.consume(charges)), source: 'redis' }),
    settle: settlements => inner.settle(settlements),
    renew: leases => inner.renew(leases),
    peek: charges => inner.peek(charges),
    reset: charges => inner.reset(charges),
    close: () => inner.close()
  }
  await app.register(quota, { policies: { any: '9/1m' }, store })
  app.get('/', async request => request.quota.source)
  t.equal((await app.inject('/')).body, 'redis')
})
