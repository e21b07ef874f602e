import type { Socket } from 'node:net'
import type { FastifyRedis } from '@fastify/redis'
import { Cluster, Redis } from 'ioredis'
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey'
import t from 'tap'
import {
  OLDEST,
  connect,
  connectNodes,
  dedicated,
  isCluster,
  readInfo
} from '../../../src/stores/redis/client.js'
import type { RedisClient } from '../../../src/stores/redis/client.js'
import { stopProcessTime } from '../../plugin/kit.js'
import { startRedis } from '../../redis/servers.js'

t.setTimeout(120_000)

const LAZY = { lazyConnect: true } as const
const NOWHERE = { ...LAZY, host: '127.0.0.1', port: 1 } as const

/** What TypeScript knows of it is enough. */
const ofFastify = (client: FastifyRedis): RedisClient => client

const single: Readonly<Record<string, RedisClient>> = {
  ioredis: new Redis(NOWHERE),
  iovalkey: new Valkey(NOWHERE),
  '@fastify/redis': ofFastify(new Redis(NOWHERE) as unknown as FastifyRedis)
}
const clusters: Readonly<Record<string, RedisClient>> = {
  ioredis: new Cluster([NOWHERE], LAZY),
  iovalkey: new ValkeyCluster([NOWHERE], LAZY)
}

interface Profile {
  readonly retryStrategy: (times: number) => number
  readonly reconnectOnError: (error: Error) => number | boolean
}

t.test('a client of a cluster is told from one of a server', async t => {
  for (const [name, client] of Object.entries(single)) t.equal(isCluster(client), false, name)
  for (const [name, client] of Object.entries(clusters)) t.equal(isCluster(client), true, name)
})

t.test('a connection of our own is to the same server, and as a limiter needs it', async t => {
  for (const [name, client] of Object.entries(single)) {
    const own = dedicated(client)
    t.not(own, client)
    t.equal(own.status, 'wait', `${name} waits to be told to connect`)
    t.match(own.options, {
      host: '127.0.0.1',
      port: 1,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableAutoPipelining: false,
      lazyConnect: true,
      connectionName: 'fastify-quota',
      socketTimeout: 1000,
      connectTimeout: 1000
    })
    t.match(client.options, { enableOfflineQueue: true }, "the application's stays as it is")
  }
})

t.test('what the application has chosen for its own connection is not for ours', async t => {
  const theirs = new Redis({
    ...NOWHERE,
    enableAutoPipelining: true,
    commandTimeout: 5,
    retryStrategy: () => null,
    keyPrefix: 'app:',
    db: 3
  })
  t.match(dedicated(theirs).options, {
    enableAutoPipelining: false,
    commandTimeout: undefined,
    keyPrefix: 'app:',
    db: 3
  })
  t.type((dedicated(theirs).options as Profile).retryStrategy(1), 'number')
})

t.test('so is one to a cluster, at each of its nodes', async t => {
  for (const [name, client] of Object.entries(clusters)) {
    const own = dedicated(client)
    t.equal(isCluster(own), true, name)
    t.match(own.options, {
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      lazyConnect: true,
      maxRedirections: 3,
      scaleReads: 'master',
      slotsRefreshInterval: undefined,
      retryDelayOnFailover: 0,
      redisOptions: { enableOfflineQueue: false, maxRetriesPerRequest: 0, socketTimeout: 1000 }
    })
  }
})

t.test('processes come back at different times, and none waits longer than a second', async t => {
  const { retryStrategy } = dedicated(single['ioredis']!).options as Profile
  for (const [times, longest] of [
    [1, 100],
    [2, 200],
    [4, 800],
    [5, 1000],
    [1000, 1000]
  ] as const) {
    const waits = Array.from({ length: 1000 }, () => retryStrategy(times))
    t.ok(
      waits.every(wait => wait >= 0 && wait <= longest),
      `at most ${longest} ms`
    )
    t.ok(Math.min(...waits) < longest / 4 && Math.max(...waits) > (longest * 3) / 4, 'anywhere in between')
  }
})

t.test('a server that cannot be written to is left for another, twice a second at most', async t => {
  const clock = stopProcessTime(t)
  const reasons = [
    "READONLY You can't write against a read only replica.",
    '-READONLY You can not write against a read only replica. script: 12, on @user_script: 1.',
    'NOREPLICAS Not enough good replicas to write.',
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
  ]
  const { reconnectOnError } = dedicated(single['ioredis']!).options as Profile
  for (const message of reasons) {
    t.equal(reconnectOnError(new Error(message)), 1, message)
    clock.pass(499)
    for (const again of reasons) t.equal(reconnectOnError(new Error(again)), false)
    clock.pass(1)
  }
  const other = dedicated(single['ioredis']!).options as Profile
  t.equal(reconnectOnError(new Error(reasons[0])), 1)
  t.equal(other.reconnectOnError(new Error(reasons[0])), 1, 'each connection for itself')
})

t.test('and for no other reason', async t => {
  const { reconnectOnError } = dedicated(single['ioredis']!).options as Profile
  for (const message of ['ERR wrong', 'NOSCRIPT No matching script.', 'NOPERM', 'BUSY', 'OOM command'])
    t.equal(reconnectOnError(new Error(message)), false, message)
})

t.test('only a cluster has nodes to connect to', async t => {
  for (const client of Object.values(single)) {
    await connectNodes(client)
    t.equal(client.status, 'wait')
  }
  for (const client of Object.values(clusters)) await connectNodes(client)
})

