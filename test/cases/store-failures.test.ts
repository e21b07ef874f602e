import { once } from 'node:events'
import { connect } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { redisStore } from '../../src/index.js'
import type { FailureMode, PolicyOptions, QuotaOptions, RedisStoreOptions } from '../../src/index.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import { SECRET, clientOf, until } from '../stores/redis/kit.js'
import { ask, fieldCase, newPrefix, portOf, redis, repeat, serve, serveIn, statuses } from './kit.js'
import type { Build, Served } from './kit.js'

t.setTimeout(120_000)

/** An app whose store has its own deadline and time, as it is by default. */
function serveThere(
  t: Test,
  port: number,
  policies: QuotaOptions['policies'],
  options: Partial<RedisStoreOptions> = {},
  build: Build = {}
): Promise<Served> {
  const client = clientOf(t, { host: '127.0.0.1', port }, { lazyConnect: options.connection !== 'shared' })
  const store = redisStore(client, { onFailure: 'open', secret: SECRET, prefix: newPrefix(), ...options })
  return serveIn(t, store, policies, build)
}

const failed = { limits: [], policies: [] } as const

/** What fails without anybody waiting for it, from now to the end of a test. */
function strays(t: Test): readonly unknown[] {
  const heard: unknown[] = []
  const hear = (error: unknown): void => void heard.push(error)
  process.on('uncaughtExceptionMonitor', hear)
  t.teardown(() => process.off('uncaughtExceptionMonitor', hear))
  return heard
}

fieldCase(
  'C93',
  'an app starts without Redis, answers as its policies say, and counts when Redis is there',
  async t => {
    const server = await startRedis(t)
    await server.kill()
    const modes: readonly FailureMode[] = ['open', 'closed', 'local']
    const apps = await Promise.all(
      modes.flatMap(onFailure =>
        (['dedicated', 'shared'] as const).map(async connection => {
          const { app } = await serveThere(t, server.port, { two: '2/10m' }, { onFailure, connection })
          return { app, onFailure }
        })
      )
    )
    for (const { app, onFailure } of apps) {
      const answers = await repeat(app, 3)
      if (onFailure === 'open')
        t.match(answers, [
          { status: 200, ...failed },
          { status: 200, ...failed },
          { status: 200, ...failed }
        ])
      if (onFailure === 'local') {
        t.match(answers, [
          { status: 200, ...failed },
          { status: 200, ...failed },
          { status: 429, limits: [{ r: 0 }] }
        ])
      }
      if (onFailure === 'closed') {
        for (const answer of answers) {
          t.match(answer, { status: 503, ...failed, headers: { 'retry-after': /^[1-9]$/ } })
          t.match(JSON.parse(answer.body), {
            status: 503,
            type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity'
          })
        }
      }
    }
    await server.restart()
    for (const { app } of apps) {
      await until(
        'a decision of Redis',
        async () => (await app.quota.peek({ ip: '127.0.0.1' })).source === 'redis'
      )
      t.match(await repeat(app, 3), [
        { status: 200, limits: [{ r: 1 }] },
        { status: 200, limits: [{ r: 0 }] },
        { status: 429, limits: [{ r: 0 }] }
      ])
    }
  }
)

fieldCase('C94', 'no request waits for a Redis that is away, and an app closes all the same', async t => {
  const away: Readonly<
    Record<string, (t: Test) => Promise<{ readonly port: number; readonly begin: () => unknown }>>
  > = {
    stopped: async t => {
      const server = await startRedis(t)
      return { port: server.port, begin: () => server.stop() }
    },
    frozen: async t => {
      const server = await startRedis(t)
      return { port: server.port, begin: () => server.pause() }
    },
    'cut off': async t => {
      const proxy = await startProxy(t, await redis())
      return { port: proxy.port, begin: () => proxy.freeze(true) }
    }
  }
  const policies = {
    one: { quota: 1e6, window: '10m' },
    two: { quota: 1e6, window: '10m', partition: 'global' },
    three: { quota: 1e6, window: '10m', partition: 'route' }
  } as const
  const see = async (what: string, connection: 'dedicated' | 'shared'): Promise<void> => {
    const { port, begin } = await away[what]!(t)
    const { app } = await serveThere(t, port, policies, { connection })
    await until(
      'a decision of Redis',
      async () => (await ask(app, { from: '192.0.2.1' })).limits.length === 3
    )
    await begin()
    const loop = monitorEventLoopDelay({ resolution: 5 })
    loop.enable()
    const waits: Promise<readonly [status: number, took: number]>[] = []
    for (let i = 0; i < 100; i++) {
      const start = performance.now()
      waits.push(ask(app, { from: '192.0.2.1' }).then(({ status }) => [status, performance.now() - start]))
      await sleep(100)
    }
    const seen = await Promise.all(waits)
    // What the machine is late is not the wait for Redis.
    const slowest = Math.max(...seen.map(([, took]) => took)) - loop.max / 1e6
    loop.disable()
    t.ok(
      seen.every(([status]) => status === 200),
      `${what}, ${connection}: all are served`
    )
    t.ok(slowest < 1000, `${what}, ${connection}: in time`, { slowest })
    const start = performance.now()
    await app.close()
    const took = performance.now() - start
    t.ok(took < 2000, `${what}, ${connection}: it closes at once`, { took })
  }
  await Promise.all(
    Object.keys(away).flatMap(what =>
      (['dedicated', 'shared'] as const).map(connection => see(what, connection))
    )
  )
})

