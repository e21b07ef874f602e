import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import websocket from '@fastify/websocket'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { watchWarnings } from '../plugin/kit.js'
import { SECRET, until } from '../stores/redis/kit.js'
import { Clock, ask, fieldCase, newPrefix, portOf, redis, repeat, serve, statuses } from './kit.js'
import type { Asked, Told } from './kit.js'
import { run } from './program.js'

t.setTimeout(120_000)

/** Where what is told may not depend on the order of registration, tests register by themselves. */
function bare(t: Test): FastifyInstance {
  const app = Fastify()
  t.teardown(() => app.close())
  return app
}

const register = (app: FastifyInstance, policies: QuotaOptions['policies']): unknown =>
  app.register(quota, { policies, clock: new Clock().read })

const two = { policies: { two: { quota: 2, window: 60, partition: 'route' } } } as const

function isRefusal(t: Test, { status, headers, limits, policies, retryAfter }: Told, name: string): void {
  t.equal(status, 429)
  t.strictSame(limits, [{ name, r: 0, t: 60 }])
  t.match(policies, [{ name, w: 60 }])
  t.equal(retryAfter, 60)
  t.equal(headers['content-type'], 'application/problem+json; charset=utf-8')
}

fieldCase('C65', 'what matches no route is limited as one route, whoever answers it', async t => {
  const lost = { status: 404 } as const
  const custom = async (_request: unknown, reply: { code: (status: number) => unknown }): Promise<string> => {
    reply.code(404)
    return 'nothing here'
  }
  const child = async (app: FastifyInstance): Promise<void> => {
    app.setNotFoundHandler(custom)
    app.get('/known', async () => 'known')
  }
  const variants: Readonly<
    Record<string, { before?: Build; routes?: Build; asked: readonly (string | Asked)[] }>
  > = {
    'by the framework': { asked: ['/a', '/b/c', '/d?e=f', '/%C3%A4'] },
    'for a method that a path does not have': {
      asked: [
        { url: '/', method: 'DELETE' },
        { url: '/', method: 'PUT' },
        { url: '/', method: 'PATCH' },
        { url: '/', method: 'TRACE' }
      ]
    },
    'by a handler of the root': {
      routes: app => app.setNotFoundHandler(custom),
      asked: ['/a', '/b', '/c', '/d']
    },
    'by a handler with a hook of its own': {
      routes: app => app.setNotFoundHandler({ preHandler: async () => {} }, custom),
      asked: ['/a', '/b', '/c', '/d']
    },
    'by a handler of a child with a prefix': {
      routes: app => app.register(child, { prefix: '/v1' }),
      asked: ['/v1/a', '/v1/b', '/v1/c', '/v1/d']
    },
    'by handlers of the root and of a child': {
      routes: app => {
        app.setNotFoundHandler(custom)
        app.register(child, { prefix: '/v1' })
      },
      asked: ['/a', '/v1/b', '/v1/c', '/d']
    },
    'by a handler set before the plugin': {
      before: app => app.setNotFoundHandler(custom),
      asked: ['/a', '/b', '/c', '/d']
    },
    'by handlers of children around the plugin': {
      before: app => app.register(child, { prefix: '/v1' }),
      routes: app => app.register(child, { prefix: '/v2' }),
      asked: ['/v1/a', '/v2/b', '/v1/c', '/v2/d']
    }
  }
  for (const [what, { before, routes, asked }] of Object.entries(variants)) {
    await t.test(what, async t => {
      const { app } = await serve(t, two, {
        ...(before === undefined ? {} : { before }),
        routes: async app => {
          app.get('/', async () => 'served')
          await routes?.(app)
        }
      })
      const answers: Told[] = []
      for (const each of asked) answers.push(await ask(app, each))
      t.match(answers.slice(0, 2), [
        { ...lost, limits: [{ name: 'two', r: 1, t: 60 }] },
        { ...lost, limits: [{ name: 'two', r: 0, t: 60 }] }
      ])
      for (const answer of answers.slice(2)) isRefusal(t, answer, 'two')
      t.match(app.quota.store, { use: { partitions: 1 } }, 'and takes the memory of one')
      t.match(await ask(app), { status: 200, limits: [{ name: 'two', r: 1 }] }, 'a route is none of it')
    })
  }
})

