import type { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { realTiming } from '../../../src/stores/guard/timing.js'
import type { Timing } from '../../../src/stores/guard/timing.js'
import type { RedisClient } from '../../../src/stores/redis/client.js'
import { compilePolicy } from '../../../src/policy.js'
import { chargeCommand, decode } from '../../../src/stores/redis/command.js'
import type { Command } from '../../../src/stores/redis/command.js'
import { Plans } from '../../../src/stores/redis/plans.js'
import { ScriptClient } from '../../../src/stores/redis/script-client.js'
import { watchWarnings } from '../../plugin/kit.js'
import { startProxy } from '../../redis/proxy.js'
import { startRedis, startReplica } from '../../redis/servers.js'
import { StillTime, clientOf, isWell, until } from './kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)

const probe = (...keys: readonly string[]): Command => ({
  operation: 'probe',
  keys,
  fields: 0,
  items: [],
  patient: false,
  numbers: 0
})
const nobody = async (): Promise<void> => {}

/** A client of the script that is closed at the end of a test. */
function scripting(
  t: Test,
  source: RedisClient,
  connection: 'dedicated' | 'shared' = 'dedicated',
  timing: Timing = realTiming
): ScriptClient {
  const client = new ScriptClient(source, connection, timing)
  t.teardown(() => client.close())
  return client
}

/** The names under which clients are connected. */
const connected = async (): Promise<readonly string[]> =>
  [...(await server.command('CLIENT', 'LIST')).matchAll(/ name=(\S*) /g)].map(([, name]) => name!)

t.test('it connects on its own, and is ready when that is over', async t => {
  const source = clientOf(t, server, { lazyConnect: true })
  const client = scripting(t, source)
  t.equal(client.closed, true)
  t.equal(client.ready, false)
  await client.open(nobody)
  t.equal(client.ready, true)
  t.equal(client.closed, false)
  t.ok(isWell(await client.execute(probe('own'), 0, 0)))
  t.ok((await connected()).includes('fastify-quota'))
  t.equal(source.status, 'wait', 'the client it was given is not touched')

  client.close()
  t.equal(client.closed, true)
  t.equal(client.ready, false)
  await until('the end of the connection', async () => !(await connected()).includes('fastify-quota'))
  client.close()
})

t.test('it can be opened again', async t => {
  const client = scripting(t, clientOf(t, server))
  for (let i = 0; i < 3; i++) {
    await client.open(nobody)
    t.equal(client.ready, true)
    t.ok(isWell(await client.execute(probe('again'), 0, 0)))
    client.close()
    t.equal(client.ready, false)
  }
})

t.test("or it shares the application's connection, which it does not end", async t => {
  for (const lazyConnect of [true, false]) {
    const source = clientOf(t, server, { lazyConnect })
    if (!lazyConnect) await source.ping()
    const listeners = (): readonly number[] =>
      ['ready', 'close', 'error'].map(event => source.listenerCount(event))
    const before = listeners()
    const client = scripting(t, source, 'shared')
    await client.open(nobody)
    t.equal(client.ready, true)
    t.ok(isWell(await client.execute(probe('shared'), 0, 0)))
    t.notSame(listeners(), before)
    client.close()
    t.strictSame(listeners(), before, 'and leaves nothing behind')
    t.equal(source.status, 'ready')
    t.equal(await source.ping(), 'PONG')
  }
})

t.test('who connects is told before others may call', async t => {
  const client = scripting(t, clientOf(t, server))
  const states: boolean[] = []
  await client.open(async () => {
    states.push(client.ready)
    await client.execute(probe('greeting'), 0, 0)
    states.push(client.ready)
  })
  t.strictSame(states, [true, true], 'and can call already')
})

t.test('each new connection is told of, and no other', async t => {
  const proxy = await startProxy(t, server)
  const client = scripting(t, clientOf(t, proxy, { lazyConnect: true }))
  let told = 0
  await client.open(async () => void told++)
  t.equal(told, 1)
  for (const times of [2, 3]) {
    proxy.cut()
    await until('a new connection', () => told === times)
    t.equal(client.ready, true)
    t.ok(isWell(await client.execute(probe('after a cut'), 0, 0)))
  }
  client.close()
  proxy.cut()
  t.equal(told, 3)
})

t.test('the script is sent once for a number of keys, then its digest', async t => {
  const client = scripting(t, clientOf(t, server))
  await client.open(nobody)
  await server.command('CONFIG', 'RESETSTAT')
  const calls = async (command: string): Promise<string | undefined> =>
    new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(
      await server.command('INFO', 'commandstats')
    )?.[1]
  for (const keys of [['a'], ['a'], ['b'], ['a', 'b'], ['a', 'b'], ['c', 'd']])
    await client.execute(probe(...keys), 0, 0)
  t.equal(await calls('eval'), '2')
  t.equal(await calls('evalsha'), '4')

  await server.command('SCRIPT', 'FLUSH')
  t.ok(isWell(await client.execute(probe('a'), 0, 0)), 'a server that has forgotten it is told again')
  t.equal(await calls('eval'), '3')
})

t.test(
  'the script of a plan is sent once, and again to who has forgotten it or is another server',
  async t => {
    const burst = compilePolicy('burst', { quota: 1_000_000, window: '1h' }, [])
    for (const connection of ['dedicated', 'shared'] as const) {
      const proxy = await startProxy(t, server)
      const client = scripting(t, clientOf(t, proxy, { lazyConnect: true }), connection)
      let told = 0
      await client.open(async () => void told++)
      const plans = new Plans('server')
      const charge = async (key: string): Promise<void> => {
        const encoding = { keyOf: () => `${connection} ${key}`, fields: 0, plans }
        const command = chargeCommand(encoding, 'charge', [{ partition: key, policy: burst, units: 1 }])
        t.ok(command.plan)
        t.match(decode(await client.execute(command, 0, 0), 7), { fenced: false }, key)
      }
      await server.command('CONFIG', 'RESETSTAT')
      const calls = async (): Promise<readonly (string | undefined)[]> => {
        const stats = await server.command('INFO', 'commandstats')
        return ['eval', 'evalsha'].map(
          name => new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1]
        )
      }
      for (const key of ['a', 'b', 'c']) await charge(key)
      t.strictSame(await calls(), ['1', '2'])
      await server.command('SCRIPT', 'FLUSH')
      await charge('a')
      t.strictSame(await calls(), ['2', '3'], 'a server that has forgotten it')
      proxy.cut()
      await until('another connection', () => told === 2 && client.ready)
      await charge('a')
      t.strictSame(await calls(), ['3', '3'], 'another connection')
      client.close()
      await client.open(async () => {})
      await charge('a')
    }
  }
)

