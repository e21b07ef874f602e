import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { PLACES, client, get, inflight, listen } from './kit.js'

/** Routes that never end by themselves. */
function endless(app: FastifyInstance): void {
  app.get('/events', async (_, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream'
    })
    const timer = setInterval(() => reply.raw.write('data: tick\n\n'), 10)
    reply.raw.once('close', () => clearInterval(timer))
  })
  app.get('/stream', async () => Readable.from(ticks()))
  app.get('/upgrade', async (request, reply) => {
    reply.hijack()
    const { socket } = request.raw
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nwelcome')
    socket.on('data', data => socket.write(data))
  })
}

async function* ticks(): AsyncGenerator<string> {
  for (;;) {
    await sleep(10)
    yield 'tick\n'
  }
}

for (const path of ['/events', '/stream', '/upgrade']) {
  t.test(`${path} holds its place until the client leaves`, async t => {
    const { app, port, held, untilHeld } = await listen(t, {
      options: { policies: { inflight: { ...inflight, holdFor: '300ms' } } },
      routes: endless
    })
    const clients = Array.from({ length: PLACES }, () => client(port, get(path)))
    for (const { received } of clients) await received(path === '/upgrade' ? 'welcome' : 'tick')
    t.equal((await app.inject('/')).statusCode, 429)
    await sleep(700) // longer than a lease that nobody renews
    t.equal(await held(), PLACES)
    t.equal((await app.inject('/')).statusCode, 429)
    clients[0]!.leave()
    await untilHeld(PLACES - 1)
    t.equal((await app.inject('/')).statusCode, 200)
    clients[1]!.socket.end()
    await untilHeld(PLACES - 2)
    for (const { leave } of clients) leave()
    await untilHeld(0)
  })
}

t.test('events carry the fields if the handler copies them', async t => {
  const { port, untilHeld } = await listen(t, { routes: endless })
  const { received, text, leave } = client(port, get('/events'))
  await received('tick')
  t.match(text(), /ratelimit: "inflight";r=4\r\n/)
  leave()
  await untilHeld(0)
})

t.test('a slow reader holds its place until the last byte has left', async t => {
  const { port, held, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/large', async () => Readable.from(Array.from({ length: 500 }, () => Buffer.alloc(65_536))))
    }
  })
  const { socket, received } = client(port, get('/large'))
  await received('ratelimit')
  socket.pause()
  await sleep(100)
  t.equal(await held(), 1)
  socket.resume()
  await untilHeld(0)
  socket.destroy()
})