/** Node closes a connection that it reads no further; who still writes, or writes the next one there, asks again. */
async function answered(app: FastifyInstance, request: Asked): Promise<Told> {
  for (let tries = 0; ; tries++) {
    try {
      return await ask(app, request)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET' || tries === 20) throw error
    }
  }
}

type Build = (app: FastifyInstance) => unknown

fieldCase('C66', 'what is answered before any hook changes nothing, and the manual says so', async t => {
  const { app, log } = await serve(
    t,
    { one: '2/60s' },
    { routes: app => app.get('/:id', async () => 'served') }
  )
  const bad: readonly (readonly [status: number, times: number, request: Asked])[] = [
    [400, 20, { url: '/%zz' }],
    [414, 20, { url: `/${'x'.repeat(200)}` }],
    [431, 5, { url: '/', headers: { 'x-long': 'x'.repeat(20_000) } }]
  ]
  for (const [status, times, request] of bad) {
    for (let i = 0; i < times; i++) {
      const answer = await answered(app, request)
      t.match(answer, { status, limits: [], policies: [] })
      t.notHas(answer.headers, { 'retry-after': String })
    }
  }
  const good: Told[] = []
  for (let i = 0; i < 3; i++) good.push(await answered(app, { url: '/good' }))
  t.match(good, [
    { status: 200, limits: [{ name: 'one', r: 1, t: 60 }] },
    { status: 200, limits: [{ name: 'one', r: 0, t: 60 }] },
    { status: 429, limits: [{ name: 'one', r: 0, t: 60 }] }
  ])
  t.strictSame(log, [])
  const manual = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')
  for (const status of ['400', '414', '431']) t.match(manual, new RegExp(`before any hook[^#]*${status}`))
})

fieldCase(
  'C67',
  'a route that is declared before the plugin has loaded is limited, and a warning names it',
  async t => {
    const early = { code: 'FST_QUOTA_EARLY_ROUTES' }
    const declare = (app: FastifyInstance): unknown => app.get('/early', async () => 'served')
    const ways: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
      'in the turn of a registration that nobody waits for': app => {
        register(app, { one: '1/60s' })
        declare(app)
      },
      'before a registration that is waited for': async app => {
        declare(app)
        await register(app, { one: '1/60s' })
      },
      'before a registration that nobody waits for': app => {
        declare(app)
        register(app, { one: '1/60s' })
      },
      'in a child before a registration': async app => {
        app.register(async child => void declare(child))
        await register(app, { one: '1/60s' })
      }
    }
    for (const [when, build] of Object.entries(ways)) {
      await t.test(when, async t => {
        const { heard } = watchWarnings(t)
        const app = bare(t)
        await build(app)
        t.strictSame(await statuses(app, '/early', '/early', '/early'), [200, 429, 429])
        const warnings = await heard()
        t.match(warnings, [early])
        t.match(warnings[0]?.message, /GET[^:]* \/early/)
        t.equal(app.quota.routes().complete, false)
      })
    }
  }
)