t.test('two stores that share a connection do not mix up their plans', async t => {
  const source = clientOf(t, server)
  const charged = async (quota: number): Promise<number> => {
    const client = scripting(t, source, 'shared')
    await client.open(nobody)
    const encoding = { keyOf: () => `quota ${quota}`, fields: 0, plans: new Plans('server') }
    const policy = compilePolicy('any', { quota, window: '1h' }, [])
    const command = chargeCommand(encoding, 'charge', [{ partition: 'p', policy, units: 1 }])
    await client.execute(command, 0, 0)
    return decode(await client.execute(command, 0, 0), 7)!.numbers[1]!
  }
  t.strictSame([await charged(10), await charged(20), await charged(10)], [8, 18, 6])
})

t.test('the start of an app does not wait for a server that is not there', async t => {
  const nowhere = clientOf(t, { host: '127.0.0.1', port: 1 }, { lazyConnect: true })
  const client = scripting(t, nowhere)
  t.equal(client.lastError, 'CONNECTION', 'nothing is known yet')
  await client.open(async () => void t.fail('connected'))
  t.equal(client.ready, false)
  t.equal(client.lastError, 'ECONNREFUSED')
})

t.test('nor for one that does not answer, longer than 1.5 s', async t => {
  const proxy = await startProxy(t, server)
  proxy.freeze(true)
  const timing = new StillTime()
  const client = scripting(t, clientOf(t, proxy, { lazyConnect: true }), 'dedicated', timing)
  let opened = false
  const opening = client.open(nobody).then(() => (opened = true))
  timing.pass(1499)
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(opened, false)
  timing.pass(1)
  await opening
  t.equal(client.ready, false)
  proxy.freeze(false)
  await until('the connection', () => client.ready)
  t.equal(timing.pending, 0)
})

t.test('nor for one that is closed before it is there', async t => {
  const proxy = await startProxy(t, server)
  proxy.freeze(true)
  const timing = new StillTime()
  const client = scripting(t, clientOf(t, proxy, { lazyConnect: true }), 'dedicated', timing)
  const opening = client.open(async () => void t.fail('connected'))
  client.close()
  await opening
  proxy.freeze(false)
  t.equal(client.ready, false)
  t.equal(timing.pending, 0)
})

t.test('a server that comes later is found', async t => {
  const late = await startRedis(t)
  await late.stop()
  const client = scripting(t, clientOf(t, late, { lazyConnect: true }))
  let told = 0
  await client.open(async () => void told++)
  t.equal(told, 0)
  await late.restart()
  await until('the connection', () => told === 1)
  t.equal(client.ready, true)
})

t.test('one connection knows of no cluster', async t => {
  const client = scripting(t, clientOf(t, server))
  t.equal(client.nodeOf('a'), undefined)
  await client.open(nobody)
  t.equal(client.nodeOf('a'), undefined)
})

// --- What the server says of itself -----------------------------------------------------------------------------------

/** A client that says something else when it is asked for `INFO`; by itself, it asks with a callback. */
function saying(source: Redis, say: (info: string) => string | Promise<string>): RedisClient {
  const info = source.info.bind(source) as (...callback: readonly unknown[]) => Promise<string>
  const asked = (...callback: readonly unknown[]): Promise<string> =>
    callback.length > 0 ? info(...callback) : info().then(say)
  return Object.assign(source, { info: asked })
}

