import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import { parseDictionary, parseItem, parseList } from 'structured-headers'
import t from 'tap'
import quota, { redisStore } from '../../src/index.js'
import type { Legacy, QuotaOptions } from '../../src/index.js'
import { serializeLimits, serializePolicies } from '../../src/fields.js'
import { leftOf } from '../plugin/kit.js'
import { PATIENT, clientOf } from '../stores/redis/kit.js'
import { ALGORITHMS, ask, fieldCase, inBothStores, newPrefix, redis, repeat, serve, serveIn } from './kit.js'
import type { Told } from './kit.js'

t.setTimeout(120_000)

const delta = { style: 'x-ratelimit', reset: 'delta' } as const
const epoch = { style: 'x-ratelimit', reset: 'epoch' } as const

/** The seconds of a wait, as a body tells them. */
const waitInBody = ({ body }: Told): number =>
  Number(/ Try again in (\d+) seconds?\.$/.exec((JSON.parse(body) as { detail: string }).detail)?.[1])

/** A policy that no route has, beside those that are looked at. */
const REST: QuotaOptions['policies'] = { rest: { quota: 1, window: 1, default: false } }

/** The names of the fields about quotas. */
const fieldNames = ({ headers }: Told): readonly string[] =>
  Object.keys(headers)
    .filter(name => /rate-?limit|^retry-after$/.test(name))
    .sort()

fieldCase('C19', 'a wait is in whole seconds, the same in all that tell it', t =>
  inBothStores(t, async (t, serve) => {
    const waits: Record<string, number> = {}
    for (const algorithm of ALGORITHMS) {
      const { app, clock } = await serve({ [algorithm]: { quota: 5, window: '1m', algorithm } })
      for (const at of [0, 0.4, 0.8, 1.2, 1.6]) {
        clock.at(at)
        t.equal((await ask(app)).status, 200)
      }
      clock.at(2)
      const refused = await ask(app)
      t.equal(refused.status, 429)
      t.match(refused.headers['retry-after'], /^[1-9]\d?$/)
      t.ok(refused.retryAfter <= 60)
      t.strictSame([refused.limits[0]!['t'], waitInBody(refused)], [refused.retryAfter, refused.retryAfter])
      waits[algorithm] = refused.retryAfter
      clock.at(2 + refused.retryAfter)
      t.equal((await ask(app)).status, 200, 'it is true')
    }
    t.match(waits, { 'sliding-window': 60, 'sliding-window-log': 58, 'fixed-window': 58, 'token-bucket': 10 })
  })
)

fieldCase('C20', 'a wait is the time that is left, not the window', async t => {
  await inBothStores(t, async (t, serve) => {
    const { app, clock } = await serve({ policies: { any: '1/1m' }, legacy: delta })
    t.equal((await ask(app)).status, 200)
    for (const [at, wait] of [
      [10, 50],
      [50, 10],
      [59.5, 1]
    ] as const) {
      clock.at(at)
      const refused = await ask(app)
      t.strictSame(
        [refused.status, refused.retryAfter, refused.limits[0]!['t'], waitInBody(refused)],
        [429, wait, wait, wait]
      )
      t.equal(refused.headers['x-ratelimit-reset'], String(wait))
    }
  })
  await t.test('as a time of the epoch', async t => {
    const { app, clock } = await serve(t, { policies: { any: '1/1m' }, legacy: epoch })
    const end = clock.now / 1000 + 60
    for (const at of [0, 10, 50, 59.5]) {
      clock.at(at)
      t.equal((await ask(app)).headers['x-ratelimit-reset'], String(end))
    }
  })
})

fieldCase('C23', 'while a quota is used up, the time until it is not runs down second by second', t =>
  inBothStores(t, async (t, serve) => {
    for (const algorithm of ALGORITHMS) {
      const { app, clock } = await serve({
        policies: { [algorithm]: { quota: 2, window: '1m', algorithm } },
        legacy: delta
      })
      const resets: number[] = []
      for (let at = 0; at < 6; at++) {
        clock.at(at)
        const { status, limits, retryAfter, headers } = await ask(app)
        t.equal(status, at < 2 ? 200 : 429)
        if (status === 200) continue
        t.strictSame([limits[0]!['r'], limits[0]!['t']], [0, retryAfter])
        t.equal(headers['x-ratelimit-reset'], String(retryAfter))
        resets.push(retryAfter)
      }
      const [first = 0] = resets
      t.ok(first > 3 && first <= 60, `${algorithm} begins with ${first}`)
      t.strictSame(resets, [first, first - 1, first - 2, first - 3], algorithm)
    }
  })
)

