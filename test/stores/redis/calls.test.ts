import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Redis, RedisOptions } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { compilePolicy } from '../../../src/policy.js'
import { StoreFailure } from '../../../src/stores/guard/failure.js'
import { GuardedCalls } from '../../../src/stores/redis/calls.js'
import { chargeCommand } from '../../../src/stores/redis/command.js'
import type { Command, Reply } from '../../../src/stores/redis/command.js'
import { ScriptClient } from '../../../src/stores/redis/script-client.js'
import { startProxy } from '../../redis/proxy.js'
import type { Proxy } from '../../redis/proxy.js'
import { startRedis } from '../../redis/servers.js'
import { StillTime, clientOf, rewriting, until } from './kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)
const burst = compilePolicy('burst', { quota: 1000, window: '1h' }, [])

const charge = (key: string, units: number = 1): Command =>
  chargeCommand({ keyOf: () => key, fields: 0 }, 'charge', [{ partition: 'p', policy: burst, units }])

/** What is left after all that was charged there. */
async function spent(redis: Redis, key: string): Promise<number> {
  const calls = new GuardedCalls(await opened(redis), 10_000, undefined, () => {}, new StillTime())
  const reply = await calls.call({ ...charge(key, 0), operation: 'try' })
  return reply instanceof StoreFailure ? NaN : 1000 - reply.numbers[1]!
}

async function opened(redis: Redis): Promise<ScriptClient> {
  const client = new ScriptClient(redis, 'shared', new StillTime())
  await client.open(async () => {})
  return client
}

interface Bench {
  readonly calls: GuardedCalls
  readonly client: ScriptClient
  readonly timing: StillTime
  readonly proxy: Proxy
  /** What was told: state and code. */
  readonly told: readonly string[]
  /** A connection that has nothing to do with the calls. */
  readonly redis: Redis
}

interface Wish {
  readonly deadline?: number
  readonly clock?: () => number
  /** One of its own gives up when nothing comes back for a second, whatever time a test says it is. */
  readonly connection?: 'dedicated' | 'shared'
  readonly options?: Pick<RedisOptions, 'username' | 'password'>
}

/** Calls through a proxy, with a time that stands still. */
async function bench(
  t: Test,
  { deadline = 10_000, clock, connection = 'shared', options = {} }: Wish = {}
): Promise<Bench> {
  const proxy = await startProxy(t, server)
  const timing = new StillTime()
  const client = new ScriptClient(clientOf(t, proxy, { lazyConnect: true, ...options }), connection, timing)
  t.teardown(() => client.close())
  await client.open(async () => {})
  const told: string[] = []
  const tell = (state: string, code: string): void => void told.push(`${state} ${code}`)
  const calls = new GuardedCalls(client, deadline, clock, tell, timing)
  t.teardown(() => calls.close())
  return { calls, client, timing, proxy, told, redis: clientOf(t, server) }
}

const code = (result: Reply | StoreFailure): string => (result instanceof StoreFailure ? result.code : 'OK')

/** Lets time pass, and what waits for it happen. */
async function pass({ timing }: Bench, ms: number): Promise<void> {
  timing.pass(ms)
  await turn()
  await turn()
}

t.test('a call is answered', async t => {
  const { calls } = await bench(t)
  const reply = (await calls.call(charge('answered', 3))) as Reply
  t.match(reply, { fenced: false, numbers: [1, 997] })
  t.ok(Math.abs(reply.now - Date.now()) < 60_000, "the server's time")
})

t.test('it is over with its deadline, and what comes later is told to whoever wants to know', async t => {
  const b = await bench(t)
  await b.calls.call(charge('late'))
  b.proxy.delay = 20
  const late: Reply[] = []
  const [listened, ignored] = [
    b.calls.call(charge('late'), reply => late.push(reply)),
    b.calls.call(charge('late'))
  ]
  await pass(b, 9999)
  t.equal(late.length, 0)
  await pass(b, 1)
  t.match(await listened, { code: 'TIMEOUT', kind: 'outage', retryAfter: 0 })
  t.match(await ignored, { code: 'TIMEOUT' })
  await until('the late reply', () => late.length === 1)
  t.match(late, [{ numbers: [1, 998] }])
  t.equal(await spent(b.redis, 'late'), 3)
})