fieldCase('C69', 'a limiter of a child limits that child alone, and two children have one each', async t => {
  const app = bare(t)
  const serveAt = (at: FastifyInstance, path: string): unknown => at.get(path, async () => 'served')
  serveAt(app, '/parent-before')
  app.register(async before => void serveAt(before, '/sibling-before'))
  app.register(async child => {
    serveAt(child, '/early')
    await register(child, { one: '1/60s' })
    serveAt(child, '/a')
    child.register(async inner => void serveAt(inner, '/a/inner'))
  })
  app.register(async other => {
    await register(other, { one: '2/60s' })
    serveAt(other, '/b')
  })
  app.register(async after => void serveAt(after, '/sibling-after'))
  serveAt(app, '/parent-after')
  await app.ready()
  for (const path of ['/parent-before', '/sibling-before', '/sibling-after', '/parent-after', '/nowhere']) {
    for (const { status, limits, policies } of await repeat(app, 3, path)) {
      t.strictSame([status, limits, policies], [path === '/nowhere' ? 404 : 200, [], []], path)
    }
  }
  t.strictSame(await statuses(app, '/a', '/a/inner', '/a'), [200, 429, 429])
  t.strictSame(await statuses(app, '/early'), [429])
  t.strictSame(await statuses(app, '/b', '/b', '/b'), [200, 200, 429], 'with a counter of its own')
  t.notOk(app.hasDecorator('quota'))
})

fieldCase(
  'C70',
  'a limit of a route adds to the general one or replaces it, as it is written and as is told',
  async t => {
    const { app } = await serve(
      t,
      {
        identify: { caller: request => request.headers['x-caller'] as string },
        policies: {
          all: { quota: 2, window: 60 },
          each: { quota: 5, window: 60, partition: 'caller', default: false }
        }
      },
      {
        routes: app => {
          app.get('/added', { config: { quota: { also: ['each'] } } }, async () => 'served')
          app.get('/replaced', { config: { quota: ['each'] } }, async () => 'served')
        }
      }
    )
    const asMany = async (url: string): Promise<readonly Told[]> => {
      const answers: Told[] = []
      for (let i = 0; i < 6; i++)
        answers.push(await ask(app, { url, headers: { 'x-caller': `caller-${i}` } }))
      return answers
    }
    const named = (members: Told['policies']): readonly string[] => members.map(({ name }) => name)
    const replaced = await asMany('/replaced')
    t.strictSame(
      replaced.map(({ status }) => status),
      [200, 200, 200, 200, 200, 200]
    )
    for (const { policies, limits } of replaced) {
      t.strictSame([named(policies), limits], [['each'], [{ name: 'each', r: 4, t: 60 }]])
    }
    const added = await asMany('/added')
    t.strictSame(
      added.map(({ status }) => status),
      [200, 200, 429, 429, 429, 429]
    )
    for (const { policies } of added) t.strictSame(named(policies), ['all', 'each'])
    t.strictSame(
      added.map(({ limits }) => named(limits)),
      [['all', 'each'], ['all', 'each'], ...Array.from({ length: 4 }, () => ['all'])]
    )
  }
)

/** What a server has written on a connection, and whether it has closed it. */
interface Line {
  readonly socket: Socket
  readonly heard: () => string
}