fieldCase(
  'C24',
  'a name that is no name of a policy stops the boot, and the error shows what is wrong',
  async t => {
    const names = {
      'a"b': '"\\""',
      'a\\b': '"\\\\"',
      'a, b;c=1': '","',
      é: '"é"',
      aé: '"é"',
      '☃': '"☃"',
      'a\tb': '"\\t"',
      'a\x7f': 'got',
      '': '0 characters',
      [`a${'b'.repeat(10_000)}`]: '10001 characters',
      'a\r\nSet-Cookie: x=1': '"\\r"'
    }
    for (const [name, found] of Object.entries(names)) {
      const expected = (error: Error & { code?: string }): void => {
        t.equal(error.code, 'FST_QUOTA_POLICY')
        t.ok(error.message.includes(found) && error.message.includes('A-Z a-z 0-9 . _ -'), error.message)
      }
      await serve(t, { [name]: '1/1m' }).then(() => t.fail('it is taken'), expected)
      const routes = (app: FastifyInstance): void => {
        app.get('/', { config: { quota: { also: [{ name, quota: 1, window: 1 }] } } }, async () => 'served')
      }
      await serve(t, REST, { routes }).then(() => t.fail('it is taken on a route'), expected)
      for (const unit of [name, 'Requests']) {
        await t.rejects(serve(t, { any: { quota: 1, window: 1, unit } }), {
          code: 'FST_QUOTA_POLICY',
          message: 'unit'
        })
      }
    }
    await t.test('what serialises any name gives that name back, or refuses it', async t => {
      for (const name of ['a"b', 'a\\b', 'a, b;c=1', ' ']) {
        t.equal(parseList(serializePolicies([{ name, quota: 1, window: 1 }]))[0]![0], name)
        t.equal(parseList(serializeLimits([{ name, available: 1 }]))[0]![0], name)
      }
      for (const name of ['é', '☃', '', 'a\r\nSet-Cookie: x=1', 'a\0', '\x7f']) {
        t.throws(() => serializePolicies([{ name, quota: 1 }]), RangeError)
        t.throws(() => serializeLimits([{ name, available: 1 }]), RangeError)
      }
    })
    await t.test('what a function names a partition by adds no header and fails no request', async t => {
      for (const label of ['a"b', 'é☃', 'x\r\nSet-Cookie: x=1', 'b'.repeat(10_000)]) {
        const { app } = await serve(t, { policies: { any: '9/1m' }, partitionKey: () => label })
        const { status, limits, headers } = await ask(app)
        t.equal(status, 200)
        t.equal(headers['set-cookie'], undefined)
        const key = limits[0]!['pk'] as ArrayBuffer | undefined
        if (label.length < 128) t.equal(Buffer.from(key!).toString(), label)
        else t.equal(key, undefined)
      }
    })
  }
)

fieldCase(
  'C26',
  'each policy is listed once, however many places and limiters it is registered in',
  async t => {
    const policies: QuotaOptions['policies'] = { burst: '20/10s', daily: '10000/1d' }
    const own = (app: FastifyInstance): void => {
      app.addHook('onRequest', async (_request, reply) => {
        reply.header('x-app', 'ours').header('vary', 'accept')
      })
    }
    const nested: FastifyPluginAsync = async app => {
      await app.register(quota, { policies: { inner: '5/1m' } })
      app.get('/inner', async () => 'inner')
      await app.register(async app => {
        await app.register(quota, { policies: { innermost: '3/1m' } })
        app.get('/innermost', async () => 'innermost')
      })
    }
    await inBothStores(t, async (t, serve) => {
      const { app } = await serve(
        { policies, legacy: delta },
        {
          before: own,
          routes: async app => {
            app.get('/', async () => 'served')
            await app.register(nested)
          }
        }
      )
      for (const [url, names] of [
        ['/', ['burst', 'daily']],
        ['/inner', ['inner', 'burst', 'daily']],
        ['/innermost', ['innermost', 'inner', 'burst', 'daily']]
      ] as const) {
        await app.quota.reset({ ip: '127.0.0.1' }, names)
        const answer = await ask(app, url)
        t.strictSame(new Set(answer.policies.map(({ name }) => name)), new Set(names), url)
        t.equal(answer.policies.length, names.length)
        t.strictSame(
          answer.limits.map(({ name }) => name),
          names,
          'the closest to its end first'
        )
        for (const field of ['limit', 'remaining', 'reset']) {
          t.match(answer.headers[`x-ratelimit-${field}`], /^\d+$/)
        }
        t.match(answer.headers, { 'x-app': 'ours', vary: 'accept' })
      }
      const refused = (await repeat(app, 4, '/innermost')).at(-1)!
      t.strictSame(
        [refused.status, refused.limits.map(({ name }) => name)],
        [429, ['innermost']],
        'of a refusal, those that refuse'
      )
      t.strictSame(refused.policies.map(({ name }) => name).sort(), ['burst', 'daily', 'inner', 'innermost'])
      t.match(refused.headers, { 'x-ratelimit-remaining': '0', 'x-app': 'ours', vary: 'accept' })
    })
    await t.test('beside another limiter', async t => {
      for (const order of ['before', 'after'] as const) {
        const theirs = async (app: FastifyInstance): Promise<void> => {
          await app.register(rateLimit, { max: 1000, timeWindow: '1 minute', enableDraftSpec: true })
        }
        const { app } = await serve(
          t,
          { policies, legacy: 'draft-6' },
          {
            before: order === 'before' ? theirs : () => {},
            routes: async app => {
              if (order === 'after') await theirs(app)
              app.get('/', async () => 'served')
            }
          }
        )
        const answer = await ask(app)
        t.strictSame(
          answer.limits.map(({ name }) => name),
          ['burst', 'daily']
        )
        const older = ['limit', 'remaining', 'reset'].map(field =>
          Number(answer.headers[`ratelimit-${field}`])
        )
        t.ok(
          [
            [1000, 999, 60],
            [20, 19, 10]
          ].some(numbers => numbers.join() === older.join()),
          `all three of one limiter: ${older.join()}`
        )
      }
    })
  }
)