t.test('calls of one decision have one deadline', async t => {
  const b = await bench(t)
  const attempt = b.calls.begin()
  t.equal(code(await b.calls.call(charge('shared deadline'), undefined, attempt)), 'OK')
  await pass(b, 9999)
  t.equal(code(await b.calls.call(charge('shared deadline'), undefined, attempt)), 'OK')
  b.proxy.freeze(true)
  const waiting = b.calls.call(charge('shared deadline'), undefined, attempt)
  await pass(b, 1)
  t.equal(code(await waiting), 'TIMEOUT')
  const hopeless = b.calls.call(charge('shared deadline'), undefined, attempt)
  t.ok(hopeless instanceof StoreFailure, 'after it nobody is asked any more')
  t.match(hopeless, { code: 'TIMEOUT', effect: 'none' })
})

t.test('what the script cannot have said is a fault, and told once', async t => {
  for (const text of [
    'return 1',
    'return {}',
    'return false',
    "return 'OK'",
    "return '1 5'",
    "return struct.pack('<dd', 0, 0 / 0)",
    "return struct.pack('<ddd', 0, 5, 1)"
  ]) {
    const told: string[] = []
    const client = await opened(rewriting(clientOf(t, server), () => text))
    const tell = (state: string, code: string): void => void told.push(`${state} ${code}`)
    const calls = new GuardedCalls(client, 10_000, undefined, tell, new StillTime())
    for (let i = 0; i < 2; i++) {
      t.match(
        await calls.call(charge('foreign reply')),
        { code: 'REPLY', kind: 'fault', effect: 'unknown' },
        text
      )
    }
    t.strictSame(told, ['fault REPLY'])
    calls.close()
    client.close()
  }
})

// --- The fence --------------------------------------------------------------------------------------------------------

t.test('what reaches the server after the deadline is not done there', async t => {
  const b = await bench(t, { deadline: 100 })
  await b.calls.call(charge('fenced'))
  b.proxy.freeze(true)
  const late: Reply[] = []
  const asked = Array.from({ length: 10 }, async () =>
    b.calls.call(charge('fenced'), reply => late.push(reply))
  )
  await pass(b, 100)
  t.strictSame(
    (await Promise.all(asked)).map(code),
    asked.map(() => 'TIMEOUT')
  )
  await sleep(150)
  b.proxy.freeze(false)
  await until('a probe, and a call', async () => {
    await pass(b, 1000)
    return code(await b.calls.call(charge('fenced'))) === 'OK'
  })
  // By then the server has read all of them.
  t.strictSame(late, [])
  t.equal(await spent(b.redis, 'fenced'), 2)
})

t.test('but for what is worth doing late', async t => {
  const b = await bench(t, { deadline: 100 })
  await b.calls.call(charge('patient'))
  b.proxy.freeze(true)
  const asked = b.calls.call({ ...charge('patient', 10), patient: true })
  await pass(b, 100)
  t.match(await asked, { code: 'TIMEOUT', effect: 'unknown' })
  await sleep(150)
  b.proxy.freeze(false)
  await until('the charge', async () => (await spent(b.redis, 'patient')) === 11)
})

/** Time stands still here and goes on there, as if the server's clock had been set forward. */
t.test('a clock that was set forward is learned anew, and nobody notices', async t => {
  const b = await bench(t, { deadline: 1000 })
  await b.calls.call(charge('set forward'))
  await sleep(1010)
  for (let i = 0; i < 3; i++) t.match(await b.calls.call(charge('set forward')), { fenced: false })
  t.equal(await spent(b.redis, 'set forward'), 4, 'each is charged once')
  t.strictSame(b.told, [])
})

t.test('but not twice for one call', async t => {
  const b = await bench(t, { deadline: 50 })
  await b.calls.call(charge('twice'))
  await sleep(60)
  b.proxy.delay = 100
  t.match(await b.calls.call(charge('twice')), { code: 'FENCED', kind: 'outage', effect: 'none' })
  t.equal(await spent(b.redis, 'twice'), 1)
})

t.test('what is fenced too late to matter is only learned from', async t => {
  const b = await bench(t, { deadline: 1000 })
  await b.calls.call(charge('too late'))
  await sleep(1010)
  b.proxy.delay = 20
  const late: Reply[] = []
  const asked = b.calls.call(charge('too late'), reply => late.push(reply))
  await pass(b, 1000)
  t.equal(code(await asked), 'TIMEOUT')
  t.equal(code(await b.calls.call(charge('too late'))), 'OK')
  t.strictSame(late, [])
  t.equal(await spent(b.redis, 'too late'), 2)
})

