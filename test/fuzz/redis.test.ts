import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { parseList } from 'structured-headers'
import t from 'tap'
import type { Test } from 'tap'
import quota, { redisStore } from '../../src/index.js'
import { Keys } from '../../src/stores/redis/keys.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { hasRedis, startRedis } from '../redis/servers.js'
import { SECRET, clientOf } from '../stores/redis/kit.js'
import { sized } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(110_000 + 60 * runs)

const MODES = ['open', 'closed', 'local'] as const
const QUOTA = 3

/** A decision waits 50 ms at most; a machine may be busy for very much longer. */
const NEVER_ENDS = 20_000

const ALGORITHMS = {
  'sliding-window': { quota: QUOTA, window: '1m' },
  'sliding-window-counter': { quota: QUOTA, window: '1m' },
  'fixed-window': { quota: QUOTA, window: '1m' },
  'token-bucket': { quota: QUOTA, window: '1m' },
  concurrency: { quota: QUOTA }
} as const

async function started(t: Test, client: Redis, deadline: '50ms' | '10s'): Promise<FastifyInstance> {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, {
    identify: { user: request => request.headers['x-user'] as string },
    policies: { never: { quota: 1, window: '1m', default: false } },
    store: redisStore(client, { onFailure: 'local', secret: SECRET, deadline })
  })
  for (const onStoreFailure of MODES) {
    for (const [algorithm, terms] of Object.entries(ALGORITHMS)) {
      const name = `${onStoreFailure}-${algorithm}`
      const policy = {
        name,
        ...terms,
        algorithm: algorithm as keyof typeof ALGORITHMS,
        onStoreFailure,
        partition: 'user'
      }
      app.get(`/${name}`, { config: { quota: { policies: [policy] } } }, () => 'served')
    }
  }
  await app.ready()
  return app
}

const EXPECTED = { open: [200, 429], closed: [200, 429, 503], local: [200, 429] } as const

/** Asks, and looks at the answer: in time, of the mode's kind, and with nothing in it that no client can read. */
async function ask(
  app: FastifyInstance,
  mode: (typeof MODES)[number],
  algorithm: string,
  user: string
): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'too late'>(resolve => (timer = setTimeout(resolve, NEVER_ENDS, 'too late')))
  const answer = await Promise.race([
    app.inject({ url: `/${mode}-${algorithm}`, headers: { 'x-user': user } }),
    late
  ])
  clearTimeout(timer)
  assert.notEqual(answer, 'too late')
  const { statusCode, headers, body } = answer as Exclude<typeof answer, string>
  assert.ok((EXPECTED[mode] as readonly number[]).includes(statusCode), `${mode}: ${statusCode} ${body}`)
  for (const [, parameters] of parseList(String(headers['ratelimit'] ?? ''))) {
    for (const key of ['r', 't']) {
      const value = parameters.get(key) ?? 0
      assert.ok(Number.isInteger(value) && (value as number) >= 0, String(headers['ratelimit']))
    }
    assert.ok((parameters.get('r') as number) <= QUOTA, String(headers['ratelimit']))
  }
  if (headers['retry-after'] !== undefined) assert.match(headers['retry-after'], /^[1-9]\d{0,6}$/)
}

// --- What others have written -------------------------------------------------------------------------------------------

/** Pieces of MessagePack: integers and floats of all sizes, strings, arrays, maps, and what is cut off. */
const pack = fc.oneof(
  fc
    .constantFrom('00', '7f', 'ff', 'c0', 'c1', 'c2', 'c3', '90', '80', 'a0', 'ccff', 'd3ffffffffffffffff')
    .map(hex),
  fc
    .constantFrom('cf000001f0000000ff', 'cfffffffffffffffff', 'cb7ff0000000000000', 'cb7ff8000000000000')
    .map(hex),
  fc
    .constantFrom('cbfff0000000000000', 'cb3fe0000000000000', 'dc', 'dd7fffffff', 'da0400', 'c4', 'd9ff')
    .map(hex)
)
const END = hex('cf000002f000000000')
const state = fc
  .tuple(fc.integer({ min: 0, max: 9 }), fc.array(pack, { maxLength: 9 }))
  .map(([length, items]) => Buffer.concat([END, Buffer.from([0x90 + length]), ...items]))
const value = fc.oneof(
  state,
  fc.array(pack, { maxLength: 6 }).map(all => Buffer.concat(all)),
  fc.uint8Array({ maxLength: 40 }).map(bytes => Buffer.from(bytes)),
  fc.constantFrom(
    Buffer.from(''),
    Buffer.from('{"count":1}'),
    Buffer.alloc(1_000_000, 0x91),
    Buffer.from('1'.repeat(100))
  )
)

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex')
}

const foreign = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('field' as const), value }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('string', 'list', 'set', 'zset', 'stream', 'other fields'),
      value
    })
  }
)

async function vandalise(redis: Redis, key: string, kind: string, value: Buffer): Promise<void> {
  if (kind === 'field') {
    for (const field of await redis.hkeys(key)) await redis.hset(key, field, value)
    return
  }
  if (kind === 'other fields') return void (await redis.hset(key, '', value, '\0', value, '__proto__', value))
  await redis.del(key)
  if (kind === 'string') await redis.set(key, value)
  if (kind === 'list') await redis.lpush(key, value)
  if (kind === 'set') await redis.sadd(key, value)
  if (kind === 'zset') await redis.zadd(key, 1, value)
  if (kind === 'stream') await redis.xadd(key, '*', 'field', value)
}

