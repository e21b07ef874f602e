import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fastifyRedis from '@fastify/redis'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { Cluster, Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import t from 'tap'
import type { Test } from 'tap'
import quota, { redisStore } from '../../src/index.js'
import type { PolicyOptions, RedisClient, RedisStoreOptions } from '../../src/index.js'
import { compilePolicy } from '../../src/policy.js'
import type { Charge, Store } from '../../src/store.js'
import { RedisStore } from '../../src/stores/redis.js'
import { Keys } from '../../src/stores/redis/keys.js'
import { watchWarnings } from '../plugin/kit.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis, startReplica } from '../redis/servers.js'
import type { RedisServer } from '../redis/servers.js'
import { PATIENT, SECRET, clientOf, openStore, until, watchChanges } from './redis/kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)

const burst = compilePolicy('burst', { quota: 5, window: '1h' }, [])

const charge = (partition: string, units: number = 1): Charge => ({ policy: burst, partition, units })

/** What is left of the burst after one more charge; of an answer that nobody could give, who gave it. */
async function ask(store: Store, partition: string, units: number = 1): Promise<number | string> {
  const { limits, source } = await store.consume([charge(partition, units)])
  return source === 'redis' ? limits[0]!.remaining : source
}

interface Line {
  readonly level: number
  readonly msg: string
  readonly code?: string
  readonly err?: { readonly code?: string; readonly message: string }
}

interface App {
  readonly app: FastifyInstance
  /** Lines about the store. */
  readonly lines: readonly Line[]
  /** All that was logged. */
  readonly log: readonly string[]
}

/** An app that counts in a store. */
async function serve(
  t: Test,
  store: Store,
  policies: Readonly<Record<string, PolicyOptions>> = { burst: { quota: 5, window: '1h' } }
): Promise<App> {
  const log: string[] = []
  const lines: Line[] = []
  const stream = {
    write(text: string): void {
      log.push(text)
      const line = JSON.parse(text) as Line
      if (line.msg.startsWith('fastify-quota: the store')) lines.push(line)
    }
  }
  const app = Fastify({ logger: { level: 'trace', stream } }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, { store, policies })
  app.get('/', async request => request.quota.source)
  return { app, lines, log }
}

const get = async ({ app }: App): Promise<string> => {
  const { statusCode, body } = await app.inject('/')
  return statusCode === 200 ? body : String(statusCode)
}

// --- Options ----------------------------------------------------------------------------------------------------------

const nowhere: RedisClient = new Redis({ host: '127.0.0.1', port: 1, lazyConnect: true })

const refused = (t: Test, client: unknown, options: unknown, message: string | RegExp): void => {
  t.throws(() => redisStore(client as RedisClient, options as RedisStoreOptions), {
    code: 'FST_QUOTA_OPTION',
    message: typeof message === 'string' ? `redisStore: ${message}` : message
  })
}

t.test('options that are wrong are refused, with what was expected', async t => {
  const table: readonly (readonly [options: object, message: string])[] = [
    [
      { onFailure: undefined },
      "onFailure is required: 'open', 'closed' or 'local', what is answered when Redis does not"
    ],
    [
      { onFailure: 'opened' },
      'onFailure must be "open", "closed" or "local", got "opened"; did you mean "open"?'
    ],
    [
      { secret: undefined },
      'secret is required: a string or bytes of 32 bytes or more, the same on all instances'
    ],
    [{ prefix: '' }, 'prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got ""'],
    [{ prefix: 'a:b' }, 'prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got "a:b"'],
    [{ prefix: '{a}' }, 'prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got "{a}"'],
    [{ prefix: 'a\n' }, 'prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got "a\\n"'],
    [{ prefix: 7 }, 'prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got 7'],
    [{ instances: 0 }, 'instances must be an integer from 1 to 1000000, got 0'],
    [{ instances: '2' }, 'instances must be an integer from 1 to 1000000, got "2"'],
    [{ deadline: '11s' }, 'deadline must be at most 10s, got "11s"'],
    [{ deadline: 50 }, 'deadline must be at most 10s, got 50, which is in seconds'],
    [
      { deadline: 0.05 },
      "deadline must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d, got 0.05"
    ],
    [{ connection: 'own' }, 'connection must be "dedicated" or "shared", got "own"'],
    [{ time: 'client' }, 'time must be "server" or "caller", got "client"'],
    [{ cluster: true }, 'cluster must be "by-partition" or "one-slot", got true'],
    [
      { cluster: 'one slot' },
      'cluster must be "by-partition" or "one-slot", got "one slot"; did you mean "one-slot"?'
    ],
    [{ timeout: '50ms' }, 'unknown option "timeout" with the value "50ms"; did you mean "deadline"?'],
    [{ nodes: 3 }, 'unknown option "nodes" with the value 3; did you mean "instances"?'],
    [{ namespace: 'a' }, 'unknown option "namespace" with the value "a"; did you mean "prefix"?'],
    [{ skipOnError: true }, 'unknown option "skipOnError" with the value true; did you mean "onFailure"?'],
    [{ deadlines: 1 }, 'unknown option "deadlines" with the value 1; did you mean "deadline"?'],
    [
      { colour: 'red' },
      'unknown option "colour" with the value "red"; expected onFailure, secret, prefix, instances, deadline, connection, time, cluster'
    ]
  ]
  for (const [options, message] of table) refused(t, nowhere, { ...PATIENT, ...options }, message)
  refused(t, nowhere, undefined, 'options must be an object, with onFailure and secret, got undefined')
  refused(t, nowhere, [], 'options must be an object, got []')
})

t.test('a secret is never shown, whatever is wrong with it, and whatever it is called', async t => {
  const rule = 'secret must be a string or bytes of 32 bytes or more, the same on all instances'
  refused(t, nowhere, { ...PATIENT, secret: '' }, `${rule}, got 0 bytes`)
  refused(t, nowhere, { ...PATIENT, secret: 'swordfish' }, `${rule}, got 9 bytes`)
  refused(t, nowhere, { ...PATIENT, secret: Buffer.alloc(31) }, `${rule}, got 31 bytes`)
  refused(t, nowhere, { ...PATIENT, secret: 1234 }, `${rule}, got number`)
  refused(t, nowhere, { ...PATIENT, secret: { swordfish: 1 } }, `${rule}, got object`)
  const long = 'swordfish, and more of it than is needed'
  const shown = `"a string of ${long.length} characters"`
  refused(t, nowhere, long, `options must be an object, got ${shown}`)
  refused(
    t,
    nowhere,
    { ...PATIENT, salt: long },
    `unknown option "salt" with the value ${shown}; did you mean "secret"?`
  )
  refused(
    t,
    nowhere,
    { ...PATIENT, secrets: long },
    `unknown option "secrets" with the value ${shown}; did you mean "secret"?`
  )
  t.throws(() => redisStore(nowhere, { ...PATIENT, Secret: Buffer.from(long) } as RedisStoreOptions), {
    message: /^(?!.*swordfish)/
  })
})

t.test(
  '32 bytes are a secret, as text or not, and a deadline may be a millisecond or ten seconds',
  async t => {
    for (const options of [
      { secret: 'x'.repeat(32) },
      { secret: 'ä'.repeat(16) },
      { secret: new Uint8Array(32) },
      { secret: Buffer.alloc(64) },
      { deadline: '1ms' },
      { deadline: 10 },
      { prefix: 'A-z.0_9' },
      { instances: 1_000_000 },
      { cluster: undefined, time: undefined, connection: undefined }
    ] as const)
      t.type(redisStore(nowhere, { ...PATIENT, ...options }), RedisStore)
  }
)

t.test('what is no client is refused', async t => {
  const about = 'the first argument must be a client of ioredis, such as app.redis, got'
  const methods = 'defineCommand, duplicate, connect, disconnect, info, on, off'
  refused(t, undefined, PATIENT, `${about} undefined: register @fastify/redis first, with await`)
  refused(t, 'redis://user:password@host', PATIENT, `${about} "redis://user:password@host"`)
  refused(t, Redis, PATIENT, `${about} a function`)
  refused(
    t,
    { host: 'redis', password: 'swordfish' },
    PATIENT,
    `${about} an object with "host", "password" without ${methods}`
  )
  const decorated = { q: new Redis({ lazyConnect: true }) }
  refused(t, decorated, PATIENT, `${about} an object with "q" without ${methods}; it has one called "q"`)
  refused(t, new Map(), PATIENT, `${about} an instance of Map without ${methods}`)
  refused(
    t,
    new Redis({ lazyConnect: true }).pipeline(),
    PATIENT,
    /^redisStore: the first argument .* without duplicate, /
  )
  const methodsOnly = Object.fromEntries(methods.split(', ').map(name => [name, () => {}]))
  t.type(redisStore(methodsOnly as unknown as RedisClient, PATIENT), RedisStore, 'options are none of ours')
})

t.test("a client's prefix of keys is its own affair, but for braces", async t => {
  const braces =
    "the client's keyPrefix must not contain braces, which put all keys into one slot of a cluster, got"
  for (const keyPrefix of ['{app}:', 'a}', '{']) {
    refused(t, new Redis({ lazyConnect: true, keyPrefix }), PATIENT, `${braces} "${keyPrefix}"`)
    const cluster = new Cluster([], { lazyConnect: true, redisOptions: { keyPrefix } })
    refused(t, cluster, PATIENT, `${braces} "${keyPrefix}"`)
  }
  const client = clientOf(t, server, { keyPrefix: 'app:' })
  const store = await openStore(t, client, { prefix: 'mine' })
  t.equal(await ask(store, 'p'), 4)
  const keys = (await server.command('KEYS', 'app:*')).split('\n').filter(key => !key.endsWith(':probe'))
  t.strictSame(keys, [`app:${new Keys(SECRET, 'mine', false).of('p')}`])
})

t.test('a large exact log has to be asked for', async t => {
  const refusal = (options: PolicyOptions): string | undefined =>
    redisStore(nowhere, PATIENT).expect(
      compilePolicy('log', { window: '1h', precision: 'exact', ...options }, [])
    )
  t.equal(refusal({ quota: 100 }), undefined)
  t.equal(refusal({ quota: 101, largeLog: true }), undefined)
  t.equal(refusal({ quota: () => 1, largeLog: true }), undefined)
  t.equal(refusal({ quota: 101, precision: 10 }), undefined)
  const why =
    'for an exact log in Redis, which reads and writes all of it for each decision, unless largeLog is true'
  t.equal(refusal({ quota: 101 }), `quota must be at most 100 ${why}, got 101`)
  t.equal(refusal({ quota: () => 1 }), `quota must be at most 100 ${why}, got a function`)
  const store = redisStore(clientOf(t, server, { lazyConnect: true }), PATIENT)
  await t.rejects(serve(t, store, { log: { quota: 200, window: '1h', algorithm: 'sliding-window-log' } }), {
    code: 'FST_QUOTA_POLICY',
    message: `policy "log": quota must be at most 100 ${why}, got 200`
  })
})

// --- Clients ----------------------------------------------------------------------------------------------------------

t.test('any client will do, whatever it is doing at the time', async t => {
  const connected = clientOf(t, server)
  await connected.ping()
  const lazy = clientOf(t, server, { lazyConnect: true })
  const connecting = clientOf(t, server)
  const ended = clientOf(t, server)
  await ended.quit()
  const valkey = new Valkey({ host: server.host, port: server.port, lazyConnect: true })
  const connectedValkey = new Valkey({ host: server.host, port: server.port })
  t.teardown(() => [valkey, connectedValkey].map(client => client.disconnect()))
  await connectedValkey.ping()
  const stores: [string, RedisClient, RedisStoreOptions['connection']][] = [
    ['connected', connected, 'dedicated'],
    ['connected, shared', connected, 'shared'],
    ['lazy', lazy, 'dedicated'],
    ['connecting', connecting, 'dedicated'],
    ['connecting, shared', clientOf(t, server), 'shared'],
    ['lazy, shared', lazy, 'shared'],
    ['ended', ended, 'dedicated'],
    ['iovalkey', valkey, 'dedicated'],
    ['iovalkey, shared', connectedValkey, 'shared']
  ]
  for (const [name, client, connection] of stores) {
    const store = await openStore(t, client, { connection })
    t.equal(await ask(store, name), 4, name)
    t.equal(await ask(store, name), 3)
    store.close()
  }
})

t.test('a client that bundles its commands does so with ours', async t => {
  const store = await openStore(t, clientOf(t, server, { enableAutoPipelining: true }), {
    connection: 'shared'
  })
  const answers = await Promise.all(Array.from({ length: 9 }, () => ask(store, 'bundled')))
  t.strictSame(answers, [4, 3, 2, 1, 0, 0, 0, 0, 0])
})

t.test("that of @fastify/redis, which it leaves to the app's end", async t => {
  const app = Fastify()
  await app.register(fastifyRedis, { host: server.host, port: server.port })
  await app.register(quota, {
    policies: { burst: { quota: 2, window: '1h' } },
    store: redisStore(app.redis, { onFailure: 'closed', secret: SECRET, deadline: '10s', prefix: 'fastify' })
  })
  app.get('/', request => request.quota.source)
  const answers = [await app.inject('/'), await app.inject('/'), await app.inject('/')]
  t.strictSame(
    answers.map(({ statusCode, headers }) => [statusCode, headers['ratelimit']]),
    [
      [200, '"burst";r=1;t=3600'],
      [200, '"burst";r=0;t=3600'],
      [429, '"burst";r=0;t=3600']
    ]
  )
  t.equal(answers[0]!.body, 'redis')
  await app.close()
})

t.test('processes share what they count', async t => {
  const stores = await Promise.all([1, 2, 3].map(() => openStore(t, clientOf(t, server))))
  const answers: (number | string)[] = []
  for (const store of [...stores, ...stores]) answers.push(await ask(store, 'shared'))
  t.strictSame(answers, [4, 3, 2, 1, 0, 0])
})

t.test('partitions of another prefix or secret are others', async t => {
  const options: readonly Partial<RedisStoreOptions>[] = [
    {},
    { prefix: 'q2' },
    { secret: 'another secret of more than 32 bytes' },
    { cluster: 'one-slot' }
  ]
  for (const [i, each] of options.entries()) {
    const store = await openStore(t, clientOf(t, server), each)
    t.equal(await ask(store, 'prefixed', i + 1), 4 - i)
  }
})

// --- What happens to servers ------------------------------------------------------------------------------------------

t.test('a server that forgets the script is told it again, and counts on', async t => {
  for (const connection of ['dedicated', 'shared'] as const) {
    const store = await openStore(t, clientOf(t, server), { connection })
    const answers: (number | string)[] = []
    for (let i = 0; i < 6; i++) {
      await server.command('SCRIPT', 'FLUSH')
      answers.push(await ask(store, `flushed, ${connection}`))
    }
    t.strictSame(answers, [4, 3, 2, 1, 0, 0])
  }
})

t.test('a server that is started again is found again, and each charge has counted once', async t => {
  const durable = await startRedis(t, '--appendonly', 'yes', '--appendfsync', 'always')
  const changes = watchChanges(t)
  const store = await openStore(t, clientOf(t, durable))
  t.equal(await ask(store, 'p'), 4)
  for (const left of [3, 2]) {
    await durable.kill()
    t.equal(await ask(store, 'p'), 'closed')
    await durable.restart()
    await until('an answer', async () => (await ask(store, 'p', 0)) !== 'closed')
    t.equal(await ask(store, 'p'), left)
  }
  t.ok(changes.every(change => change.store === store && change.node === undefined))
  const states = changes.map(({ state }) => state)
  t.strictSame(
    states,
    states.map((_, i) => (i % 2 === 0 ? 'down' : 'up')),
    'down and up by turns'
  )
})

t.test('another server at the same address is told the script', async t => {
  const [one, other] = [server, await startRedis(t)]
  const target = { host: one.host, port: one.port }
  const proxy = await startProxy(t, target)
  const store = await openStore(t, clientOf(t, proxy), { deadline: '2s' })
  t.equal(await ask(store, 'another'), 4)
  target.port = other.port
  proxy.cut()
  await until('an answer', async () => (await ask(store, 'another', 0)) === 5)
  t.equal(await ask(store, 'another'), 4)
})

t.test('an app starts without Redis, and counts as soon as it is there', async t => {
  const late = await startRedis(t)
  await late.stop()
  const changes = watchChanges(t)
  const store = redisStore(clientOf(t, late, { lazyConnect: true }), { ...PATIENT, onFailure: 'local' })
  const served = await serve(t, store)
  t.strictSame(
    changes.map(({ state, code }) => [state, code]),
    [['down', 'ECONNREFUSED']]
  )
  t.equal(await get(served), 'local')
  await late.restart()
  await until('Redis', async () => (await get(served)) === 'redis')
  t.match(served.lines, [
    {
      level: 40,
      code: 'ECONNREFUSED',
      msg: 'fastify-quota: the store does not answer (ECONNREFUSED), so policies do as onStoreFailure says'
    },
    { level: 30, code: 'OK', msg: 'fastify-quota: the store answers again' }
  ])
})

// --- A server that refuses ---------------------------------------------------------------------------------------------

/** A user of the server, and the options of a client that is that user. */
async function user(
  name: string,
  ...rules: readonly string[]
): Promise<{ username: string; password: string }> {
  await server.command('ACL', 'SETUSER', name, 'reset', 'on', '>swordfish', '~*', ...rules)
  return { username: name, password: 'swordfish' }
}

t.test('a user who may do what the script does, and nothing else, is enough', async t => {
  const options = await user(
    'minimal',
    'resetkeys',
    '~q1:*',
    ...['eval', 'evalsha', 'time', 'hmget', 'hset', 'hdel', 'hlen', 'hgetall', 'pttl', 'pexpire', 'set'].map(
      command => `+${command}`
    )
  )
  t.capture(console, 'warn') // the client says that it may not ask for INFO
  for (const connection of ['dedicated', 'shared'] as const) {
    const store = await openStore(t, clientOf(t, server, options), { connection })
    t.equal(await ask(store, `minimal, ${connection}`), 4)
    t.equal(await ask(store, `minimal, ${connection}`), 3)
    const { limits } = await store.consume([charge('settled', 2)])
    await store.settle([{ ...charge('settled'), charges: limits[0]!.charges, actual: 0 }])
    t.equal(await ask(store, 'settled', 0), 5)
    await store.reset([charge(`minimal, ${connection}`)])
    t.equal(await ask(store, `minimal, ${connection}`, 0), 5)
  }
})

t.test('what a mistake does is said by the policy, and logged once for many requests', async t => {
  const options = await user('limited', '+@all', '-@scripting')
  for (const [onFailure, answer] of [
    ['open', 'open'],
    ['closed', '503'],
    ['local', 'local']
  ] as const) {
    const client = clientOf(t, server, options)
    const served = await serve(t, redisStore(client, { ...PATIENT, onFailure, prefix: onFailure }))
    for (let i = 0; i < 4; i++) t.equal(await get(served), answer)
    t.match(served.lines, [
      {
        level: 50,
        code: 'NOPERM',
        err: { code: 'FST_QUOTA_STORE', message: 'the store refuses to count: NOPERM' },
        msg: 'fastify-quota: the store answers with an error that waiting does not mend, so policies do as onStoreFailure says'
      }
    ])
    t.equal(served.lines.length, 1)
  }
})

t.test('as soon as it is mended it counts again, for no server is left alone for a mistake', async t => {
  const options = await user('mended', '+@all', '-@scripting')
  const changes = watchChanges(t)
  const store = await openStore(t, clientOf(t, server, options))
  for (let i = 0; i < 30; i++) t.equal(await ask(store, 'mended'), 'closed')
  await user('mended', '+@all')
  await until('a connection', async () => (await ask(store, 'mended', 0)) === 5)
  t.equal(await ask(store, 'mended'), 4)
  t.strictSame(
    [...new Set(changes.filter(({ code }) => code === 'NOPERM').map(({ state }) => state))],
    ['fault']
  )
})

t.test('keys of somebody else are left as they are', async t => {
  const changes = watchChanges(t)
  const store = await openStore(t, clientOf(t, server))
  const key = new Keys(SECRET, 'q1', false).of('foreign')
  await server.command('SET', key, 'of somebody else')
  for (let i = 0; i < 10; i++) t.equal(await ask(store, 'foreign'), 'closed')
  t.strictSame(await store.renew([{ ...charge('foreign'), charges: [{ at: 1, units: 1 }] }]), [
    [{ at: 1, units: 1 }]
  ])
  t.equal((await store.peek([charge('foreign')])).source, 'closed')
  await store.reset([charge('foreign')])
  t.equal(await server.command('GET', key), 'of somebody else')
  t.match(changes, [{ state: 'fault', code: 'WRONGTYPE' }])
  t.equal(changes.length, 1)
  t.equal(await ask(store, 'not foreign'), 4)
})

t.test('a password that is missing or wrong is told as such', async t => {
  const locked = await startRedis(t)
  await locked.command('CONFIG', 'SET', 'requirepass', 'swordfish')
  const changes = watchChanges(t)
  const codes = (): readonly string[] => changes.splice(0).map(({ state, code }) => `${state} ${code}`)
  const missing = await openStore(t, clientOf(t, locked))
  t.equal(await ask(missing, 'locked'), 'closed')
  t.strictSame(codes(), ['down NOAUTH'])
  const wrong = await openStore(t, clientOf(t, locked, { password: 'cuttlefish' }))
  t.equal(await ask(wrong, 'locked'), 'closed')
  t.strictSame(codes(), ['down WRONGPASS'])
  const right = await openStore(t, clientOf(t, locked, { password: 'swordfish' }))
  t.equal(await ask(right, 'locked'), 4)
})

t.test('an operator is warned of a server that forgets, and of one that cannot be written to', async t => {
  const warnings = watchWarnings(t)
  const master = await startRedis(t, '--maxmemory-policy', 'volatile-ttl')
  const replica = await startReplica(t, master)
  await serve(t, redisStore(clientOf(t, master), PATIENT))
  t.match(await warnings.heard(), [
    {
      code: 'FST_QUOTA_REDIS_EVICTION',
      message: /^Redis evicts keys when its memory is full \(maxmemory-policy volatile-ttl\)/
    }
  ])
  const served = await serve(t, redisStore(clientOf(t, replica), PATIENT))
  t.match((await warnings.heard()).slice(1), [
    {
      code: 'FST_QUOTA_REDIS_REPLICA',
      message: /^the Redis client is connected to a replica, which refuses all writes/
    }
  ])
  t.equal(await get(served), '503')
  t.match(served.lines, [{ level: 40, code: 'READONLY' }])
})

// --- Whose time ---------------------------------------------------------------------------------------------------------

t.test("with the caller's time it counts by that of the process, or by another clock", async t => {
  const store = await openStore(t, clientOf(t, server), { time: 'caller' })
  const before = Date.now()
  const [receipt] = (await store.consume([charge('caller')])).limits[0]!.charges
  t.ok(before <= receipt!.at && receipt!.at <= Date.now())
  let now = before + 3_600_000 + 5000
  store.useClock(() => now)
  t.equal(await ask(store, 'caller', 5), 0)
  now += 3_600_000
  t.equal(await ask(store, 'caller', 5), 0)
})

t.test("with the server's time, nobody else's counts", async t => {
  const store = await openStore(t, clientOf(t, server))
  store.useClock(() => 1)
  const [seconds] = (await server.command('TIME')).split('\n')
  const [receipt] = (await store.consume([charge('server')])).limits[0]!.charges
  t.ok(receipt!.at >= Number(seconds) * 1000)
})

// --- Its life -----------------------------------------------------------------------------------------------------------

/** Connections of stores to a server. */
async function connections(to: RedisServer): Promise<number> {
  return [...(await to.command('CLIENT', 'LIST')).matchAll(/ name=fastify-quota /g)].length
}

t.test('it is open from the first app that opens it to the last that closes it', async t => {
  const own = await startRedis(t)
  const client = clientOf(t, own)
  const store = redisStore(client, PATIENT)
  t.equal(await ask(store, 'p'), 'closed', 'nobody has opened it')
  store.close()
  await store.open()
  await store.open()
  t.equal(await connections(own), 1, 'one connection for all')
  store.close()
  t.equal(await ask(store, 'p'), 4, 'one app is left')
  store.close()
  await until('its end', async () => (await connections(own)) === 0)
  t.equal(await ask(store, 'p'), 'closed')
  store.close()
  await store.open()
  t.equal(await ask(store, 'p'), 3, 'closed once too often, it can be opened again')
  store.close()
  t.equal(client.status, 'ready', "the application's connection is none of its business")
})

t.test('two apps share a store, and each may be closed twice', async t => {
  const own = await startRedis(t)
  const store = redisStore(clientOf(t, own), PATIENT)
  const [one, other] = [await serve(t, store), await serve(t, store)]
  t.equal(await get(one), 'redis')
  t.equal(await get(other), 'redis')
  await one.app.close()
  await one.app.close()
  t.equal(await get(other), 'redis')
  t.equal(await ask(store, 'p', 0), 5)
  await other.app.close()
  await other.app.close()
  await until('its end', async () => (await connections(own)) === 0)
})

t.test('closed while it opens, it is closed, and tells nothing', async t => {
  const changes = watchChanges(t)
  const proxy = await startProxy(t, server)
  for (const connection of ['dedicated', 'shared'] as const) {
    const store = redisStore(clientOf(t, proxy, { lazyConnect: true }), { ...PATIENT, connection })
    proxy.freeze(true)
    const opening = store.open()
    store.close()
    await opening
    proxy.freeze(false)
    t.equal(await ask(store, 'p'), 'closed')

    const again = store.open()
    store.close()
    const oncemore = store.open()
    await Promise.all([again, oncemore])
    t.equal(await ask(store, `closed while ${connection}`), 4)
    store.close()
  }
  const gone = redisStore(clientOf(t, { host: '127.0.0.1', port: 1 }, { lazyConnect: true }), PATIENT)
  const opening = gone.open()
  gone.close()
  await opening
  for (let i = 0; i < 20; i++) t.equal(await ask(gone, 'p'), 'closed')
  await new Promise(resolve => setTimeout(resolve, 400)) // longer than to a first probe
  t.strictSame(changes, [])
})

t.test('an app closes at once, also while Redis hangs', async t => {
  const proxy = await startProxy(t, server)
  const store = redisStore(clientOf(t, proxy, { lazyConnect: true }), PATIENT)
  const served = await serve(t, store)
  t.equal(await get(served), 'redis')
  proxy.freeze(true)
  const waiting = get(served)
  await new Promise(resolve => setTimeout(resolve, 10))
  const started = performance.now()
  store.close()
  t.equal(await waiting, '503')
  await served.app.close()
  t.ok(performance.now() - started < 5000)
})

t.test('a closed one keeps no process alive, and prints nothing', async t => {
  const module = new URL('../../src/index.js', import.meta.url).href
  const script = `
    import Fastify from 'fastify'
    import { Redis } from 'ioredis'
    import quota, { redisStore } from ${JSON.stringify(module)}
    for (const port of [${server.port}, 1]) {
      const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true })
      const app = Fastify()
      const store = redisStore(client, { onFailure: 'open', secret: ${JSON.stringify(SECRET)} })
      await app.register(quota, { policies: { a: '5/1m' }, store })
      app.get('/', request => request.quota.source)
      await app.inject('/')
      await app.close()
    }
    console.log('done')
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill())
  let output = ''
  child.stdout.on('data', (text: Buffer) => (output += text.toString()))
  child.stderr.on('data', (text: Buffer) => (output += text.toString()))
  const timer = setTimeout(() => child.kill(), 60_000)
  t.strictSame(await once(child, 'exit'), [0, null])
  clearTimeout(timer)
  t.equal(output, 'done\n')
})