fieldCase('C27', 'a name is one policy, and is listed with the numbers that are enforced', async t => {
  const routes = (...quotas: readonly object[]) => ({
    routes: (app: FastifyInstance) => {
      for (const [i, quota] of quotas.entries()) {
        app.get(`/${i}`, { config: { quota: quota as never } }, async () => 'served')
      }
    }
  })
  const twice = [
    { name: 'calls', quota: 1, window: 1 },
    { name: 'calls', quota: 2, window: 1 }
  ]
  const refused = { code: /^FST_QUOTA_(POLICY|ROUTE)$/, message: '"calls"' }
  await t.rejects(serve(t, REST, routes(twice)), refused, 'on one route')
  await t.rejects(serve(t, REST, routes(['calls', 'calls'])), refused, 'named twice')
  await t.rejects(serve(t, { calls: '1/1s' }, routes({ also: ['calls'] })), refused, 'a default, added again')
  await t.rejects(serve(t, REST, routes([twice[0]!], [twice[1]!])), refused, 'on two routes')
  const shared = await serve(
    t,
    { calls: { quota: 2, window: '1m', default: false } },
    routes(['calls'], ['calls'])
  )
  const answers = [await ask(shared.app, '/0'), await ask(shared.app, '/1'), await ask(shared.app, '/0')]
  t.strictSame(
    answers.map(({ status, limits }) => [status, limits[0]!['r']]),
    [
      [200, 1],
      [200, 0],
      [429, 0]
    ]
  )
  await inBothStores(t, async (t, serve) => {
    const { app } = await serve({
      calls: { quota: ({ headers }) => Number(headers['x-plan']), window: '1m' },
      also: { quota: 50, window: '1m' }
    })
    for (const plan of [2, 5, 3]) {
      await app.quota.reset({ ip: '127.0.0.1' })
      const told = await repeat(app, plan + 1, { headers: { 'x-plan': String(plan) } })
      t.strictSame(
        told.map(({ status }) => status),
        [...Array<number>(plan).fill(200), 429]
      )
      for (const { policies, limits } of told) {
        t.match(policies, [
          { name: 'calls', q: plan, w: 60 },
          { name: 'also', q: 50, w: 60 }
        ])
        t.ok(limits.every(({ name }) => policies.some(policy => policy.name === name)))
      }
    }
  })
})