fieldCase(
  'C95',
  'where a policy cannot be decided no number of it is told, and the others are kept',
  async t => {
    const open: PolicyOptions = { quota: 9, window: '10m', onStoreFailure: 'open' }
    const server = await startRedis(t)
    const { app } = await serveThere(t, server.port, {
      open,
      local: { quota: 2, window: '10m', onStoreFailure: 'local' }
    })
    await until(
      'a decision of Redis',
      async () => (await ask(app, { from: '192.0.2.1' })).limits.length === 2
    )
    await server.kill()
    const outage = await repeat(app, 4)
    t.match(outage, [
      { status: 200, ...failed },
      { status: 200, ...failed },
      { status: 429, limits: [{ name: 'local', r: 0 }] },
      { status: 429, limits: [{ name: 'local', r: 0 }] }
    ])
    for (const { headers, limits } of outage) {
      t.notMatch(JSON.stringify(headers), /":"-|=-|NaN|undefined|Infinity/)
      t.ok(limits.length <= 1)
    }
    const broken: PolicyOptions = {
      quota: () => {
        throw new Error('nobody knows the plan')
      },
      window: 60,
      onStoreFailure: 'open'
    }
    const { app: other } = await serve(t, {
      policies: { broken, works: '2/60s' },
      legacy: { style: 'x-ratelimit', reset: 'delta' }
    })
    const answers = await repeat(other, 3)
    t.match(answers, [
      { status: 200, headers: { 'x-ratelimit-remaining': '1' } },
      { status: 200, headers: { 'x-ratelimit-remaining': '0' } },
      { status: 429, headers: { 'x-ratelimit-remaining': '0' } }
    ])
    for (const [i, { limits, policies }] of answers.entries()) {
      t.strictSame(limits, [{ name: 'works', r: Math.max(0, 1 - i), t: 60 }])
      t.strictSame(policies, [{ name: 'works', q: 2, w: 60 }])
    }
  }
)

fieldCase(
  'C96',
  'connections that are lost fail no process and tell nothing but what the policies say',
  async t => {
    const heard = strays(t)
    const server = await startRedis(t)
    for (const connection of ['dedicated', 'shared'] as const) {
      const { app } = await serveThere(
        t,
        server.port,
        {
          shut: { quota: 1e6, window: '10m', onStoreFailure: 'closed' },
          given: { quota: 1e6, window: '10m', refund: () => true, default: false, onStoreFailure: 'closed' }
        },
        { connection },
        {
          routes: app => {
            app.get('/', async () => 'served')
            app.get('/given', { config: { quota: ['given'] } }, async () => {
              await server.stop()
              return 'served'
            })
          }
        }
      )
      await until('a decision of Redis', async () => (await ask(app)).status === 200)
      const codes: number[] = []
      for (let batch = 0; batch < 50; batch++) {
        const asked = Promise.all(Array.from({ length: 10 }, () => ask(app, { from: '192.0.2.1' })))
        if (Math.random() < 0.3) await server.command('CLIENT', 'KILL', 'TYPE', 'normal')
        codes.push(...(await asked).map(({ status }) => status))
      }
      t.strictSame(
        codes.filter(code => code !== 200 && code !== 503),
        []
      )
      t.ok(codes.includes(200), 'some are counted')
      await until('a decision of Redis', async () => (await ask(app)).status === 200)
      const peeks = Array.from({ length: 20 }, () => app.quota.peek({ ip: '127.0.0.1' }, ['given']))
      const told = await ask(app, '/given')
      t.match(told, { status: 200 }, 'which is refunded while there is no Redis')
      for (const { source } of await Promise.all(peeks)) t.match(source, /^(redis|closed)$/)
      t.match(await app.quota.peek({ ip: '127.0.0.1' }, ['given']), { source: 'closed', limits: [] })
      await server.restart()
      await until('a decision of Redis', async () => (await ask(app)).status === 200)
    }
    t.strictSame(heard, [])
  }
)

