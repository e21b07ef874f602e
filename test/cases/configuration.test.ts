import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { Cluster } from 'ioredis'
import type { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import quota, { memoryStore, redisStore } from '../../src/index.js'
import type {
  AlgorithmName,
  Charge,
  PolicyOptions,
  QuotaOptions,
  RouteQuota,
  Store
} from '../../src/index.js'
import { LaterStore } from '../plugin/kit.js'
import { startRedis } from '../redis/servers.js'
import { PATIENT, SECRET, clientOf, until } from '../stores/redis/kit.js'
import {
  Clock,
  ask,
  fieldCase,
  inBothStores,
  newPrefix,
  redis,
  repeat,
  serve,
  serveIn,
  statuses
} from './kit.js'
import type { Told } from './kit.js'
import { ALGORITHMS } from '../algorithms/names.js'

t.setTimeout(120_000)

/** A policy of any algorithm. */
const of = (algorithm: AlgorithmName, quota: number, window: number = 60): PolicyOptions =>
  algorithm === 'concurrency' ? { quota, algorithm } : { quota, window, algorithm }

function bare(t: Test): FastifyInstance {
  const app = Fastify()
  t.teardown(() => app.close())
  return app
}

/** Why an app does not start. */
async function refusal(t: Test, build: (app: FastifyInstance) => unknown): Promise<string> {
  const app = bare(t)
  try {
    await build(app)
    await app.ready()
    return 'none'
  } catch (error) {
    return `${(error as { code?: string }).code} ${(error as Error).message}`
  }
}

fieldCase(
  'C78',
  'a limit that makes no sense stops the app and is named, wherever it is written',
  async t => {
    const wrong: Readonly<Record<string, readonly unknown[]>> = {
      quota: [-1, Number.NaN, 1.9, '2', null, Infinity, 2 ** 53, true, [], {}],
      window: ['banana', -5, 0, Number.NaN, '1 fortnight', {}, null, 1.5, '', '1', '-1s', '1e3s', Infinity],
      algorithm: ['leaky', '', null, 1]
    }
    const right = { quota: 2, window: '1m', algorithm: 'fixed-window' }
    for (const [option, values] of Object.entries(wrong)) {
      for (const value of values) {
        const policy = { ...right, [option]: value } as unknown as PolicyOptions
        const said = new RegExp(`^FST_QUOTA_POLICY policy "wrong": ${option} must `)
        const general = await refusal(t, app => app.register(quota, { policies: { wrong: policy } }))
        const ofRoute = await refusal(t, async app => {
          await app.register(quota, { policies: { fine: '1/1m' } })
          app.get('/', { config: { quota: [{ name: 'wrong', ...policy }] } }, async () => 'served')
        })
        t.match(general, said)
        t.equal(ofRoute, general, 'and a route is told the same')
      }
    }
    for (const name of ['', ' ', 'a b']) {
      t.match(
        await refusal(t, app => app.register(quota, { policies: { [name]: '1/1m' } })),
        /^FST_QUOTA_POLICY policy "[ ab]*": a name must /
      )
    }
    const { app } = await serve(t, { fine: { quota: 2, window: '90s' } })
    t.match(await ask(app), { policies: [{ name: 'fine', q: 2, w: 90 }], limits: [{ r: 1, t: 90 }] })
  }
)

fieldCase('C79', 'a quota of 0 refuses everything, and is not what switches a quota off', async t => {
  await inBothStores(t, async (t, serve) => {
    for (const algorithm of ALGORITHMS) {
      const { app } = await serve(
        { policies: { none: of(algorithm, 0) } },
        {
          routes: app => {
            app.get('/', async () => 'served')
            app.get('/off', { config: { quota: false } }, async () => 'served')
          }
        }
      )
      for (const { status, policies, limits, headers } of await repeat(app, 3)) {
        const { w, ...policy } = { w: undefined, ...policies[0]! }
        t.equal(status, 429, algorithm)
        t.match(policy, { name: 'none', q: 0 }, algorithm)
        t.ok(w === undefined || Number(w) >= 1, 'a window is none or one')
        t.strictSame(limits, [{ name: 'none', r: 0 }], algorithm)
        t.notHas(headers, { 'retry-after': String }, 'no wait helps')
      }
    }
  })
  await t.test('switched off, nobody is told and nobody is asked', async t => {
    const store = new LaterStore(() => 0)
    const server = await redis()
    const calls = async (): Promise<string | undefined> =>
      /^cmdstat_evalsha:calls=(\d+)/m.exec(await server.command('INFO', 'commandstats'))?.[1]
    const stores: readonly Store[] = [
      store,
      redisStore(clientOf(t, server), { ...PATIENT, prefix: newPrefix() })
    ]
    for (const each of stores) {
      const { app } = await serveIn(t, each, { any: '1/1m' }, { routes: off })
      const before = await calls()
      for (const { status, policies, limits } of await repeat(app, 3)) {
        t.strictSame([status, policies, limits], [200, [], []])
      }
      t.equal(await calls(), before)
    }
    t.strictSame(store.calls, [])
  })
})

function off(app: FastifyInstance): void {
  app.get('/', { config: { quota: false } }, async () => 'served')
}

/** What the compiler has to accept, and in the second half what it has to refuse. */
const accepted: QuotaOptions = {
  identify: {
    user: async request => (request.headers['x-user'] as string | undefined) ?? null,
    number: () => 7,
    nobody: () => undefined
  },
  policies: {
    plan: { quota: async request => (request.method === 'GET' ? 9 : 1), window: '1m', partition: 'user' },
    short: '9/1m',
    priced: { quota: 9, window: 60, cost: async () => 2, exempt: request => request.method === 'HEAD' }
  },
  problem: (decision, request) => ({
    url: request.url,
    policies: decision.limits.map(({ policy }) => policy.name)
  }),
  onRefused: () => {}
}
const ofRoute = { also: ['short'], cost: async () => 3, hook: 'preHandler' } satisfies RouteQuota
const inPlace = [{ name: 'own', quota: 1, window: '1m' }] satisfies RouteQuota
const refused: Readonly<Record<string, unknown>> = {
  // @ts-expect-error a quota is no text
  policy: { quota: '2', window: '1m' } satisfies PolicyOptions,
  // @ts-expect-error there is no such option
  unknown: { quota: 2, window: '1m', max: 3 } satisfies PolicyOptions,
  // @ts-expect-error a duration has a unit
  duration: { quota: 2, window: '1 fortnight' } satisfies PolicyOptions,
  // @ts-expect-error what a function returns is checked, too
  cost: { quota: 2, window: '1m', cost: 'dear' } satisfies PolicyOptions
}

fieldCase(
  'C82',
  'the types take what works and nothing else, and options have the same names in both',
  async t => {
    const server = await redis()
    const single = clientOf(t, server, { lazyConnect: true })
    const cluster: Cluster = new Cluster([{ host: server.host, port: server.port }], { lazyConnect: true })
    const custom: Store = new LaterStore(() => 0)
    const options = { onFailure: 'closed', secret: SECRET, prefix: newPrefix() } as const
    const stores: readonly Store[] = [
      memoryStore(),
      redisStore(single, options),
      redisStore(cluster, options),
      custom
    ]
    t.equal(stores.length, 4)
    const { app } = await serve(t, accepted, {
      routes: app => {
        app.get('/', { config: { quota: { cost: async () => 1 } } }, async () => 'served')
        app.get('/own', { config: { quota: inPlace } }, async () => 'served')
      }
    })
    const told = await ask(app, { headers: { 'x-user': 'ann' } })
    t.match(told, {
      status: 200,
      limits: [
        { name: 'plan', r: 8 },
        { name: 'short', r: 8 },
        { name: 'priced', r: 8 }
      ]
    })
    t.match(await repeat(app, 2, '/own'), [{ status: 200 }, { status: 429 }])
    t.match(ofRoute, { also: ['short'] })
    for (const [name, policy] of Object.entries(refused)) {
      const policies = { wrong: policy } as QuotaOptions['policies']
      t.match(
        await refusal(t, app => app.register(quota, { policies })),
        /^FST_QUOTA_POLICY policy "wrong": /,
        name
      )
    }
    const other = createClient()
    t.throws(
      () =>
        redisStore(
          // @ts-expect-error it is made otherwise, and at run time it is refused as well
          other,
          options
        ),
      { code: 'FST_QUOTA_OPTION', message: /must be a client of ioredis/ }
    )
    t.equal(other.isOpen, false)
  }
)

fieldCase('C84', 'any form of import can be registered, and Redis may come later than the app', async t => {
  const require = createRequire(import.meta.url)
  const forms: Readonly<Record<string, () => unknown>> = {
    required: () => require('fastify-quota'),
    'required by its name': () => require('fastify-quota').quota,
    'required as default': () => require('fastify-quota').default,
    'imported dynamically': () => import('fastify-quota'),
    'imported as a namespace': async () => ({ ...(await import('fastify-quota')) })
  }
  for (const [form, load] of Object.entries(forms)) {
    const app = bare(t)
    const plugin = (await load()) as typeof quota
    await app.register(form === 'imported dynamically' ? import('fastify-quota') : plugin, {
      policies: { one: '1/1m' },
      clock: new Clock().read
    })
    app.get('/', async () => 'served')
    t.strictSame(await statuses(app, '/', '/'), [200, 429], form)
  }
  const strays: unknown[] = []
  const stray = (reason: unknown): void => void strays.push(reason)
  process.on('uncaughtExceptionMonitor', stray)
  t.teardown(() => process.off('uncaughtExceptionMonitor', stray))
  const early = await startRedis(t)
  const late = await startRedis(t)
  await late.kill()
  const policies = {
    open: { quota: 9, window: 60, onStoreFailure: 'open', default: false },
    shut: { quota: 9, window: 60, onStoreFailure: 'closed' }
  } as const
  const start = async (client: Redis, connection: 'dedicated' | 'shared'): Promise<FastifyInstance> => {
    const store = redisStore(client, { ...PATIENT, connection, prefix: newPrefix() })
    const { app } = await serveIn(t, store, policies, {
      routes: app => {
        app.get('/', async () => 'served')
        app.get('/open', { config: { quota: ['open'] } }, async () => 'served')
      }
    })
    return app
  }
  for (const connection of ['dedicated', 'shared'] as const) {
    for (const lazyConnect of [false, true]) {
      const app = await start(clientOf(t, early, { lazyConnect }), connection)
      t.match(
        await ask(app),
        { status: 200, limits: [{ name: 'shut', r: 8 }] },
        `${connection}, ${lazyConnect}`
      )
    }
  }
  const apps = await Promise.all([
    start(clientOf(t, late), 'dedicated'),
    start(clientOf(t, late, { lazyConnect: true }), 'dedicated'),
    start(clientOf(t, late), 'shared')
  ])
  for (const app of apps) {
    t.match(
      await ask(app),
      { status: 503, limits: [], policies: [] },
      'until Redis is there, a policy does what it says'
    )
    t.match(await ask(app, '/open'), { status: 200, limits: [], policies: [] })
  }
  await sleep(2000)
  await late.restart()
  for (const app of apps) {
    await until('a decision of Redis', async () => (await ask(app, '/open')).limits.length > 0)
    t.match(await ask(app), { status: 200, limits: [{ name: 'shut', r: Number }] })
  }
  t.strictSame(strays, [])
})

fieldCase('C85', "a quota that is computed is that of its request, and changes nobody else's", async t => {
  await inBothStores(t, async (t, serve) => {
    const quotas: Record<string, number> = { a: 1, b: 100 }
    const { app } = await serve({
      identify: { caller: request => request.headers['x-caller'] as string },
      policies: {
        plan: {
          quota: async request => {
            await sleep(Math.random() * 20)
            return quotas[request.headers['x-caller'] as string]!
          },
          window: 60,
          partition: 'caller'
        }
      }
    })
    const by = (caller: string): Promise<Told> =>
      ask(app, { headers: { 'x-caller': caller }, from: '192.0.2.1' })
    const both = await Promise.all(Array.from({ length: 100 }, (_, i) => by(i % 2 === 0 ? 'a' : 'b')))
    const of = (caller: number): readonly Told[] => both.filter((_, i) => i % 2 === caller)
    const passed = (answers: readonly Told[]): number => answers.filter(({ status }) => status === 200).length
    t.strictSame([passed(of(0)), passed(of(1))], [1, 50])
    for (const { policies, limits } of of(0)) t.match([policies, limits], [[{ q: 1 }], [{ r: 0 }]])
    for (const { policies } of of(1)) t.match(policies, [{ q: 100 }])
    t.strictSame(
      of(1)
        .map(({ limits }) => limits[0]!['r'] as number)
        .toSorted((x, y) => x - y),
      Array.from({ length: 50 }, (_, i) => 50 + i)
    )
    quotas['a'] = 3
    const more = [await by('a'), await by('a'), await by('a')]
    t.match(more, [
      { status: 200, policies: [{ q: 3 }], limits: [{ r: 1 }] },
      { status: 200, policies: [{ q: 3 }], limits: [{ r: 0 }] },
      { status: 429, policies: [{ q: 3 }], limits: [{ r: 0 }] }
    ])
    quotas['a'] = 1
    t.match(await by('a'), { status: 429, policies: [{ q: 1 }], limits: [{ r: 0, t: 60 }], retryAfter: 60 })
    t.match(await by('b'), { status: 200, policies: [{ q: 100 }], limits: [{ r: 49 }] })
  })
})

/** Keeps what it was asked to charge. */
class CustomStore extends LaterStore {
  readonly charged: (readonly [policy: string, window: number])[] = []

  override consume(charges: readonly Charge[]): ReturnType<LaterStore['consume']> {
    this.charged.push(...charges.map(({ policy }) => [policy.name, policy.window] as const))
    return super.consume(charges)
  }
}

fieldCase('C86', 'a store has no window of its own, and may count for any policies and apps', async t => {
  const clock = new Clock()
  const policies = {
    hour: { quota: 2, window: '1h' },
    minute: { quota: 1, window: '1m', partition: 'global' }
  } as const
  const custom = new CustomStore(clock.read)
  const inRedis = redisStore(clientOf(t, await redis()), { ...PATIENT, prefix: newPrefix(), time: 'caller' })
  inRedis.useClock(clock.read)
  const inMemory = memoryStore()
  inMemory.useClock(clock.read)
  const stores: Readonly<Record<string, Store>> = { memory: inMemory, redis: inRedis, custom }
  for (const [name, store] of Object.entries(stores)) {
    clock.at(0)
    const { app } = await serveIn(t, store, policies)
    const { app: other } = await serveIn(t, store, policies)
    t.match(
      await ask(app),
      {
        status: 200,
        limits: [
          { name: 'minute', r: 0, t: 60 },
          { name: 'hour', r: 1, t: 3600 }
        ]
      },
      name
    )
    t.match(
      await ask(other),
      { status: 429, limits: [{ name: 'minute', r: 0, t: 60 }], retryAfter: 60 },
      'of any app'
    )
    clock.at(60)
    t.match(await ask(other), {
      status: 200,
      limits: [
        { name: 'hour', r: 0, t: 3600 },
        { name: 'minute', r: 0, t: 60 }
      ]
    })
    clock.at(120)
    t.match(await ask(app), { status: 429, limits: [{ name: 'hour', r: 0, t: 3540 }], retryAfter: 3540 })
    clock.at(3660)
    t.match(await ask(app), {
      status: 200,
      limits: [
        { name: 'minute', r: 0, t: 60 },
        { name: 'hour', r: 1, t: 3600 }
      ]
    })
  }
  t.strictSame(new Set(custom.charged.map(String)), new Set(['hour,3600000', 'minute,60000']))
})
