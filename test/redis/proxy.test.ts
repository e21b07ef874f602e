import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { RedisOptions } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { startProxy } from './proxy.js'
import { startRedis } from './servers.js'

const server = await startRedis(t)

t.beforeEach(() => server.command('FLUSHALL'))

t.test('commands and answers pass', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy)
  t.equal(await client.incr('counter'), 1)
  t.equal(await client.echo('x'.repeat(1_000_000)), 'x'.repeat(1_000_000))
  t.equal(await server.command('GET', 'counter'), '1')
})

t.test('a delay is taken to and fro, and the order kept', async t => {
  const proxy = await startProxy(t, server, { delay: 50 })
  const client = connected(t, proxy)
  await client.ping()
  const start = performance.now()
  const answers = await Promise.all(Array.from({ length: 20 }, () => client.incr('counter')))
  t.ok(performance.now() - start > 95)
  t.strictSame(
    answers,
    Array.from({ length: 20 }, (_, i) => i + 1)
  )
  proxy.delay = 100
  const first = client.incr('counter')
  await sleep(10)
  proxy.delay = 0
  t.strictSame(await Promise.all([first, client.incr('counter')]), [21, 22])
})

t.test('an answer that is dropped leaves a command done that nobody confirms', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy, { commandTimeout: 1000 })
  await client.ping()
  proxy.dropReplies(true)
  await t.rejects(client.incr('counter'), { message: 'Command timed out' })
  t.equal(await server.command('GET', 'counter'), '1')

  proxy.dropReplies(false)
  await t.rejects(
    client.incr('counter'),
    { message: 'Command timed out' },
    'no answer takes the place of another'
  )
  t.equal(proxy.connections, 1)
  const other = connected(t, proxy)
  t.equal(await other.get('counter'), '2')
})

t.test('a cut ends connections, and new ones work', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy, { retryStrategy: () => 10 })
  await client.ping()
  t.equal(proxy.connections, 1)
  const closed = once(client, 'close')
  proxy.cut()
  t.equal(proxy.connections, 0)
  await closed
  t.equal(await client.ping(), 'PONG')
  t.equal(proxy.connections, 1)
})

t.test('what is refused closes at once, and what is connected stays', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy)
  await client.ping()
  proxy.refuse(true)
  await once(dial(t, proxy).resume(), 'close')
  t.equal(await client.ping(), 'PONG')
  t.equal(proxy.connections, 1)
  proxy.refuse(false)
  t.equal(await connected(t, proxy).ping(), 'PONG')
})

t.test('what is frozen comes later', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy)
  await client.ping()
  proxy.freeze(true)
  proxy.freeze(true)
  const late = client.incr('counter')
  t.equal(await Promise.race([late, sleep(100, 'nothing')]), 'nothing')
  t.equal(await server.command('EXISTS', 'counter'), '0')
  t.equal(proxy.connections, 1)
  proxy.freeze(false)
  proxy.freeze(false)
  t.equal(await late, 1)
})

t.test('what is frozen can be cut', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy, { retryStrategy: () => null, maxRetriesPerRequest: 0 })
  await client.ping()
  proxy.freeze(true)
  const lost = client.incr('counter')
  await sleep(20)
  proxy.cut()
  await t.rejects(lost)
  proxy.freeze(false)
  t.equal(await server.command('EXISTS', 'counter'), '0')
})

t.test('the end of one side is the end of the other, after what came before', async t => {
  const target = createServer({ allowHalfOpen: true }, socket =>
    socket.resume().on('end', () => socket.end('goodbye'))
  )
  t.teardown(() => target.close())
  await once(target.listen(0, '127.0.0.1'), 'listening')
  const proxy = await startProxy(t, target.address() as AddressInfo, { delay: 20 })
  const socket = dial(t, proxy)
  socket.end('hello')
  const [text] = (await once(socket, 'data')) as [Buffer]
  t.equal(String(text), 'goodbye')
  await once(socket, 'close')
  t.equal(proxy.connections, 0)
})

t.test('a server that is down closes the connection', async t => {
  const down = await startRedis(t)
  const proxy = await startProxy(t, down)
  await down.kill()
  await once(dial(t, proxy).resume(), 'close')
  await down.restart()
  t.equal(await connected(t, proxy).ping(), 'PONG')
})

t.test('a closed proxy leaves nothing open, even if it was frozen and its client has gone', async t => {
  const proxy = await startProxy(t, server)
  const client = connected(t, proxy, { retryStrategy: () => null })
  await client.ping()
  const socket = dial(t, proxy)
  await until(() => proxy.connections === 2)
  proxy.freeze(true)
  socket.resetAndDestroy()
  await until(() => proxy.connections === 1)
  await proxy.close()
  await proxy.close()
  t.equal(proxy.connections, 0)
  // The one that asks.
  await until(async () => (await server.command('CLIENT', 'LIST')).split('\n').length === 1)
  const [error] = (await once(connect(proxy.port, proxy.host), 'error')) as [NodeJS.ErrnoException]
  t.equal(error.code, 'ECONNREFUSED')
})

type Options = Pick<RedisOptions, 'commandTimeout' | 'maxRetriesPerRequest' | 'retryStrategy'>

interface Place {
  readonly host: string
  readonly port: number
}

function connected(t: Test, { host, port }: Place, options: Options = {}): Redis {
  const client = new Redis(port, host, options)
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  return client
}

function dial(t: Test, { host, port }: Place): Socket {
  const socket = connect({ host, port })
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  return socket
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 10_000; performance.now() < end; await sleep(2))
    if (await condition()) return
  throw new Error('what was waited for has not come')
}