const mode = fc.constantFrom(...MODES)
const algorithm = fc.constantFrom(...Object.keys(ALGORITHMS))

t.test(
  'whatever others write to our keys, an app answers as onStoreFailure says',
  { skip: !hasRedis() && 'there is no redis-server' },
  async t => {
    const redis = clientOf(t, await startRedis(t))
    const app = await started(t, redis, '10s')
    const keys = new Keys(SECRET, 'q1', false)
    let round = 0
    await fc.assert(
      fc.asyncProperty(mode, algorithm, foreign, async (mode, algorithm, { kind, value }) => {
        const user = String(round++)
        await ask(app, mode, algorithm, user)
        await vandalise(redis, keys.of(`user:${user}`), kind, value)
        for (let i = 0; i < 2; i++) await ask(app, mode, algorithm, user)
      }),
      { numRuns: sized(8) }
    )
    t.comment(`${round} foreign values`)
  }
)

// --- A server that is none ----------------------------------------------------------------------------------------------

/** What it does instead of answering the script. */
type Deed = { readonly say: Buffer } | 'nothing' | 'hang up' | 'half'

const lines = fc.constantFrom(
  '+OK',
  ':1',
  ':9223372036854775807',
  '$-1',
  '*-1',
  '*0',
  '$0\r\n',
  '-ERR no',
  '-OOM no',
  '-NOSCRIPT no',
  '-',
  '+',
  '*1\r\n$1\r\nx',
  '*2\r\n:1\r\n*1\r\n:2',
  '-MOVED 1 127.0.0.1:1',
  '-LOADING',
  '$5\r\nabc',
  '%1\r\n+a\r\n+b',
  '_',
  '!3\r\nabc',
  '\0'
)
const bulk = fc
  .oneof(
    fc.constantFrom(
      '',
      ' ',
      '0',
      '1 0',
      '1 1',
      '1 2',
      'nan 0',
      '-1 0',
      '1e3 0',
      '1764504000000 0',
      '1764504000000 0 1 2 3 4 5 6'
    ),
    fc
      .array(
        fc.constantFrom(
          '1',
          '0',
          '-1',
          '-2',
          'nan',
          'inf',
          '-nan',
          '9007199254740993',
          '1764504000000',
          '3',
          ''
        ),
        { maxLength: 11 }
      )
      .map(all => `1764504000000 0 ${all.join(' ')}`),
    fc.string({ maxLength: 30 })
  )
  .map(text => `$${Buffer.byteLength(text)}\r\n${text}`)
const deed: fc.Arbitrary<Deed> = fc.oneof(
  { weight: 6, arbitrary: fc.oneof(bulk, lines).map(text => ({ say: Buffer.from(`${text}\r\n`) })) },
  { weight: 2, arbitrary: fc.uint8Array({ maxLength: 30 }).map(bytes => ({ say: Buffer.from(bytes) })) },
  { weight: 1, arbitrary: fc.constantFrom<Deed>('nothing', 'hang up', 'half') }
)

/** Speaks enough of the protocol for a client to connect, and then does as it likes. */
class Impostor {
  deed: Deed = 'nothing'
  asked = 0
  port = 0
  readonly #sockets = new Set<Socket>()

  async listen(t: Test): Promise<void> {
    const server = createServer(socket => {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('data', data => this.#answer(socket, data.toString('latin1')))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
    t.teardown(() => {
      for (const socket of this.#sockets) socket.destroy()
      server.close()
    })
  }

  #answer(socket: Socket, sent: string): void {
    for (const [, name] of sent.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)) {
      const command = name!.toLowerCase()
      if (command === 'info') socket.write('$19\r\nredis_version:7.0.0\r\n')
      else if (!command.startsWith('eval')) socket.write('+OK\r\n')
      else this.#misbehave(socket)
    }
  }

  #misbehave(socket: Socket): void {
    this.asked++
    const { deed } = this
    if (deed === 'hang up') socket.destroy()
    else if (deed === 'half') socket.write('$100\r\n1764504000000 0')
    else if (deed !== 'nothing') socket.write(deed.say)
  }
}

t.test('whatever a server answers, an app answers as onStoreFailure says, and in time', async t => {
  const impostor = new Impostor()
  await impostor.listen(t)
  const client = clientOf(t, { host: '127.0.0.1', port: impostor.port }, { lazyConnect: true })
  const apps = async (): Promise<FastifyInstance> => started(t, client, '50ms')
  let app = await apps()
  let requests = 0
  await fc.assert(
    fc.asyncProperty(mode, algorithm, deed, async (mode, algorithm, deed) => {
      impostor.deed = deed
      // Once it is left alone, nobody asks it any more: another app does.
      if (requests++ % 8 === 7) {
        await app.close()
        app = await apps()
      }
      await ask(app, mode, algorithm, String(requests))
      await ask(app, mode, algorithm, String(requests))
    }),
    { numRuns: sized(40) }
  )
  t.ok(impostor.asked > requests / 8, `${impostor.asked} times asked for ${requests} pairs of requests`)
})