t.test("a caller's clock has no fence", async t => {
  let now = 1_753_900_000_123
  const b = await bench(t, { clock: () => now })
  t.match(await b.calls.call(charge('clocked')), { now })
  now -= 5000
  t.match(await b.calls.call(charge('clocked')), { now, fenced: false, numbers: [1, 998] })
})

// --- A server that does not answer -----------------------------------------------------------------------------------

t.test('after five failures the server is left alone, until a probe finds it well', async t => {
  const b = await bench(t)
  b.proxy.freeze(true)
  for (let i = 0; i < 5; i++) {
    const call = b.calls.call(charge('down'))
    await pass(b, 10_000)
    t.match(await call, { code: 'TIMEOUT', retryAfter: i < 4 ? 0 : 250 })
  }
  t.strictSame(b.told, ['down TIMEOUT'])
  b.timing.pass(100)
  const left = b.calls.call(charge('down'))
  t.ok(left instanceof StoreFailure, 'at once')
  t.match(left, { code: 'DOWN', kind: 'outage', retryAfter: 150, effect: 'none' })
  t.match(b.calls.down('down'), { code: 'DOWN', retryAfter: 150, effect: 'none' })
  b.proxy.freeze(false)
  await until('a connection', () => b.client.ready)
  await pass(b, 150)
  await until('the probe', () => b.told.length === 2)
  t.strictSame(b.told, ['down TIMEOUT', 'up OK'])
  t.equal(code(await b.calls.call(charge('down'))), 'OK')
  t.equal(b.calls.down('down'), undefined)
})

t.test('without a connection nobody is asked', async t => {
  const b = await bench(t, { connection: 'dedicated' })
  b.proxy.refuse(true)
  b.proxy.cut()
  await until('the end of the connection', () => !b.client.ready)
  for (let i = 0; i < 5; i++) {
    const failure = b.calls.call(charge('cut'))
    t.ok(failure instanceof StoreFailure, 'at once')
    t.match(failure, { code: b.client.lastError, effect: 'none' })
  }
  t.match(b.told, [/^down /])
  t.match(b.calls.call(charge('cut')), { code: 'DOWN' })

  await pass(b, 250)
  t.equal(b.told.length, 1, 'a probe fails at once, too')
  b.proxy.refuse(false)
  await until('another connection', () => b.client.ready)
  b.calls.hasten()
  await until('the probe', () => b.told.length === 2)
  t.equal(code(await b.calls.call(charge('cut'))), 'OK')
})

t.test('what is under way when the connection ends has failed, and is not sent again', async t => {
  const b = await bench(t, { connection: 'dedicated' })
  await b.calls.call(charge('under way'))
  b.proxy.dropReplies(true)
  const late: Reply[] = []
  const waiting = b.calls.call(charge('under way'), reply => late.push(reply))
  const given = b.calls.call(charge('under way'), reply => late.push(reply))
  await until('the charges', async () => (await spent(b.redis, 'under way')) === 3)
  b.proxy.dropReplies(false)
  b.proxy.cut()
  t.match(await waiting, { code: 'CONNECTION', kind: 'outage', effect: 'unknown' })
  t.match(await given, { code: 'CONNECTION' })
  await until('another connection', () => b.client.ready)
  t.equal(code(await b.calls.call(charge('under way'))), 'OK')
  t.equal(await spent(b.redis, 'under way'), 4)
  t.strictSame(late, [])
})

t.test('what fails when nobody waits for it any more is no failure of it', async t => {
  const b = await bench(t, { connection: 'dedicated' })
  for (let i = 0; i < 4; i++) {
    b.proxy.freeze(true)
    const call = b.calls.call(charge('given up'))
    await pass(b, 10_000)
    t.equal(code(await call), 'TIMEOUT')
    b.proxy.cut()
    b.proxy.freeze(false)
    await until('another connection', () => b.client.ready)
  }
  t.strictSame(b.told, [], 'four failures, not eight')
})

t.test('more than a thousand at once wait for nothing but each other, so they do not', async t => {
  const b = await bench(t)
  await b.calls.call(charge('many'))
  b.proxy.freeze(true)
  const waiting = Array.from({ length: 1000 }, async () => b.calls.call(charge('many')))
  const shed = Array.from({ length: 100 }, () => b.calls.call(charge('many')))
  t.ok(shed.every(result => result instanceof StoreFailure && result.code === 'SHED'))
  b.proxy.freeze(false)
  t.ok((await Promise.all(waiting)).every(result => code(result) === 'OK'))
  t.equal(code(await b.calls.call(charge('many'))), 'OK', 'there is room again')
  t.equal(await spent(b.redis, 'many'), 1000)
  t.strictSame(b.told, [])
})