t.test('one that waits is told to connect; any other has begun to', async t => {
  const server = await startRedis(t)
  const client = new Redis({ ...LAZY, host: server.host, port: server.port })
  t.teardown(() => client.disconnect())
  connect(client)
  t.equal(client.status, 'connecting')
  connect(client)
  await client.ping()
  connect(client)
  t.equal(client.status, 'ready')

  const nowhere = new Redis({ ...NOWHERE, retryStrategy: () => null })
  const failed = new Promise(resolve => nowhere.once('error', resolve))
  connect(nowhere)
  t.match(await failed, { code: 'ECONNREFUSED' }, 'an event tells that it has failed, and nothing else')
})

// --- What a server says of itself -------------------------------------------------------------------------------------

const info = (...lines: readonly string[]): string => `# Server\r\n${lines.join('\r\n')}\r\n`

t.test('old servers and new ones, and those that go by another name', async t => {
  const table = [
    [info('redis_version:4.0.14', 'role:master', 'maxmemory_policy:noeviction'), '4.0.14', false],
    [info('redis_version:5.0.14', 'redis_mode:standalone', 'role:master'), '5.0.14', false],
    [info('redis_version:6.2.14', 'redis_mode:cluster', 'role:master'), '6.2.14', false],
    [info('redis_version:7.0.15', 'server_name:redis', 'role:master'), '7.0.15', true],
    [info('redis_version:7.2.4', 'server_name:valkey', 'valkey_version:8.1.0', 'role:master'), '7.2.4', true],
    [info('redis_version:8.2.1', 'role:master'), '8.2.1', true],
    [info('redis_version:10.0.0', 'role:master'), '10.0.0', true]
  ] as const
  for (const [text, version, shebang] of table)
    t.strictSame(readInfo(text), { shebang, version, evicts: undefined, replica: false }, version)
  t.strictSame(
    table.map(([text]) => Number.parseInt(readInfo(text).version, 10) < OLDEST),
    [true, false, false, false, false, false, false]
  )
})

t.test('one that forgets keys, and one that cannot be written to', async t => {
  const said = (...lines: readonly string[]): object => readInfo(info('redis_version:7.0.15', ...lines))
  t.match(said('maxmemory_policy:allkeys-lru', 'role:master'), { evicts: 'allkeys-lru', replica: false })
  t.match(said('maxmemory_policy:volatile-ttl', 'role:slave'), { evicts: 'volatile-ttl', replica: true })
  t.match(said('maxmemory_policy:noeviction', 'role:slave'), { evicts: undefined, replica: true })
  t.match(said('other_maxmemory_policy:allkeys-lru', 'xrole:slave'), { evicts: undefined, replica: false })
})

t.test('what is not told is in order', async t => {
  for (const text of ['', 'redis_version', 'no info at all\nredis_version :7'])
    t.strictSame(readInfo(text), { shebang: false, version: '', evicts: undefined, replica: false })
  t.match(
    readInfo('redis_version:7.0.0\nrole:slave\n'),
    { version: '7.0.0', replica: true },
    'a bare line feed'
  )
})

t.test('a real server is read', async t => {
  const server = await startRedis(t, '--maxmemory-policy', 'allkeys-lfu')
  t.match(readInfo(await server.command('INFO')), {
    version: /^\d+\.\d+\.\d+$/,
    evicts: 'allkeys-lfu',
    replica: false
  })
})

t.test('calls of one turn are sent together, a few at a time, and answered in their order', async t => {
  const server = await startRedis(t)
  for (const [name, client] of [
    ['ioredis', new Redis({ ...LAZY, port: server.port })],
    ['iovalkey', new Valkey({ ...LAZY, port: server.port })]
  ] as const) {
    const own = dedicated(client) as Redis
    await own.connect()
    const { stream } = own as unknown as { readonly stream: Socket }
    await own.echo('what it says to begin with has been sent')
    await new Promise(resolve => setImmediate(resolve))
    let sent = 0
    const uncork = stream.uncork.bind(stream)
    stream.uncork = () => {
      sent++
      uncork()
    }
    const answers = ['1', '2', '3'].map(text => own.echo(text))
    t.strictSame([sent, stream.writableCorked], [0, 1], `${name}: they wait for each other`)
    t.strictSame(await Promise.all(answers), ['1', '2', '3'])
    t.strictSame([sent, stream.writableCorked], [1, 0])
    const texts = Array.from({ length: 19 }, (_, i) => String(i))
    const more = texts.map(text => own.echo(text))
    t.strictSame([sent, stream.writableCorked], [5, 1], 'the server begins with some of many')
    t.strictSame(await Promise.all(more), texts)
    t.strictSame([sent, stream.writableCorked], [6, 0])
    t.equal(await own.echo('alone'), 'alone')
    own.disconnect()
    client.disconnect()
  }
})

t.test('a process that stood still hears what has arrived before it gives a connection up', async t => {
  const server = await startRedis(t)
  const clients: Readonly<Record<string, RedisClient>> = {
    ioredis: new Redis(server.port, server.host, LAZY),
    iovalkey: new Valkey(server.port, server.host, LAZY)
  }
  for (const [name, client] of Object.entries(clients)) {
    const own = dedicated(client)
    let lost = 0
    own.on('close', () => lost++)
    own.on('error', () => {})
    t.teardown(() => own.disconnect())
    await own.connect()
    for (let i = 0; i < 2; i++) {
      const answer = own.info()
      await new Promise(resolve => setImmediate(resolve))
      const sent = [answer, own.info(), own.info()]
      for (const end = performance.now() + 1100; performance.now() < end;);
      for (const info of await Promise.all(sent)) t.match(info, /redis_version/, name)
    }
    t.equal(lost, 0, name)
    server.pause()
    const silence = own.info().then(
      () => 'an answer',
      () => 'none'
    )
    t.equal(await silence, 'none', `${name}: and gives one up that is silent`)
    t.equal(lost, 1, name)
    server.resume()
  }
})
