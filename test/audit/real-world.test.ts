import { once } from 'node:events'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { realWorld } from '../../src/audit/real-world.js'
import type { World } from '../../src/audit/world.js'
import { USUAL } from './kit.js'

interface Server {
  readonly world: World
  /** Connections that were opened. */
  readonly connections: () => number
}

async function serving(t: Test, listener: RequestListener, signal?: AbortSignal): Promise<Server> {
  const server = createServer({ keepAliveTimeout: 60_000 }, listener)
  let connections = 0
  server.on('connection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const world = realWorld(`http://127.0.0.1:${port}`, { connections: 8, patience: 300, signal })
  t.teardown(async () => {
    await world.close()
    server.closeAllConnections()
    server.close()
  })
  return { world, connections: () => connections }
}

t.test('an answer has its status, fields, body, and the times between which it was given', async t => {
  let counted = 0
  const { world } = await serving(t, (request, response) => {
    counted = performance.timeOrigin + performance.now()
    response.writeEarlyHints({ link: '</x>' })
    response.writeHead(429, [
      ['RateLimit', '"a";r=0'],
      ['RateLimit', '"b";r=1']
    ])
    response.end(`${request.method} ${request.url} ${String(request.headers['x-key'])}`)
  })
  const answer = await world.send({ ...USUAL, headers: { 'x-key': 'k' } })
  t.match(answer, {
    status: 429,
    fields: { ratelimit: '"a";r=0, "b";r=1' },
    body: 'GET /items k',
    failure: undefined
  })
  t.ok(answer.sent <= counted && counted <= answer.arrived)
})

t.test('a body is sent, and only the beginning of a long one is kept', async t => {
  const { world } = await serving(t, (request, response) => {
    response.write('x'.repeat(100_000))
    request.pipe(response)
  })
  const { body } = await world.send({ ...USUAL, method: 'POST', body: 'sent' })
  t.equal(body, 'x'.repeat(16_384))
})

t.test('an answer that stops in the middle was an answer, and none at all is a failure', async t => {
  const { world } = await serving(t, (request, response) => {
    if (request.url === '/never') return
    response.writeHead(200, { 'content-length': '10' })
    response.write('half', () => request.socket.destroy())
  })
  t.match(await world.send(USUAL), { status: 200, body: 'half', failure: undefined })
  const never = await world.send({ ...USUAL, path: '/never' })
  t.match(never, { status: undefined, failure: /Timeout/ })
  t.ok(never.arrived - never.sent > 200)
})

t.test('connections are open before a burst needs them, and no more than that', async t => {
  const { world, connections } = await serving(t, (_request, response) => response.end('x'))
  // A client knows of a connection before its server does.
  const accepted = async (count: number): Promise<void> => {
    while (connections() < count) await sleep(5)
  }
  await world.warm(3)
  await accepted(3)
  await world.warm(3)
  await Promise.all([1, 2, 3, 4].map(() => world.send(USUAL)))
  t.equal(connections(), 4)
  await world.warm(100)
  await accepted(8)
  t.equal(connections(), 8, 'as many as are allowed')
})

t.test('a time is waited for, however far away or past it is', async t => {
  const { world } = await serving(t, (_request, response) => response.end('x'))
  const now = world.now()
  t.ok(Math.abs(now - Date.now()) < 60_000, 'milliseconds of the epoch')
  await world.until(now + 30)
  t.ok(world.now() >= now + 30)
  await world.until(now - 1000)
  t.ok(world.tolerance(2000) > 1 && world.tolerance(2000) < 10)
})

t.test('who calls it off waits no longer', async t => {
  const stop = new AbortController()
  const { world } = await serving(t, (_request, response) => response.end('x'), stop.signal)
  const waiting = world.until(world.now() + 3_000_000_000)
  stop.abort()
  await t.rejects(waiting, { name: 'AbortError' })
  await t.rejects(world.until(0), { name: 'AbortError' })
})
