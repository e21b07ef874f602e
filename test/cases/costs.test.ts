import { connect } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { AlgorithmName, PolicyOptions } from '../../src/index.js'
import { until } from '../stores/redis/kit.js'
import { ask, fieldCase, inBothStores, portOf, repeat } from './kit.js'
import type { Asked, Build, Served, Told } from './kit.js'

t.setTimeout(120_000)

const windows: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
]

async function leftOf(app: FastifyInstance, policy: string): Promise<number> {
  const { limits } = await app.quota.peek({ ip: '127.0.0.1' }, [policy])
  return limits[0]!.remaining
}

/** How a request may end, told by one who is told of each end. */
interface End {
  readonly what: string
  readonly text: string
  /** When the client leaves. */
  readonly leaves: 'never' | 'while it is served' | 'after the answer'
  readonly costs: 0 | 1
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`

const ends: readonly End[] = [
  { what: 'a success', text: get('/'), leaves: 'never', costs: 1 },
  { what: 'an error', text: get('/error'), leaves: 'never', costs: 0 },
  { what: 'a client that leaves its handler', text: get('/hang'), leaves: 'while it is served', costs: 0 },
  {
    what: 'a client that leaves its upload',
    text: 'POST /upload HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nhalf',
    leaves: 'while it is served',
    costs: 0
  },
  {
    what: 'a client that leaves after its answer',
    text: get('/').replace('close', 'keep-alive'),
    leaves: 'after the answer',
    costs: 1
  },
  { what: 'a stream that breaks', text: get('/broken'), leaves: 'never', costs: 0 },
  { what: 'a connection that takes too long', text: get('/timeout'), leaves: 'never', costs: 0 },
  { what: 'a handler that takes too long', text: get('/slow'), leaves: 'never', costs: 0 }
]

function routes(app: FastifyInstance): void {
  app.get('/', async () => 'served')
  app.get('/error', async () => Promise.reject(new Error('broken')))
  app.get('/hang', () => new Promise<string>(() => {}))
  app.post('/upload', async () => 'uploaded')
  app.get('/broken', async (_, reply) => {
    reply.header('content-length', '10')
    const half = async function* (): AsyncGenerator<string> {
      yield 'half'
      throw new Error('the other half is lost')
    }
    return Readable.from(half())
  })
  app.get('/timeout', request => {
    request.raw.socket.setTimeout(20, () => request.raw.socket.destroy())
    return new Promise<string>(() => {})
  })
  app.get('/slow', { handlerTimeout: 20 }, () => new Promise<string>(() => {}))
}

/** Sends a text, leaves when told to, and resolves when the connection is closed. */
async function speak(
  app: FastifyInstance,
  { text, leaves }: End,
  charged: () => Promise<boolean>
): Promise<void> {
  const socket = connect(await portOf(app), '127.0.0.1')
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.on('error', () => {})
  socket.on('data', () => leaves === 'after the answer' && socket.destroy())
  socket.write(text)
  if (leaves === 'while it is served') {
    await until('a charge', charged)
    socket.destroy()
  }
  await closed
}

fieldCase(
  'C108',
  'a request is settled once, however it ends, and only what was answered well is paid',
  async t => {
    await inBothStores(t, async (t, serve) => {
      let asked = 0
      const answered: PolicyOptions = {
        quota: 5,
        window: 60,
        refund: (_request, reply) => {
          asked++
          return !reply.raw.writableFinished || reply.statusCode >= 500
        }
      }
      const { app } = await serve({ answered }, { routes, fastify: { forceCloseConnections: true } })
      for (const end of ends) {
        asked = 0
        await app.quota.reset({ ip: '127.0.0.1' })
        await speak(app, end, async () => (await leftOf(app, 'answered')) === 4)
        await until(`the end of ${end.what}`, () => asked > 0)
        await until(end.what, async () => (await leftOf(app, 'answered')) === 5 - end.costs, 5000)
        await new Promise(resolve => setTimeout(resolve, 30))
        t.strictSame([await leftOf(app, 'answered'), asked], [5 - end.costs, 1], end.what)
      }
    })
  }
)

fieldCase('C111', 'where only some requests count, the refusals are none of them', async t => {
  await inBothStores(t, async (t, serve) => {
    const build: Build = {
      routes: app => {
        app.get('/', async () => 'served')
        app.get('/401', async (_, reply) => reply.code(401).send())
      }
    }
    const settled = async ({ app }: Served, policy: string, left: number): Promise<void> =>
      until(`what is left of ${policy}`, async () => (await leftOf(app, policy)) === left)
    const good = await serve(
      { successes: { quota: 3, window: 60, refund: (_, reply) => reply.statusCode >= 400 } },
      build
    )
    t.strictSame(
      (await repeat(good.app, 3)).map(({ status }) => status),
      [200, 200, 200]
    )
    for (let second = 1; second <= 10; second++) {
      good.clock.at(second)
      t.match(await ask(good.app), {
        status: 429,
        limits: [{ r: 0, t: 60 - second }],
        retryAfter: 60 - second
      })
    }
    await settled(good, 'successes', 0)
    good.clock.at(60)
    t.strictSame(
      (await repeat(good.app, 4)).map(({ status }) => status),
      [200, 200, 200, 429]
    )
    const bad = await serve(
      { failures: { quota: 3, window: 60, refund: (_, reply) => reply.statusCode < 400 } },
      build
    )
    await ask(bad.app)
    await settled(bad, 'failures', 3)
    t.strictSame(
      (await repeat(bad.app, 5, '/401')).map(({ status }) => status),
      [401, 401, 401, 429, 429]
    )
    await settled(bad, 'failures', 0)
    bad.clock.at(120)
    await settled(bad, 'failures', 3)
  })
})

/** A route whose requests say themselves what they cost. */
const priced = (app: FastifyInstance): unknown =>
  app.get(
    '/',
    { config: { quota: { cost: request => Number(request.headers['x-cost'] ?? 1) } } },
    async () => 'served'
  )

const costing = (cost: number): Asked => ({ headers: { 'x-cost': String(cost) } })

fieldCase(
  'C112',
  'what costs more than there can ever be is refused for good, and takes nothing',
  async t => {
    const policies: Readonly<Record<string, PolicyOptions>> = {
      ...Object.fromEntries(windows.map(algorithm => [algorithm, { quota: 3, window: 60, algorithm }])),
      burst: { quota: 60, window: 60, algorithm: 'token-bucket', burst: 3 },
      queue: { quota: 60, window: 60, algorithm: 'leaky-bucket', maxDelay: '2s' }
    }
    await inBothStores(t, async (t, serve) => {
      for (const [name, policy] of Object.entries(policies)) {
        const { app } = await serve({ [name]: policy }, { routes: priced })
        const never = await ask(app, costing(4))
        t.match(never, { status: 429, limits: [{ name, r: 3 }] }, name)
        t.notHas(never.headers, { 'retry-after': String }, name)
        t.match(JSON.parse(never.body), { detail: /\b4\b.*\b3\b|\b3\b.*\b4\b/ }, 'and the body says why')
        t.match(await ask(app, costing(3)), { status: 200, limits: [{ name, r: 0 }] }, name)
        t.match(await ask(app, costing(4)), { status: 429, limits: [{ name, r: 0 }] }, name)
      }
      const places: PolicyOptions = { quota: 3, algorithm: 'concurrency', unit: 'places' }
      const { app } = await serve(
        { places },
        {
          routes: app =>
            app.get(
              '/',
              { config: { quota: { cost: { places: request => Number(request.headers['x-cost']) } } } },
              async () => 'served'
            )
        }
      )
      const never = await ask(app, costing(4))
      t.match(never, { status: 429, limits: [{ name: 'places', r: 3 }] })
      t.notHas(never.headers, { 'retry-after': String })
      t.match(await ask(app, costing(3)), { status: 200, limits: [{ name: 'places', r: 0 }] })
    })
  }
)

fieldCase(
  'C114',
  'the last unit is spent and told as none left, and only the next request is refused',
  async t => {
    await inBothStores(t, async (t, serve) => {
      for (const algorithm of windows) {
        const { app } = await serve({ [algorithm]: { quota: 5, window: 60, algorithm } })
        const answers = await repeat(app, 6)
        t.strictSame(
          answers.map(({ status, limits }) => [status, limits[0]!['r']]),
          [
            [200, 4],
            [200, 3],
            [200, 2],
            [200, 1],
            [200, 0],
            [429, 0]
          ],
          algorithm
        )
        for (const { headers } of answers.slice(0, 5)) t.notHas(headers, { 'retry-after': String })
        t.match(answers[5]!.headers['retry-after'], /^[1-9]\d*$/)
      }
      const release: (() => void)[] = []
      const { app } = await serve(
        { places: { quota: 5, algorithm: 'concurrency' } },
        {
          routes: app =>
            app.get('/', () => new Promise<string>(resolve => release.push(() => resolve('served'))))
        }
      )
      const five: Promise<Told>[] = []
      for (let i = 0; i < 5; i++) {
        five.push(ask(app))
        await until('a place that is taken', () => release.length === i + 1)
      }
      const sixth = await ask(app)
      t.match(sixth, { status: 429, limits: [{ name: 'places', r: 0 }] })
      t.strictSame([sixth.limits[0]!['t'], sixth.headers['retry-after']], [undefined, undefined])
      for (const each of release) each()
      t.strictSame(
        (await Promise.all(five)).map(({ status, limits }) => [status, limits[0]!['r']]),
        [
          [200, 4],
          [200, 3],
          [200, 2],
          [200, 1],
          [200, 0]
        ]
      )
    })
  }
)

fieldCase('C115', 'costs add up, none is free but 0, and a wrong one costs all there is', async t => {
  await inBothStores(t, async (t, serve) => {
    for (const algorithm of windows) {
      const { app, clock } = await serve(
        { [algorithm]: { quota: 10, window: 60, algorithm } },
        { routes: priced }
      )
      const asked: Told[] = []
      for (const cost of [8, 1, 1, 1]) asked.push(await ask(app, costing(cost)))
      t.strictSame(
        asked.map(({ status, limits }) => [status, limits[0]!['r']]),
        [
          [200, 2],
          [200, 1],
          [200, 0],
          [429, 0]
        ],
        algorithm
      )
      t.match(await ask(app, costing(0)), { status: 200, limits: [{ r: 0 }] }, 'what is free is served')
      clock.now += 120_000
      t.match(await ask(app, costing(0)), { status: 200, limits: [{ r: 10 }] }, 'and spends nothing')
    }
    const wrong: readonly unknown[] = [-1, Number.NaN, 1.5, '2', Infinity, 2 ** 53, null, undefined, {}, true]
    for (const [i, value] of wrong.entries()) {
      const name = `wrong${i}`
      const { app, log } = await serve({
        policies: { [name]: { quota: 10, window: 60, cost: () => value as number }, beside: '99/60s' }
      })
      const [first, second] = await repeat(app, 2)
      t.match(first, { status: 200, limits: [{ name, r: 0 }, { name: 'beside' }] }, String(value))
      t.match(second, { status: 429, limits: [{ name, r: 0 }] }, 'it never mints quota')
      t.strictSame(
        log.map(({ option }) => option),
        [`cost of policy "${name}"`],
        'and is logged once'
      )
      await app.quota.reset({ ip: '127.0.0.1' })
    }
  })
})

/** Executes batches of operations, and counts them. */
function batches(app: FastifyInstance, executed: unknown[]): void {
  const cost = ({ body }: { readonly body: unknown }): number =>
    Array.isArray(body) ? Math.max(1, body.length) : 1
  app.post('/batch', { config: { quota: { cost, hook: 'preHandler' } } }, async ({ body }) => {
    executed.push(...[body].flat())
    return { done: true }
  })
}

fieldCase('C116', 'a batch costs what is in it, and is executed whole or not at all', async t => {
  await inBothStores(t, async (t, serve) => {
    const executed: unknown[] = []
    const { app, clock } = await serve({ operations: '10/60s' }, { routes: app => batches(app, executed) })
    const send = (body: unknown): Promise<Told> =>
      ask(app, {
        url: '/batch',
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body)
      })
    const many = (length: number): readonly string[] => Array.from({ length }, () => 'operation')
    t.match(await send(many(4)), { status: 200, limits: [{ r: 6 }] })
    const refused = await send(many(25))
    t.match(refused, { status: 429, limits: [{ r: 6 }] })
    t.notHas(refused.headers, { 'retry-after': String }, 'it is more than there can ever be')
    t.equal(executed.length, 4)
    t.match(await send(many(6)), { status: 200, limits: [{ r: 0 }] })
    t.equal(executed.length, 10)
    t.match(await send(many(1)), { status: 429, limits: [{ r: 0 }], retryAfter: 60 })
    clock.at(60)
    t.match(await send([]), { status: 200, limits: [{ r: 9 }] })
    t.match(await send({ not: 'a batch' }), { status: 200, limits: [{ r: 8 }] })
    t.match(await send(many(9)), { status: 429, limits: [{ r: 8 }], retryAfter: 60 })
    t.equal(executed.length, 11)
  })
})