/** What is defined on a client: the first line of each script that is not the one before. */
function definitions(source: Redis): readonly string[] {
  const defined: string[] = []
  const define = source.defineCommand.bind(source)
  source.defineCommand = (name, definition) => {
    const [line] = definition.lua.split('\n')
    if (line !== defined.at(-1)) defined.push(line!)
    define(name, definition)
  }
  return defined
}

t.test('an older server gets the script without its first line, and advice if it is too old', async t => {
  const warnings = watchWarnings(t)
  const table = [
    ['4.0.14', 'local charging = false', ['FST_QUOTA_REDIS_VERSION']],
    ['5.0.14', 'local charging = false', []],
    ['6.2.14', 'local charging = false', []],
    ['7.0.0', '#!lua', []],
    ['8.2.1', '#!lua', []],
    ['nobody knows', 'local charging = false', []]
  ] as const
  for (const [version, firstLine, codes] of table) {
    const before = (await warnings.heard()).length
    const source = clientOf(t, server)
    const defined = definitions(source)
    const said = saying(source, info => info.replace(/^redis_version:.*$/m, `redis_version:${version}`))
    const client = scripting(t, said, 'shared')
    await client.open(nobody)
    t.ok(isWell(await client.execute(probe('old'), 0, 0)), version)
    t.strictSame(defined, [firstLine])
    t.strictSame(
      (await warnings.heard()).slice(before).map(({ code }) => code),
      codes
    )
  }
})

t.test('another server may know another script', async t => {
  for (const connection of ['dedicated', 'shared'] as const) {
    const proxy = await startProxy(t, server)
    const source = clientOf(t, proxy, { lazyConnect: true })
    let version = '7.0.0'
    let defined: readonly string[] = []
    const listened = (client: Redis): Redis => {
      defined = definitions(client)
      const say = (info: string): string => info.replace(/^redis_version:.*$/m, `redis_version:${version}`)
      return saying(client, say) as Redis
    }
    const duplicate = source.duplicate.bind(source)
    source.duplicate = options => listened(duplicate(options))
    const client = scripting(t, connection === 'shared' ? listened(source) : source, connection)
    let told = 0
    await client.open(async () => void told++)
    await client.execute(probe('failover'), 0, 0)
    for (const [i, next] of ['6.2.14', '6.2.14'].entries()) {
      version = next
      proxy.cut()
      await until('another connection', () => told === i + 2)
      t.ok(isWell(await client.execute(probe('failover'), 0, 0)))
    }
    t.strictSame(defined, ['#!lua', 'local charging = false'], connection)
  }
})

t.test('a server that forgets keys, and one that cannot be written to, are advised against once', async t => {
  const warnings = watchWarnings(t)
  const master = await startRedis(t, '--maxmemory-policy', 'allkeys-lru')
  const replica = await startReplica(t, master, '--maxmemory-policy', 'allkeys-lru')
  const heard = async (): Promise<readonly string[]> => (await warnings.heard()).map(({ code }) => code)
  for (const [{ host, port }, codes] of [
    [master, ['FST_QUOTA_REDIS_EVICTION']],
    [replica, ['FST_QUOTA_REDIS_EVICTION', 'FST_QUOTA_REDIS_REPLICA']]
  ] as const) {
    const before = (await heard()).length
    const source = clientOf(t, { host, port })
    const client = scripting(t, source, 'shared')
    let told = 0
    await client.open(async () => void told++)
    t.strictSame((await heard()).slice(before), codes)
    for (const times of [2, 3]) {
      source.disconnect(true)
      await until('another connection', () => told === times)
    }
    t.strictSame((await heard()).slice(before), codes, 'not for each connection')
  }
  t.match((await warnings.heard())[0], { message: /\(maxmemory-policy allkeys-lru\)/ })
})

t.test('what may not be asked, or is not answered, is taken to be in order', async t => {
  const warnings = watchWarnings(t)
  const refused = scripting(
    t,
    saying(clientOf(t, server), () => Promise.reject(new Error('NOPERM'))),
    'shared'
  )
  await refused.open(nobody)
  t.equal(refused.ready, true)

  const timing = new StillTime()
  const unanswered = clientOf(t, server)
  await unanswered.ping()
  let told = false
  const client = scripting(
    t,
    saying(unanswered, () => new Promise(() => {})),
    'shared',
    timing
  )
  const opening = client.open(async () => void (told = true))
  t.equal(client.ready, false)
  timing.pass(1500)
  await opening
  await until('the connection', () => told)
  t.equal(client.ready, true)
  t.ok(isWell(await client.execute(probe('quiet'), 0, 0)))
  t.strictSame(await warnings.heard(), [])
})

t.test('one that is closed while it asks goes no further, nor if it is opened again', async t => {
  const asked: (() => void)[] = []
  const source = clientOf(t, server)
  const slow = saying(source, info => new Promise(resolve => asked.push(() => resolve(info))))
  const client = scripting(t, slow, 'shared')
  await source.ping()
  const opening = client.open(async () => void t.fail('connected'))
  await until('a question', () => asked.length === 1)
  client.close()
  await opening
  asked[0]!()
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(client.ready, false)
})