/** Asks for a WebSocket over a connection of its own. */
async function upgrade(app: FastifyInstance): Promise<Line> {
  const socket = connect(await portOf(app), '127.0.0.1')
  let heard = ''
  socket.on('data', data => (heard += data.toString('latin1')))
  socket.on('error', () => {})
  const fields = [
    'host: a',
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='
  ]
  socket.write(`GET /socket HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
  await until('an answer', () => heard.includes('\r\n\r\n'))
  return { socket, heard: () => heard }
}

/** A text of one letter, masked with zeros. */
const FRAME = Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x78])

fieldCase('C71', 'a WebSocket costs its handshake, and a refused one is an ordinary refusal', async t => {
  let frames = 0
  const { app, clock, log } = await serve(
    t,
    { policies: { two: '2/60s', open: { quota: 1, algorithm: 'concurrency', default: false } } },
    {
      before: app => app.register(websocket),
      routes: app => {
        const config = { quota: { also: [{ name: 'places', quota: 2, algorithm: 'concurrency' }] } } as const
        app.route({
          method: 'GET',
          url: '/socket',
          config,
          handler: async () => 'no socket',
          wsHandler: socket => {
            socket.on('message', () => frames++)
            socket.on('error', () => {})
          }
        })
      }
    }
  )
  const status = ({ heard }: Line): string => heard().slice(9, 12)
  const left = async (): Promise<unknown> => {
    const { limits } = await app.quota.peek({ ip: '127.0.0.1' }, ['two', 'places'])
    return limits.map(({ remaining }) => remaining)
  }
  const first = await upgrade(app)
  const second = await upgrade(app)
  const third = await upgrade(app)
  t.strictSame([first, second, third].map(status), ['101', '101', '429'])
  t.strictSame(await left(), [0, 0])
  await until('the end of a refused connection', () => third.socket.destroyed || third.socket.readableEnded)
  const [head = '', body = ''] = third.heard().split('\r\n\r\n')
  t.match(head.toLowerCase(), /\r\nratelimit: "two";r=0;t=60, "places";r=0\r\n/)
  t.match(
    head.toLowerCase(),
    /\r\nratelimit-policy: "two";q=2;w=60, "places";q=2;qu="concurrent-requests"\r\n/
  )
  t.match(head, /\r\ncontent-type: application\/problem\+json; charset=utf-8\r\n/)
  t.match(JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1)), {
    status: 429,
    'violated-policies': ['two', 'places']
  })
  for (let i = 0; i < 100; i++) first.socket.write(FRAME)
  await until('a hundred frames', () => frames === 100)
  t.strictSame(await left(), [0, 0], 'and frames cost nothing; a place lasts as long as its connection')
  first.socket.destroy()
  second.socket.destroy()
  await until('free places', async () => String(await left()) === '0,2')
  clock.at(60)
  t.match(await ask(app, '/socket'), {
    status: 200,
    body: 'no socket',
    limits: [
      { name: 'two', r: 1 },
      { name: 'places', r: 1 }
    ]
  })
  const fourth = await upgrade(app)
  t.equal(status(fourth), '101')
  t.match(await ask(app, '/socket'), { status: 429, limits: [{ name: 'two', r: 0 }] }, 'it is one quota')
  fourth.socket.destroy()
  t.strictSame(log, [])
})

fieldCase(
  'C73',
  "a refusal stays a refusal, whatever a body of one's own or an error handler does",
  async t => {
    const seen: unknown[] = []
    const fallback = (app: FastifyInstance): void => {
      app.setErrorHandler((error, _request, reply) => {
        seen.push(error)
        return reply.code(500).send({ failed: true })
      })
      app.get('/', async () => 'served')
      app.get('/broken', async () => Promise.reject(new Error('broken')))
    }
    const bodies: Readonly<
      Record<string, { problem?: QuotaOptions['problem']; body: unknown; logged?: string }>
    > = {
      'the usual body': { body: { status: 429, title: 'Quota Exceeded', 'violated-policies': ['one'] } },
      'an object without a status': { problem: () => ({ slow: 'down' }), body: { slow: 'down' } },
      'the body of the framework': {
        problem: false,
        body: { statusCode: 429, error: 'Too Many Requests', message: String }
      },
      'what throws': {
        problem: () => {
          throw new Error('no words')
        },
        body: { status: 429, title: 'Quota Exceeded', 'violated-policies': ['one'] },
        logged: 'problem'
      },
      'what is no body': {
        problem: (() => 'text') as unknown as NonNullable<QuotaOptions['problem']>,
        body: { status: 429, title: 'Quota Exceeded' },
        logged: 'problem'
      }
    }
    for (const [what, { problem, body, logged }] of Object.entries(bodies)) {
      await t.test(what, async t => {
        const { app, log } = await serve(
          t,
          { policies: { one: '1/60s' }, ...(problem === undefined ? {} : { problem }) },
          { routes: fallback }
        )
        t.match(await ask(app, '/broken'), { status: 500, limits: [{ name: 'one', r: 0, t: 60 }] })
        const told = await ask(app)
        t.match(told, {
          status: 429,
          limits: [{ name: 'one', r: 0, t: 60 }],
          policies: [{ name: 'one', q: 1, w: 60 }],
          retryAfter: 60
        })
        t.match(JSON.parse(told.body), body)
        t.equal(told.headers['cache-control'], 'no-store')
        t.strictSame(
          log.map(({ option }) => option),
          logged === undefined ? [] : [logged]
        )
      })
    }
    t.match(
      seen,
      Array.from(Object.keys(bodies), () => ({ message: 'broken' })),
      'no refusal was handed to the handler'
    )
  }
)

/** What 200 apps on each kind of store have left behind. */
interface Sight {
  /** Timers, sockets and connections that Redis sees, by store. */
  readonly growth: Readonly<Record<string, readonly number[]>>
  readonly alive: unknown
  readonly unused: unknown
  /** Milliseconds until the process ended. */
  readonly took: number
}

fieldCase('C77', 'apps that close leave no timers and no connections but those of others', async t => {
  const server = await redis()
  const program = `
    import { createHook } from 'node:async_hooks'
    import { setTimeout as sleep } from 'node:timers/promises'
    import Fastify from 'fastify'
    import { Redis } from 'ioredis'
    import quota, { redisStore } from 'fastify-quota'
    const timers = new Set()
    createHook({
      init: (id, type) => type === 'Timeout' && timers.add(id),
      destroy: id => timers.delete(id)
    }).enable()
    const client = new Redis(${server.port}, '127.0.0.1')
    const lazy = new Redis(${server.port}, '127.0.0.1', { lazyConnect: true })
    const secret = ${JSON.stringify(SECRET)}
    const stores = {
      memory: () => undefined,
      shared: () => redisStore(client, { onFailure: 'closed', deadline: '10s', secret, connection: 'shared', prefix: '${newPrefix()}' }),
      dedicated: () => redisStore(lazy, { onFailure: 'closed', deadline: '10s', secret, prefix: '${newPrefix()}' })
    }
    async function cycle(store) {
      const app = Fastify()
      await app.register(quota, { policies: { any: { quota: 1e6, window: '10m', ...(store && { batch: { max: 9 } }) }, held: { quota: 99, algorithm: 'concurrency' } }, ...(store && { store }) })
      app.get('/', async () => 'served')
      const { statusCode } = await app.inject('/')
      if (statusCode !== 200) throw new Error('status ' + statusCode)
      await app.close()
    }
    const round = make => Promise.all(Array.from({ length: 20 }, () => cycle(make())))
    const counts = async () => {
      gc()
      const sockets = process.getActiveResourcesInfo().filter(name => /TCP|Socket|Pipe/.test(name)).length
      const connected = Number(/connected_clients:(\\d+)/.exec(await client.info('clients'))[1])
      // That a timer has gone is told later, that of a sleep too.
      for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve))
      return [timers.size, sockets, connected]
    }
    const growth = {}
    for (const [name, make] of Object.entries(stores)) {
      await round(make)
      await sleep(500)
      const before = await counts()
      for (let i = 0; i < (name === 'memory' ? 10 : 5); i++) await round(make)
      for (let tries = 0; tries < 300; tries++) {
        await sleep(20)
        growth[name] = (await counts()).map((count, i) => count - before[i])
        if (growth[name].every(count => count <= 0)) break
      }
    }
    const alive = await client.ping()
    const unused = lazy.status
    await client.quit()
    const end = performance.now()
    process.once('exit', () => console.log(JSON.stringify({ growth, alive, unused, took: performance.now() - end })))
  `
  const { growth, alive, unused, took } = (await run(program)) as Sight
  for (const [store, more] of Object.entries(growth))
    t.ok(
      more.every(count => count <= 0),
      `${store}: timers, sockets, connections`,
      { more }
    )
  t.strictSame([alive, unused], ['PONG', 'wait'], 'the clients of the application are as it left them')
  t.ok(took < 5000, 'and the process ends by itself, without waiting for a deadline', { took })
})
