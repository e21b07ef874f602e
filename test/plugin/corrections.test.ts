import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { PolicyOptions } from '../../src/index.js'
import { LaterStore } from './kit.js'

interface Visitor extends FastifyRequest {
  user?: string
}

const tokens: PolicyOptions = { quota: 100, window: '1m', unit: 'tokens', cost: 10, partition: 'user' }
const slots: PolicyOptions = {
  quota: 2,
  algorithm: 'concurrency',
  holdFor: '300ms',
  partition: 'global',
  default: false
}

async function start(
  t: Test,
  policies: Record<string, PolicyOptions>,
  before: (app: FastifyInstance) => unknown = () => undefined
): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(() => app.close())
  before(app)
  await app.register(quota, { identify: { user: (request: Visitor) => request.user }, policies })
  return app
}

const left = async (app: FastifyInstance, subject: Record<string, string>, policy: string): Promise<number> =>
  (await app.quota.peek(subject, [policy])).limits[0]!.remaining

const HERE = { ip: '127.0.0.1' }

t.test('what two partitions were charged for one request is corrected in each', async t => {
  const uses: Record<string, (request: Visitor) => Promise<unknown>> = {
    reserve: request => request.quota.reserve('tokens', 50),
    spend: request => request.quota.spend('tokens', 50)
  }
  for (const [name, use] of Object.entries(uses)) {
    const app = await start(t, { tokens })
    app.get('/a', () => 'a')
    app.get('/b', async (request: Visitor) => {
      request.user = 'u' // known only now, so the decision has counted by address
      await use(request)
      await request.quota.settle('tokens', 10)
      return 'b'
    })
    for (let i = 0; i < 5; i++) await app.inject('/a')
    await app.inject('/b')
    t.equal(await left(app, HERE, 'tokens'), 40, name)
    t.equal(await left(app, { user: 'u' }, 'tokens'), 100, name)
  }
})

t.test('a refund goes to the partition that was charged', async t => {
  const app = await start(t, { tokens: { ...tokens, refund: (_request, reply) => reply.statusCode >= 500 } })
  app.get('/a', () => 'a')
  app.get('/b', async (request: Visitor) => {
    request.user = 'u'
    await request.quota.reserve('tokens', 50)
    throw new Error('broken')
  })
  for (let i = 0; i < 5; i++) await app.inject('/a')
  await app.inject('/b')
  t.equal(await left(app, HERE, 'tokens'), 50)
  t.equal(await left(app, { user: 'u' }, 'tokens'), 100)
})

t.test('the first release of what the plugin has released is no mistake, the second is', async t => {
  const app = await start(t, { slots: { ...slots, maxHold: '60ms' } })
  await app.ready()
  const place = await app.quota.reserve({}, 'slots', 1)
  await sleep(200)
  t.equal(await left(app, {}, 'slots'), 2)
  await t.resolves(place.release())
  await t.rejects(place.release(), { code: 'FST_QUOTA_SETTLED' })
})