// --- A server that refuses -------------------------------------------------------------------------------------------

t.test('a mistake fails at once, is told once a minute, and no server is left alone for it', async t => {
  const b = await bench(t)
  await b.redis.set('a text', 'of somebody else')
  for (let i = 0; i < 30; i++)
    t.match(await b.calls.call(charge('a text')), { code: 'WRONGTYPE', kind: 'fault', retryAfter: 0 })
  t.strictSame(b.told, ['fault WRONGTYPE'])
  t.equal(code(await b.calls.call(charge('beside a text'))), 'OK')
  b.timing.time += 59_999
  await b.calls.call(charge('a text'))
  t.equal(b.told.length, 1)
  b.timing.time += 1
  await b.calls.call(charge('a text'))
  t.strictSame(b.told, ['fault WRONGTYPE', 'fault WRONGTYPE'])
})

t.test('each mistake is told for itself, also when nobody waits for the answer', async t => {
  const b = await bench(t)
  await b.redis.set('another text', 'of somebody else')
  await b.redis.hset('nonsense', burst.field, '')
  b.proxy.delay = 20
  const call = b.calls.call(charge('another text'))
  await pass(b, 10_000)
  t.equal(code(await call), 'TIMEOUT')
  await until('the mistake', () => b.told.length === 1)
  b.proxy.delay = 0
  t.equal(code(await b.calls.call(charge('nonsense'))), 'ERR')
  t.strictSame(b.told, ['fault WRONGTYPE', 'fault ERR'])
})

t.test('who may not call the script is told so, and not taken for an outage', async t => {
  const redis = clientOf(t, server)
  await redis.call('ACL', 'SETUSER', 'limited', 'on', '>word', '~*', '+@all', '-evalsha', '-eval')
  const b = await bench(t, { options: { username: 'limited', password: 'word' } })
  await b.calls.greet(['greeted'])
  t.strictSame(b.told, ['fault NOPERM'])
  for (let i = 0; i < 10; i++) t.equal(code(await b.calls.call(charge('forbidden'))), 'NOPERM')
  t.strictSame(b.told, ['fault NOPERM'])
  await redis.call('ACL', 'SETUSER', 'limited', '+@all')
  t.equal(code(await b.calls.call(charge('forbidden'))), 'OK', 'it is asked again each time')
})

// --- Its life ---------------------------------------------------------------------------------------------------------

t.test('a greeting tells whether a server is well, and if not, it is left alone at once', async t => {
  const b = await bench(t)
  await b.calls.greet(['one', 'two'])
  t.strictSame(b.told, [])
  t.equal(await b.redis.exists('one:probe', 'two:probe'), 2)
  b.proxy.freeze(true)
  const greeting = b.calls.greet(['one'])
  await pass(b, 10_000)
  await greeting
  t.strictSame(b.told, ['down TIMEOUT'])
  t.match(b.calls.call(charge('one')), { code: 'DOWN', retryAfter: 250 })
})

t.test('before it is opened and after it is closed nobody is asked, told or probed', async t => {
  const told: string[] = []
  const timing = new StillTime()
  const client = new ScriptClient(clientOf(t, server), 'dedicated', timing)
  const calls = new GuardedCalls(client, 10_000, undefined, state => told.push(state), timing)
  const check = async (): Promise<void> => {
    for (let i = 0; i < 10; i++)
      t.match(calls.call(charge('closed')), { code: 'CLOSED', kind: 'outage', effect: 'none' })
    await calls.greet(['closed'])
    timing.pass(100_000)
    await turn()
    t.equal(timing.pending, 0)
    t.strictSame(told, [])
  }
  await check()
  await client.open(async () => {})
  t.equal(code(await calls.call(charge('open'))), 'OK')
  const underWay = Array.from({ length: 10 }, async () => calls.call(charge('open')))
  calls.close()
  client.close()
  await Promise.all(underWay)
  await check()
  await client.open(async () => {})
  t.equal(code(await calls.call(charge('open'))), 'OK')
  client.close()
})

t.test('a probe that is under way when it is closed tells nothing', async t => {
  const b = await bench(t, { connection: 'dedicated' })
  b.proxy.freeze(true)
  const greeting = b.calls.greet(['closing'])
  b.calls.close()
  b.client.close()
  await greeting
  t.strictSame(b.told, [])
})
