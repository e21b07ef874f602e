import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import t from 'tap'
import { LaterStore, watchWarnings } from './plugin/kit.js'
import { CHUNKED, bytes, chunk, client, listen as listenForBytes } from './bytes/kit.js'
import { Gate, client as visitor, get, inflight, listen, post, until } from './concurrency/kit.js'

t.test('an identity that is still asked for when the request is over was not late', async t => {
  const { heard } = watchWarnings(t)
  const { app } = await listen(t, {
    options: {
      identify: {
        user: async () => {
          await sleep(60)
          return 'somebody'
        }
      },
      policies: { inflight: { ...inflight, hook: 'onRequest' }, mine: { ...inflight, partition: 'user' } }
    },
    routes: app => {
      app.get('/late', { handlerTimeout: 20 }, async () => 'unreached')
    }
  })
  t.equal((await app.inject('/late')).statusCode, 503)
  await sleep(150)
  t.strictSame(
    (await heard()).map(({ code }) => code),
    ['FST_QUOTA_STAGES']
  )
})

t.test(
  'a client that has left before the decision takes no place, costs nothing, and is not served',
  async t => {
    const gate = new Gate()
    const replies: FastifyReply[] = []
    let handled = 0
    const { port, held } = await listen(t, {
      options: { policies: { inflight, calls: { quota: 10, window: '1h', partition: 'global' } } },
      before: app =>
        app.addHook('onRequest', async (_, reply) => {
          replies.push(reply)
          await gate.pass()
        }),
      routes: app => {
        app.post('/count', async () => ++handled)
      }
    })
    const { leave } = visitor(port, post('/count', '{}'))
    await gate.reached
    leave()
    await until(() => replies[0]!.request.raw.socket.destroyed)
    gate.open()
    await until(() => replies[0]!.sent)
    t.strictSame([await held(), await held('calls'), handled], [0, 0, 0])
  }
)

t.test('a client that leaves while its body is refused is told nothing, and nothing fails', async t => {
  const store = new LaterStore(() => Math.floor(performance.now()))
  const refusals: string[] = []
  const { port, logged, app } = await listenForBytes(t, {
    options: {
      store,
      policies: { bytes: { ...bytes, quota: 10 } },
      onRefused: decision => void refusals.push(decision.outcome)
    }
  })
  const consume = store.consume.bind(store)
  const gate = new Gate()
  const { write, leave, closed } = client(port)
  store.consume = async charges => {
    if (charges[0]!.units > 0) await gate.pass()
    return consume(charges)
  }
  await write(CHUNKED)
  await write(chunk(70_000))
  await gate.reached
  leave()
  await closed
  await sleep(20)
  gate.open()
  await sleep(20)
  t.strictSame(refusals, [])
  t.strictSame(logged, [])
  store.consume = consume
  t.equal((await app.inject('/')).statusCode, 200)
})

t.test('what cannot be given back when a body is refused is an error of the server', async t => {
  const store = new LaterStore(() => Math.floor(performance.now()))
  const { app } = await listenForBytes(t, {
    options: { store, policies: { calls: '10/1m', bytes: { ...bytes, quota: 10 } } }
  })
  store.settle = () => Promise.reject(new Error('out of order'))
  const { statusCode } = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-type': 'x/y', 'transfer-encoding': 'chunked' },
    payload: Readable.from([Buffer.alloc(100)])
  })
  t.equal(statusCode, 500)
})

t.test('several batches that are refused at the same time are one refusal', async t => {
  const store = new LaterStore(() => Math.floor(performance.now()))
  const refusals: unknown[] = []
  const { port, logged } = await listenForBytes(t, {
    options: {
      store,
      policies: { calls: '10/1m', bytes: { ...bytes, quota: 10 } },
      onRefused: decision => void refusals.push(decision)
    },
    parsed: false,
    routes: app => {
      app.addContentTypeParser('*', (_request, _payload, done) => done(null))
      app.post('/raw', async ({ raw }) => {
        for await (const data of raw) void data
      })
    }
  })
  const consume = store.consume.bind(store)
  let batches = 0
  store.consume = async charges => {
    if (charges.every(({ units, policy }) => policy.name !== 'bytes' || units === 0)) return consume(charges)
    batches++
    await until(() => batches > 1)
    return consume(charges)
  }
  const { write, received, leave } = client(port)
  await write(CHUNKED.replace('POST /', 'POST /raw'))
  await write(Buffer.concat([chunk(70_000), chunk(70_000), chunk(70_000)]))
  await received('violated-policies')
  await sleep(20)
  t.equal(refusals.length, 1)
  t.strictSame(logged, [])
  leave()
})

t.test('a request without quota may reserve, and what it forgets is released', async t => {
  const gate = new Gate()
  const { port, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/free', { config: { quota: false } }, async request => {
        await request.quota.reserve('inflight', 1)
        await gate.pass()
        throw new Error('forgotten')
      })
    }
  })
  const { received, leave } = visitor(port, get('/free'))
  await untilHeld(1)
  gate.open()
  await received('HTTP/1.1 500')
  await untilHeld(0)
  leave()
})
