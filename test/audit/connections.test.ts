import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Connections } from '../../src/audit/connections.js'

async function listening(
  t: Test,
  host: string
): Promise<{ server: Server; origin: string; sockets: Socket[] }> {
  const sockets: Socket[] = []
  const server = createServer(socket => void sockets.push(socket.on('error', () => undefined)))
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { server, origin: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, sockets }
}

function connected(connections: Connections, origin: string): Promise<Socket> {
  const { hostname, port, protocol } = new URL(origin)
  return new Promise((resolve, reject) => {
    connections.connect({ hostname, port, protocol }, (error, socket) => {
      if (error === null) resolve(socket)
      else reject(error)
    })
  })
}

t.test('a connection that was opened ahead is handed out, and after that a new one', async t => {
  for (const host of ['127.0.0.1', '::1']) {
    const { server, origin, sockets } = await listening(t, host)
    const connections = new Connections(origin)
    await connections.warm(2)
    while (sockets.length < 2) await once(server, 'connection')
    const first = await connected(connections, `http://127.0.0.1:1`)
    t.equal(first.remotePort, Number(new URL(origin).port), 'wherever it was asked for')
    first.destroy()
    connections.close()
    await Promise.all(sockets.map(socket => once(socket, 'close')))
    if (host === '::1') continue
    const second = await connected(connections, origin)
    t.equal(second.remotePort, Number(new URL(origin).port))
    second.destroy()
  }
})

t.test('one that the server has closed is not handed out', async t => {
  const { server, origin, sockets } = await listening(t, '127.0.0.1')
  const connections = new Connections(origin)
  await connections.warm(1)
  while (sockets.length < 1) await once(server, 'connection')
  sockets[0]!.destroy()
  // The news reaches this end soon, and nothing else tells of it.
  await sleep(200)
  const socket = await connected(connections, origin)
  t.ok(socket.writable)
  while (sockets.length < 2) await once(server, 'connection')
  socket.destroy()
})

t.test('one that cannot be opened is missed by nobody yet', async t => {
  const { server, origin } = await listening(t, '127.0.0.1')
  server.close()
  await once(server, 'close')
  const connections = new Connections(origin)
  await connections.warm(2)
  await t.rejects(connected(connections, origin), { code: 'ECONNREFUSED' })
})
