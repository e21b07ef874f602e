import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { LaterStore } from '../plugin/kit.js'
import { Gate, PLACES, client, get, inflight, listen, until } from './kit.js'

t.test('a refused request holds nothing', async t => {
  const gate = new Gate()
  const { app, port, held, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/slow', async () => gate.pass())
    }
  })
  const clients = Array.from({ length: PLACES }, () => client(port, get('/slow')))
  await untilHeld(PLACES)
  for (let i = 0; i < 20; i++) t.equal((await app.inject('/')).statusCode, 429)
  t.equal(await held(), PLACES)
  clients[0]!.leave()
  await untilHeld(PLACES - 1)
  t.equal((await app.inject('/')).statusCode, 200)
  gate.open()
  await untilHeld(0)
  for (const { leave } of clients) leave()
})

t.test('status 503 says that the server is busy, not that the client asks too much', async t => {
  const { app } = await listen(t, {
    options: { policies: { inflight: { ...inflight, quota: 0, status: 503 } } }
  })
  const response = await app.inject('/')
  t.equal(response.statusCode, 503)
  t.match(response.json(), { type: /temporary-reduced-capacity$/, status: 503 })
  t.equal(response.headers['retry-after'], undefined)
})

for (const hook of ['preParsing', 'preHandler'] as const) {
  t.test(`a place is free again when a stage at ${hook} refuses`, async t => {
    const { app, held, untilHeld } = await listen(t, {
      options: {
        policies: { inflight: { ...inflight, hook: 'onRequest' }, never: { quota: 0, window: '1m', hook } }
      }
    })
    for (let i = 0; i < 3; i++) {
      const refused = await app.inject('/')
      t.equal(refused.statusCode, 429)
      t.equal(await held(), 0)
    }
    await untilHeld(0)
  })
}

t.test('what another policy of the decision refuses takes no place', async t => {
  const { app, held } = await listen(t, { options: { policies: { inflight, never: '0/1m' } } })
  t.equal((await app.inject('/')).statusCode, 429)
  t.equal(await held(), 0)
})

t.test('a route may have several policies of this kind, and all are released', async t => {
  const policies = {
    inflight,
    wide: { ...inflight, quota: 10 },
    heavy: { ...inflight, quota: 2, default: false },
    mine: { ...inflight, quota: 4, partition: 'ip' as const, hook: 'onRequest' as const }
  }
  const { app, port, held, untilHeld } = await listen(t, {
    options: { policies },
    routes: app => {
      app.get('/slow', { config: { quota: { also: ['heavy'] } } }, async () => new Promise(() => {}))
    }
  })
  const all = async (): Promise<readonly number[]> =>
    Promise.all(Object.keys(policies).map(name => held(name)))
  const clients = [client(port, get('/slow')), client(port, get('/slow'))]
  await untilHeld(2)
  t.strictSame(await all(), [2, 2, 2, 2])
  const refused = await app.inject('/slow')
  t.strictSame(refused.json<{ 'violated-policies': unknown }>()['violated-policies'], ['heavy'])
  t.strictSame(await all(), [2, 2, 2, 2], 'the place taken at onRequest is free again')
  t.equal((await app.inject('/')).statusCode, 200)
  for (const { leave } of clients) leave()
  await untilHeld(0)
  t.strictSame(await all(), [0, 0, 0, 0])
})

t.test('a shadow policy counts places, and refuses nobody', async t => {
  const { app, port } = await listen(t, {
    options: { policies: { inflight: { ...inflight, quota: 1, mode: 'shadow' } } },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
      app.get('/shadow', async request => request.quota.shadow[0]!.wouldRefuse)
    }
  })
  const wouldRefuse = async (): Promise<boolean> => (await app.inject('/shadow')).json<boolean>()
  t.equal(await wouldRefuse(), false)
  const clients = [client(port, get('/slow')), client(port, get('/slow'))]
  await until(wouldRefuse)
  for (const { leave } of clients) leave()
  await until(async () => !(await wouldRefuse()))
})

t.test('a request may cost several places, or none', async t => {
  const { port, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, cost: ({ url }) => Number(url.at(-1)) } } },
    routes: app => {
      app.get('/:n', async () => new Promise(() => {}))
    }
  })
  const none = client(port, get('/0'))
  const three = client(port, get('/3'))
  await untilHeld(3)
  const two = client(port, get('/2'))
  await untilHeld(5)
  three.leave()
  await untilHeld(2)
  two.leave()
  await untilHeld(0)
  none.leave()
})

for (const later of [false, true]) {
  t.test(
    `a handler may release its place early, with a store that answers ${later ? 'later' : 'at once'}`,
    async t => {
      const gate = new Gate()
      const { port, held, untilHeld, errors } = await listen(t, {
        options: later ? { store: new LaterStore(() => Math.floor(performance.now())) } : {},
        routes: app => {
          app.get('/early', async request => {
            await request.quota.release('inflight')
            await gate.pass()
            return 'released'
          })
        }
      })
      const { received, leave } = client(port, get('/early'))
      await gate.reached
      t.equal(await held(), 0)
      const other = client(port, get('/early'))
      gate.open()
      await received('released')
      await other.received('released')
      t.equal(await held(), 0)
      leave()
      other.leave()
      await untilHeld(0)
      t.strictSame(errors, [])
    }
  )
}

t.test('a handler may reserve places; what it forgets is released with its response', async t => {
  const gate = new Gate()
  const { app, port, held, untilHeld } = await listen(t, {
    routes: app => {
      for (const [path, config] of [
        ['/counted', {}],
        ['/free', { quota: false }]
      ] as const) {
        app.get(path, { config }, async request => {
          await request.quota.reserve('inflight', 2)
          await gate.pass()
          return 'forgotten'
        })
      }
      app.get('/gone', { config: { quota: false } }, async request => {
        request.raw.socket.destroy()
        await sleep(20)
        await request.quota.reserve('inflight', 1)
      })
    }
  })
  const counted = client(port, get('/counted'))
  const free = client(port, get('/free'))
  await untilHeld(5)
  counted.leave()
  await untilHeld(2)
  gate.open()
  await free.received('forgotten')
  await untilHeld(0)
  free.leave()
  const { closed } = client(port, get('/gone'))
  await closed
  await sleep(40)
  t.equal(await held(), 0, 'nobody holds what is reserved for somebody who has left')
  const outside = await app.quota.reserve({}, 'inflight', 1)
  t.equal(await held(), 1)
  await outside.release()
  t.equal(await held(), 0)
})

t.test('a queue before the handler holds the place, until its client leaves', async t => {
  let handled = 0
  const { port, untilHeld } = await listen(t, {
    options: {
      policies: {
        inflight,
        paced: { quota: 1, window: '1m', algorithm: 'leaky-bucket', maxDelay: '5m', partition: 'global' }
      }
    },
    routes: app => {
      app.get('/count', async () => ++handled)
    }
  })
  const first = client(port, get('/count'))
  await first.received('200 OK')
  const second = client(port, get('/count'))
  await untilHeld(1)
  second.leave()
  await untilHeld(0)
  t.equal(handled, 1)
  first.leave()
})