t.test('who settles after the client has left is not told off for it', async t => {
  const settled: unknown[] = []
  let done = (): void => {}
  const settledAll = new Promise<void>(resolve => (done = resolve))
  const app = await start(t, { tokens: { ...tokens, refund: () => true }, slots })
  app.get('/', { config: { quota: { also: ['slots'] } } }, async request => {
    await sleep(80)
    for (const policy of ['slots', 'tokens']) {
      await request.quota.release(policy).then(
        () => settled.push(policy),
        error => settled.push(error)
      )
    }
    done()
    return ''
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await sleep(30)
  socket.destroy()
  await settledAll
  t.strictSame(settled, ['slots', 'tokens'])
})

t.test('a lease that an earlier hook has reserved ends with the request', async t => {
  const app = await start(t, { slots }, early =>
    early.addHook('onRequest', async request => void (await request.quota.reserve('slots', 1)))
  )
  app.get('/', { config: { quota: false } }, () => 'ok')
  t.equal((await app.inject('/')).statusCode, 200)
  t.equal(await left(app, {}, 'slots'), 2)
})

t.test('places are not spent', async t => {
  const app = await start(t, { slots })
  app.get('/', async request => request.quota.spend('slots', 1))
  t.match((await app.inject('/')).json(), {
    code: 'FST_QUOTA_OPTION',
    message: 'policy "slots" counts what runs at once, so its places are reserved, not spent'
  })
  t.equal(await left(app, {}, 'slots'), 2)
})

t.test('a later refusal gives back what was decided, not what was spent', async t => {
  const app = await start(t, {
    tokens: { ...tokens, cost: 0, partition: 'ip' },
    never: { quota: 0, window: '1m', hook: 'preHandler' }
  })
  app.addHook('preValidation', async request => request.quota.spend('tokens', 30))
  app.get('/', () => '')
  t.equal((await app.inject('/')).statusCode, 429)
  t.equal(await left(app, HERE, 'tokens'), 70)
})

t.test('a refund is asked for each charge, whichever policies have others', async t => {
  const a: PolicyOptions = { quota: 10, window: '1m', default: false, refund: () => true }
  for (const other of [undefined, { quota: 10, window: '1m', refund: () => false }] as const) {
    const app = await start(t, { a, ...(other === undefined ? {} : { other }) })
    app.get('/', async request => (await request.quota.reserve('a', 3)).outcome)
    t.equal((await app.inject('/')).body, 'allowed')
    t.equal(await left(app, HERE, 'a'), 10)
  }
})

t.test('who is exempt is so for what code reserves and spends, too', async t => {
  const asked: string[] = []
  const app = await start(t, {
    free: { quota: 10, window: '1m', default: false, exempt: request => (asked.push(request.url), true) }
  })
  app.get('/', async request => {
    await request.quota.spend('free', 5)
    return (await request.quota.reserve('free', 5)).exempt
  })
  t.strictSame((await app.inject('/')).json(), ['free'])
  t.equal(await left(app, HERE, 'free'), 10)
  t.strictSame(asked, ['/', '/'])
})

t.test(
  'what is spent of a plan is charged to its counter, also if its quota has to be waited for',
  async t => {
    const app = await start(t, { plan: { quota: async () => 10, window: '1m', default: false } })
    app.get('/', async request => {
      await request.quota.spend('plan', 4)
      return (await app.quota.peek(request, ['plan'])).limits[0]!.remaining
    })
    t.equal((await app.inject('/')).json(), 6)
  }
)

t.test('a settle counts what is being spent before it', async t => {
  const store = new LaterStore(() => 1000)
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies: { tokens: { ...tokens, partition: 'ip' } }, store })
  app.get('/', async request => {
    const spent = request.quota.spend('tokens', 5)
    await Promise.all([spent, request.quota.settle('tokens', 15)])
    return ''
  })
  t.equal((await app.inject('/')).statusCode, 200)
  t.equal(await left(app, HERE, 'tokens'), 85)
})

t.test('a body that grows too long for a policy in shadow mode is reported', async t => {
  const app = await start(t, { long: { quota: 10, window: '1m', unit: 'content-bytes', mode: 'shadow' } })
  app.post('/', request => request.quota.shadow)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const body = JSON.stringify('x'.repeat(100))
  const sent = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(body))
      controller.close()
    }
  })
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: sent, duplex: 'half' }
  const response = await fetch(`http://127.0.0.1:${port}/`, init as RequestInit)
  t.strictSame(await response.json(), [{ policy: 'long', wouldRefuse: true }])
})

t.test('request.quota is one object, and its JSON is the decision', async t => {
  const app = await start(t, { tokens })
  app.get('/', request => ({ same: request.quota === request.quota, told: request.quota }))
  t.match((await app.inject('/')).json(), {
    same: true,
    told: { outcome: 'allowed', limits: [{ policy: 'tokens', remaining: 90 }], source: 'memory' }
  })
})

t.test('a store that throws when a request is over is reported, and ends nothing', async t => {
  const logged: string[] = []
  const app = Fastify({ logger: { level: 'error', stream: { write: line => void logged.push(line) } } })
  const store = new LaterStore(() => 1000)
  t.teardown(() => app.close())
  await app.register(quota, { policies: { slots: { ...slots, default: true } }, store })
  app.get('/', () => {
    store.settle = () => {
      throw new Error('broken')
    }
    return 'ok'
  })
  t.equal((await app.inject('/')).body, 'ok')
  await sleep(20)
  t.match(logged.join(), /store failed/)
})