const never = (): Promise<never> => new Promise(() => {})

fieldCase(
  'C99',
  'a function that fails is waited for, logged by its name, and has a rule of its own',
  async t => {
    const heard = strays(t)
    const fail = (): never => {
      throw new Error('broken')
    }
    const reject = async (): Promise<never> => Promise.reject(new Error('broken, later'))
    const nothing = async (): Promise<undefined> => undefined
    const works = { quota: 9, window: 60, partition: 'global' } as const
    const byAddress = [{ name: 'one', r: 0 }]
    const rules: Readonly<
      Record<
        string,
        { readonly policy: Partial<PolicyOptions>; readonly told: readonly object[]; readonly others: number }
      >
    > = {
      quota: {
        policy: { quota: 1 },
        told: [
          { status: 503, ...failed },
          { status: 503, ...failed }
        ],
        others: 9
      },
      cost: {
        policy: { quota: 5 },
        told: [
          { status: 200, limits: [{ name: 'one', r: 0 }, {}] },
          { status: 429, limits: byAddress }
        ],
        others: 8
      },
      exempt: {
        policy: { quota: 1 },
        told: [
          { status: 200, limits: [{ name: 'one', r: 0 }, {}] },
          { status: 429, limits: byAddress }
        ],
        others: 8
      },
      identify: {
        policy: { quota: 1, partition: 'user' },
        told: [
          { status: 200, limits: [{ name: 'one', r: 0 }, {}] },
          { status: 429, limits: byAddress }
        ],
        others: 8
      }
    }
    for (const [option, { policy, told, others }] of Object.entries(rules)) {
      for (const [how, broken] of Object.entries({ fail, reject, nothing })) {
        await t.test(`${option}: ${how}`, async t => {
          const one = { quota: 1, window: 60, ...policy, ...(option !== 'identify' && { [option]: broken }) }
          const { app, log } = await serve(t, {
            identify: { user: option === 'identify' ? broken : () => 'somebody' },
            policies: { one: one as PolicyOptions, works }
          })
          t.match(await repeat(app, 2), told)
          const { limits } = await app.quota.peek({}, ['works'])
          t.equal(limits[0]!.remaining, others, 'the others are charged for what is served')
          const silent = option === 'identify' && how === 'nothing'
          const name = option === 'identify' ? 'identify.user' : `${option} of policy "one"`
          t.strictSame(
            log.map(line => line.option),
            silent ? [] : [name]
          )
        })
      }
    }
    for (const [how, broken] of Object.entries({ fail, reject, nothing })) {
      const { app, log } = await serve(t, {
        policies: { one: '1/60s' },
        problem: broken as unknown as NonNullable<QuotaOptions['problem']>,
        onRefused: broken as () => void
      })
      const [, refused] = await repeat(app, 2)
      t.match(refused, { status: 429, limits: byAddress }, how)
      t.match(JSON.parse(refused!.body), { status: 429, 'violated-policies': ['one'] }, how)
      t.strictSame(
        log.map(({ option }) => String(option)).toSorted(),
        how === 'nothing' ? ['problem'] : ['onRefused', 'problem'],
        how
      )
    }
    await t.test('what never comes holds up its own request and no other', async t => {
      const waits = (request: FastifyRequest): boolean => request.url === '/wait'
      const options: readonly QuotaOptions[] = [
        {
          identify: { user: request => (waits(request) ? never() : 'somebody') },
          policies: { two: { quota: 2, window: 60, partition: 'user' } }
        },
        { policies: { two: { quota: request => (waits(request) ? never() : 2), window: 60 } } },
        { policies: { two: { quota: 2, window: 60, cost: request => (waits(request) ? never() : 1) } } }
      ]
      for (const each of options) {
        const { app } = await serve(t, each, { fastify: { forceCloseConnections: true } })
        const left = await leaver(app)
        t.strictSame(await statuses(app, '/', '/', '/'), [200, 200, 429])
        left.destroy()
        await once(left, 'close')
        t.equal(left.bytesRead, 0)
      }
    })
    t.strictSame(heard, [])
  }
)

/** A client that waits for an answer. */
async function leaver(app: FastifyInstance): Promise<ReturnType<typeof connect>> {
  const socket = connect(await portOf(app), '127.0.0.1')
  socket.write('GET /wait HTTP/1.1\r\nhost: a\r\n\r\n')
  await once(socket, 'connect')
  await sleep(50)
  return socket
}