fieldCase(
  'C29',
  'a partition key is bytes, the same wherever and whenever the quota is the same',
  async t => {
    const prefix = newPrefix()
    const start = async (partitionKey?: 'hash'): Promise<FastifyInstance> => {
      const store = redisStore(clientOf(t, await redis()), { ...PATIENT, prefix })
      const { app } = await serveIn(
        t,
        store,
        { policies: { few: '3/1h', many: '99/1m' }, ...(partitionKey === undefined ? {} : { partitionKey }) },
        {
          routes: app => {
            for (const url of ['/', '/other']) app.get(url, async () => 'served')
          }
        }
      )
      return app
    }
    const keysOf = ({ limits }: Told): Readonly<Record<string, string>> =>
      Object.fromEntries(limits.map(({ name, pk }) => [name, Buffer.from(pk as ArrayBuffer).toString('hex')]))
    const [one, two] = [await start('hash'), await start('hash')]
    const from = '192.0.2.1'
    const first = await ask(one, { from })
    const keys = keysOf(first)
    t.match(first.headers['ratelimit'], /^"few";r=2;t=\d+;pk=:[\w+/]+=*:, "many";r=98;t=\d+;pk=:[\w+/]+=*:$/)
    t.not(keys['few'], keys['many'], 'of another policy')
    t.strictSame(keysOf(await ask(one, { from, url: '/other' })), keys, 'on another route')
    t.strictSame(keysOf(await ask(two, { from })), keys, 'of another process')
    const refused = await ask(two, { from })
    t.strictSame([refused.status, keysOf(refused)], [429, { few: keys['few'] }], 'on a refusal')
    const stranger = keysOf(await ask(one, { from: '192.0.2.2' }))
    t.not(stranger['few'], keys['few'], 'of another client')
    t.not(stranger['many'], keys['many'])
    await Promise.all([one.close(), two.close()])
    t.strictSame(keysOf(await ask(await start('hash'), { from })), { few: keys['few'] }, 'after a restart')
    const silent = await ask(await start(), { from: '192.0.2.2' })
    t.equal(silent.limits.length, 2)
    t.notMatch(JSON.stringify(silent.headers), 'pk=', 'and never unless it is asked for')
    t.strictSame(await leftOf(await start(), ['many'], { ip: '192.0.2.2' }), { many: 97 })
  }
)

fieldCase('C30', 'each form of the fields has its own names and parameters, and no others', async t => {
  const list = (field: unknown): readonly unknown[] =>
    parseList(String(field)).map(([value, parameters]) => [value, Object.fromEntries(parameters)])
  const draft11 = (told: Told, r: number): void => {
    t.strictSame(list(told.headers['ratelimit-policy']), [['any', { q: 1, w: 60 }]])
    t.strictSame(list(told.headers['ratelimit']), [['any', { r, t: 60 }]])
  }
  const item = (field: unknown): unknown => parseItem(String(field))[0]
  const older: readonly (readonly [Legacy, readonly string[], (told: Told, r: number) => void])[] = [
    [
      delta,
      ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
      ({ headers }, r) => {
        t.equal(headers['x-ratelimit-remaining'], String(r))
        t.equal(headers['x-ratelimit-reset'], '60')
      }
    ],
    [
      'llm',
      ['x-ratelimit-limit-requests', 'x-ratelimit-remaining-requests', 'x-ratelimit-reset-requests'],
      ({ headers }, r) => {
        t.equal(headers['x-ratelimit-remaining-requests'], String(r))
        t.equal(headers['x-ratelimit-reset-requests'], '1m0s')
      }
    ],
    [
      'draft-6',
      ['ratelimit-limit', 'ratelimit-policy', 'ratelimit-remaining', 'ratelimit-reset'],
      ({ headers }, r) => {
        t.strictSame(
          ['limit', 'remaining', 'reset'].map(name => item(headers[`ratelimit-${name}`])),
          [1, r, 60]
        )
      }
    ],
    [
      'draft-7',
      ['ratelimit', 'ratelimit-policy'],
      ({ headers }, r) => {
        const members = [...parseDictionary(String(headers['ratelimit']))]
        t.strictSame(
          members.map(([name, [value]]) => [name, value]),
          [
            ['limit', 1],
            ['remaining', r],
            ['reset', 60]
          ]
        )
        t.strictSame(list(headers['ratelimit-policy']), [[1, { w: 60 }]])
      }
    ]
  ]
  const present = ['ratelimit', 'ratelimit-policy']
  const modes: readonly (readonly [
    Partial<QuotaOptions>,
    readonly string[],
    (told: Told, r: number) => void
  ])[] = [
    [{}, present, draft11],
    [{ fields: false }, [], () => {}],
    ...older.map(([legacy, names, check]) => [{ fields: false, legacy }, names, check] as const),
    ...older
      .filter(([legacy]) => legacy !== 'draft-7')
      .map(([legacy, names, check]) => {
        const both = (told: Told, r: number): void => {
          draft11(told, r)
          check(told, r)
        }
        return [{ legacy }, [...new Set([...present, ...names])].sort(), both] as const
      })
  ]
  for (const [mode, names, check] of modes) {
    const { app } = await serve(t, { policies: { any: '1/1m' }, ...mode })
    const [served, refused] = await repeat(app, 2)
    t.strictSame([served!.status, refused!.status], [200, 429])
    t.strictSame(fieldNames(served!), names, JSON.stringify(mode))
    t.strictSame(fieldNames(refused!), [...names, 'retry-after'].sort(), JSON.stringify(mode))
    t.equal(refused!.headers['retry-after'], '60')
    check(served!, 0)
    check(refused!, 0)
  }
  await t.rejects(serve(t, { policies: { any: '1/1m' }, legacy: 'draft-7' }), { code: 'FST_QUOTA_OPTION' })
})
