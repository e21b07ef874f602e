import { connect } from 'node:http2'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { Gate, client, get, inflight, listen, post, until } from './kit.js'

t.test('a connection that times out gives its place back', async t => {
  const { port, untilHeld } = await listen(t, {
    server: { connectionTimeout: 100 },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  const { closed } = client(port, get('/slow'))
  await untilHeld(1)
  await closed
  await untilHeld(0)
})

t.test('a body that does not come in time gives its place back', async t => {
  const { app, port, untilHeld } = await listen(t, {
    routes: app => {
      app.post('/body', async () => 'unreached')
    }
  })
  app.server.setTimeout(100)
  const { closed } = client(port, post('/body', '{', 10))
  await untilHeld(1)
  await closed
  await untilHeld(0)
})

t.test('a handler that times out gives its place back with the answer, though it goes on', async t => {
  const gate = new Gate()
  const { port, untilHeld, held } = await listen(t, {
    routes: app => {
      app.get('/slow', { handlerTimeout: 50 }, async () => {
        await gate.pass()
        return 'too late'
      })
    }
  })
  const { received, leave } = client(port, get('/slow'))
  await untilHeld(1)
  await received('HTTP/1.1 503')
  await untilHeld(0)
  gate.open()
  await sleep(20)
  t.equal(await held(), 0)
  leave()
})

t.test('maxHold ends the connection of a request that lasts too long, and nobody else’s', async t => {
  const policies: QuotaOptions['policies'] = {
    inflight,
    short: { ...inflight, default: false, maxHold: '150ms' }
  }
  const { port, held, untilHeld } = await listen(t, {
    options: { policies },
    routes: app => {
      app.get('/long', async () => new Promise(() => {}))
      app.get('/short', { config: { quota: { also: ['short'] } } }, async () => new Promise(() => {}))
      app.get('/quick', { config: { quota: { also: ['short'] } } }, async () => 'served')
    }
  })
  const long = client(port, get('/long'))
  const short = client(port, get('/short'))
  const quick = client(port, get('/quick'))
  await untilHeld(2)
  const start = performance.now()
  await short.closed
  t.ok(performance.now() - start < 1000)
  t.equal(await held('short'), 0, 'the place is free at once')
  t.equal(await held(), 1)
  t.match(quick.text(), 'served')
  t.equal(quick.socket.destroyed, false)
  long.leave()
  quick.leave()
  await untilHeld(0)
})

t.test('maxHold ends a response that waits for its turn, too', async t => {
  const { port, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, maxHold: '150ms' } } },
    routes: app => {
      app.get('/free', { config: { quota: false } }, async () => new Promise(() => {}))
      app.post('/slow', async () => new Promise(() => {}))
    }
  })
  const { leave } = client(port, get('/free') + post('/slow', '{}'))
  await untilHeld(1)
  await untilHeld(0)
  leave()
})

t.test('maxHold ends an injected request', async t => {
  const { app, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, maxHold: '100ms' } } },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  await t.rejects(app.inject('/slow'), { code: 'LIGHT_ECONNRESET' })
  await untilHeld(0)
})

t.test('HTTP/2: a stream is released alone, and maxHold ends it alone', async t => {
  const { port, untilHeld } = await listen(t, {
    server: { http2: true } as object,
    options: { policies: { inflight: { ...inflight, maxHold: '300ms' } } },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const [served, first, second] = ['/', '/slow', '/slow'].map(path => session.request({ ':path': path }))
  let body = ''
  served!.on('data', data => (body += data))
  await once(served!, 'end')
  t.equal(body, 'served')
  await untilHeld(2)
  first!.close()
  await untilHeld(1)
  second!.on('error', () => {})
  await once(second!, 'close')
  await untilHeld(0)
  t.equal(session.destroyed, false)
  const third = session.request({ ':path': '/slow' })
  third.on('error', () => {})
  await untilHeld(1)
  session.destroy()
  await untilHeld(0)
})

t.test('a request that hangs on a connection that is closed by the app gives its place back', async t => {
  const { app, port, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  client(port, get('/slow'))
  await untilHeld(1)
  app.server.closeAllConnections()
  await untilHeld(0)
})

t.test(
  'closing the app waits for its requests, and a store that lives longer has their places back',
  async t => {
    const gate = new Gate()
    const { app, port, held } = await listen(t, {
      server: { forceCloseConnections: false },
      routes: app => {
        app.get('/slow', async () => {
          await gate.pass()
          return 'done'
        })
      }
    })
    const { received, leave } = client(port, get('/slow'))
    await gate.reached
    let isClosed = false
    const closing = app.close().then(() => (isClosed = true))
    await sleep(50)
    t.equal(isClosed, false)
    t.equal(await held(), 1)
    gate.open()
    await received('done')
    leave()
    await closing
    await until(async () => (await held()) === 0)
  }
)
