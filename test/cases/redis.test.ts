import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import calculateSlot from 'cluster-key-slot'
import type { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { redisStore } from '../../src/index.js'
import type {
  AlgorithmName,
  PolicyOptions,
  QuotaOptions,
  RedisStore,
  RedisStoreOptions
} from '../../src/index.js'
import { SETTLEMENT_CHANNEL } from '../../src/store.js'
import { compilePolicy } from '../../src/policy.js'
import { planScript } from '../../src/stores/redis/plan-script.js'
import { script } from '../../src/stores/redis/script.js'
import { connected } from '../cluster/kit.js'
import { LaterStore, watchWarnings } from '../plugin/kit.js'
import { startCluster, startRedis } from '../redis/servers.js'
import { PATIENT, SECRET, clientOf, until } from '../stores/redis/kit.js'
import {
  ALGORITHMS,
  Clock,
  ask,
  fieldCase,
  inBothStores,
  inRedis,
  newPrefix,
  redis,
  repeat,
  serve,
  serveIn,
  statuses,
  untilAnswers
} from './kit.js'
import type { Served, Told } from './kit.js'

t.setTimeout(120_000)

/** Keys that count, without those that only show that a server can be written to. */
async function keysOf(client: Redis, prefix: string): Promise<readonly string[]> {
  return (await client.keys(`${prefix}:*`)).filter(key => !key.endsWith(':probe')).sort()
}

/** Milliseconds until each key of a prefix goes; -1: never. */
async function livesOf(client: Redis, prefix: string): Promise<readonly number[]> {
  return Promise.all((await keysOf(client, prefix)).map(key => client.pttl(key)))
}

const NUMBERS = `local numbers = {}
for _, text in ipairs(redis.call('HVALS', KEYS[1])) do
  local _, state = cmsgpack.unpack(text)
  for _, number in ipairs(state) do numbers[#numbers + 1] = string.format('%.0f', number) end
end
return numbers`

interface Shared extends Served {
  readonly store: RedisStore
}

/** An app that counts by the clock of the server, with a deadline that a busy machine keeps. */
async function serveByServer(
  t: Test,
  client: Redis,
  options: QuotaOptions['policies'],
  wishes: Partial<RedisStoreOptions> = {}
): Promise<Shared> {
  const store = redisStore(client, { ...PATIENT, prefix: newPrefix(), ...wishes })
  const served = await serveIn(t, store, options)
  await untilAnswers(store)
  return { ...served, store }
}

const leftIn = ({ limits }: Told): number => Number(limits[0]?.['r'])

/** So many requests at the same time. */
const together = (app: Served['app'], times: number, url: string = '/'): Promise<readonly Told[]> =>
  Promise.all(Array.from({ length: times }, () => ask(app, url)))

fieldCase('C46', 'a key that has lost its expiry gets it back, and its owner is served again', async t => {
  for (const algorithm of ALGORITHMS) {
    const prefix = newPrefix()
    const policies = {
      short: { quota: 2, window: '5s', algorithm },
      long: { quota: 100, window: '1h' }
    } as const
    const { app, clock } = await inRedis(t, policies, prefix)
    const client = clientOf(t, await redis())
    t.strictSame(await statuses(app, '/', '/', '/'), [200, 200, 429], algorithm)
    const longest = async (): Promise<number> => {
      const lives = await livesOf(client, prefix)
      t.equal(lives.length, 1)
      return lives[0]!
    }
    t.ok((await longest()) > 0)
    for (const [at, status] of [
      [0.5, 429],
      [6, 200],
      [12, 200]
    ] as const) {
      for (const key of await keysOf(client, prefix)) await client.persist(key)
      t.equal(await longest(), -1)
      clock.at(at)
      t.equal((await ask(app)).status, status)
      t.ok((await longest()) > 3_500_000, 'for as long as the longest policy counts')
    }
  }
})

fieldCase('C47', 'a key lives as long as the window of the route, not of the others', async t => {
  for (const window of [300, '300s', '5m'] as const) {
    const prefix = newPrefix()
    const routes: NonNullable<Parameters<typeof inRedis>[3]>['routes'] = app => {
      const quota = [{ name: 'slow', quota: 1, window }] as const
      app.get('/', { config: { quota } }, async () => 'served')
      app.get('/other', async () => 'served')
    }
    const { app, clock } = await inRedis(t, { any: '9/1m' }, prefix, { routes })
    const client = clientOf(t, await redis())
    const first = await ask(app)
    t.strictSame([first.status, first.policies[0]!['w']], [200, 300])
    const [life, ...others] = await livesOf(client, prefix)
    t.ok(life! > 270_000 && life! <= 301_000, `${life} ms`)
    t.strictSame(others, [])
    t.equal((await ask(app, '/other')).policies[0]!['w'], 60)
    clock.at(70)
    const refused = await ask(app)
    t.strictSame([refused.status, refused.retryAfter], [429, 230])
  }
})

fieldCase('C48', 'a refund after its window gives nothing back and leaves nothing behind', async t => {
  await inBothStores(t, async (t, serve) => {
    for (const algorithm of ALGORITHMS) {
      let refunded = 0
      const count = (): void => void refunded++
      subscribe(SETTLEMENT_CHANNEL, count)
      let release!: () => void
      const released = new Promise<void>(resolve => (release = resolve))
      let running = 0
      const { app, clock } = await serve(
        {
          [algorithm]: {
            quota: 5,
            window: '1s',
            algorithm,
            refund: ({ url }: { url: string }) => url === '/slow'
          }
        },
        {
          routes: app => {
            app.get('/', async () => 'served')
            app.get('/slow', async () => {
              running++
              await released
              return 'served'
            })
          }
        }
      )
      clock.at(0)
      const slow = together(app, 5, '/slow')
      await until('five handlers', () => running === 5)
      clock.at(1.5)
      release()
      t.strictSame(
        (await slow).map(({ status }) => status),
        [200, 200, 200, 200, 200]
      )
      await until('five refunds', () => refunded === 5)
      unsubscribe(SETTLEMENT_CHANNEL, count)
      const client = clientOf(t, await redis())
      for (const key of await client.keys('case*')) {
        if (!key.endsWith(':probe')) t.ok((await client.pttl(key)) > 0)
        const numbers = key.endsWith(':probe') ? [] : await client.eval(NUMBERS, 1, key)
        t.ok((numbers as readonly string[]).every(number => Number(number) >= 0))
      }
      const answers = await together(app, 12)
      t.equal(answers.filter(({ status }) => status === 200).length, 5, algorithm)
      t.strictSame(new Set(answers.map(({ status }) => status)), new Set([200, 429]))
    }
  })
})

fieldCase('C49', 'a lost script is brought along once, and no request fails for it', async t => {
  const server = await startRedis(t)
  const client = clientOf(t, server)
  const served = await serveByServer(t, client, { any: '1000/1h' })
  const calls = async (command: string): Promise<number> =>
    Number(
      new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(
        await server.command('INFO', 'commandstats')
      )?.[1] ?? 0
    )
  const good = (answers: readonly Told[]): void =>
    void t.strictSame(
      new Set(answers.map(({ status, limits }) => [status, limits.length].join())),
      new Set(['200,1'])
    )
  good([await ask(served.app)])
  await server.command('SCRIPT', 'FLUSH')
  good(await together(served.app, 50))
  const brought = await calls('eval')
  // The hundredth decision looks for fields that nobody uses any more, by the script for everything.
  const next = await together(served.app, 48)
  good(next)
  t.equal(await calls('eval'), brought, 'not again')
  t.equal(Math.min(...next.map(leftIn)), 1000 - 99, 'it has counted on')
  await server.restart()
  await untilAnswers(served.store)
  const fresh = await together(served.app, 50)
  good(fresh)
  t.equal(Math.min(...fresh.map(leftIn)), 950, 'it has counted anew')
  const again = await calls('eval')
  good(await together(served.app, 50))
  t.equal(await calls('eval'), again)
})

fieldCase('C51', 'all keys of a call are told and in one slot, and clients are spread', async t => {
  const part = { key: 2, policy: compilePolicy('any', '1000/1h', []), told: false }
  const texts = script(true) + planScript([part], 'server', true)
  const named = [
    ...texts.matchAll(/redis\.call\('(\w+)'(?:, ([\w.]+(?:\[(?:[^[\],]|\[\w+\])*\])?(?:\.key)?))?/g)
  ]
  t.ok(named.length > 14)
  for (const [call, command, key] of named) {
    if (command !== 'TIME')
      t.match(key, /^(key|KEYS\[2\]|partition\.key|partitions\[tonumber\(ARGV\[i\]\)\]\.key)$/, call)
  }
  const cluster = await startCluster(t, { replicas: 0 })
  const client = connected(t, cluster)
  const single = clientOf(t, await redis())
  for (const [where, source] of [
    ['a cluster', client],
    ['one server', single]
  ] as const) {
    await t.test(`on ${where}`, async t => {
      const policies: Record<string, PolicyOptions> = {
        weighted: { quota: 3, window: '1h', algorithm: 'sliding-window-counter' },
        all: {
          quota: 1000,
          window: '1h',
          partition: 'global',
          refund: (request: { url: string }) => request.url !== '/'
        }
      }
      const prefix = newPrefix()
      const routes = (app: Served['app']): void => {
        for (const url of ['/', '/back']) app.get(url, async () => 'served')
      }
      const store = redisStore(source, { ...PATIENT, prefix })
      const { app } = await serveIn(t, store, policies, { routes })
      await untilAnswers(store)
      const from = Array.from({ length: 30 }, (_, i) => `192.0.2.${i}`)
      for (const address of from) {
        const asked = ['/back', '/', '/', '/'].map(url => ({ url, from: address }))
        t.strictSame(await statuses(app, ...asked), [200, 200, 200, 429], address)
      }
      await until('refunds', async () => {
        const { limits, source } = await app.quota.peek({ ip: from[0]! })
        t.equal(source, 'redis')
        return limits.map(({ remaining }) => remaining).join() === `0,${1000 - 60}`
      })
      if (where !== 'a cluster') return
      const found = await Promise.all(
        cluster.nodes.map(node =>
          node.command('KEYS', `${prefix}:*`).then(text => text.split('\n').filter(Boolean))
        )
      )
      t.ok(
        found.every(keys => keys.length > 3),
        'each node has some'
      )
      const slots = new Set(found.flat().map(key => calculateSlot(key)))
      t.ok(slots.size >= 30)
    })
  }
})

fieldCase(
  'C53',
  'a master that has become a replica is left alone, and counted on again when it is back',
  async t => {
    for (const onFailure of ['open', 'closed', 'local'] as const) {
      await t.test(onFailure, async t => {
        const { heard } = watchWarnings(t)
        const server = await startRedis(t)
        const served = await serveByServer(t, clientOf(t, server), { any: '1000/1h' }, { onFailure })
        const { app, log } = served
        t.equal((await ask(app)).status, 200)
        await server.command('REPLICAOF', '127.0.0.1', '1')
        const expected = onFailure === 'closed' ? 503 : 200
        const end = performance.now() + 2000
        let asked = 0
        while (performance.now() < end) {
          const { status, limits, retryAfter } = await ask(app)
          t.equal(status, expected)
          if (onFailure === 'closed') t.ok(retryAfter >= 1)
          t.strictSame(limits, [], 'no number is better than an invented one')
          asked++
          await sleep(20)
        }
        t.ok(log.length >= 1 && log.length <= 5, `${log.length} lines for ${asked} requests`)
        t.match(log[0]!.msg, 'so policies do as onStoreFailure says')
        const codes = (await heard()).map(({ code }) => code)
        t.ok(codes.includes('FST_QUOTA_REDIS_REPLICA'), 'and why')
        await server.command('REPLICAOF', 'NO', 'ONE')
        await untilAnswers(served.store)
        const { status, limits } = await ask(app)
        t.equal(status, 200)
        t.ok(Number(limits[0]!['r']) < 999, 'what was counted before is counted still')
      })
    }
  }
)

fieldCase('C54', 'a window ends between two requests, never within one', async t => {
  const shapes: readonly Partial<PolicyOptions>[] = [{}, { algorithm: 'fixed-window' }]
  for (const shape of shapes) {
    const { app, clock } = await inRedis(t, { wide: { quota: 3000, window: '1s', ...shape } }, newPrefix())
    let refused = 0
    for (let from = 0; from < 10_000; from += 500) {
      const asked = Array.from({ length: 500 }, (_, i) => {
        clock.at((from + i) / 500)
        return app.quota.consume({ ip: '192.0.2.1' }, { wide: 1 })
      })
      refused += (await Promise.all(asked)).filter(({ outcome }) => outcome !== 'allowed').length
    }
    t.equal(refused, 0, 'of 500 a second, for twenty seconds')
  }
  const client = clientOf(t, await redis())
  const { app } = await serveByServer(t, client, {
    short: { quota: 5, window: '200ms', algorithm: 'fixed-window' }
  })
  const left: number[] = []
  for (const end = performance.now() + 3000; performance.now() < end; await sleep(7)) {
    const { outcome, limits, source } = await app.quota.consume({ ip: '192.0.2.1' }, { short: 1 })
    t.equal(source, 'redis')
    left.push(outcome === 'allowed' ? limits[0]!.remaining : -1)
  }
  t.ok(left.filter(units => units === 4).length > 2, 'there were windows')
  const odd = left.filter((units, i) => i > 0 && units !== 4 && units !== Math.max(-1, left[i - 1]! - 1))
  t.strictSame(odd, [], 'each counts down from its first request, and a new one starts with all of it')
})

fieldCase('C55', 'of many at the same moment as many are served as there are units', async t => {
  const once = (algorithm: AlgorithmName): QuotaOptions['policies'] => ({
    [algorithm]: { quota: 5, window: '1h', algorithm }
  })
  const exactly = (t: Test, answers: readonly Told[], what: string): void => {
    const served = answers.filter(({ status }) => status === 200)
    t.strictSame(
      served.map(leftIn).sort((a, b) => a - b),
      [0, 1, 2, 3, 4],
      what
    )
    t.equal(answers.filter(({ status }) => status === 429).length, answers.length - 5)
  }
  await t.test('with two processes and one Redis', async t => {
    for (const algorithm of ALGORITHMS) {
      const prefix = newPrefix()
      const [one, two] = [
        await inRedis(t, once(algorithm), prefix),
        await inRedis(t, once(algorithm), prefix)
      ]
      exactly(t, (await Promise.all([together(one.app, 50), together(two.app, 50)])).flat(), algorithm)
    }
  })
  await t.test('with a store that answers later', async t => {
    for (const algorithm of ALGORITHMS) {
      const clock = new Clock()
      const { app } = await serveIn(t, new LaterStore(clock.read), once(algorithm))
      exactly(t, await together(app, 50), algorithm)
    }
  })
})

fieldCase('C57', 'a server that tells no time is told of at the start, and can be told the time', async t => {
  const server = await startRedis(t)
  await server.command('ACL', 'SETUSER', 'timeless', 'on', '>word', '~*', '+@all', '-time')
  const client = (): Redis => clientOf(t, server, { username: 'timeless', password: 'word' })
  const without = await serveIn(t, redisStore(client(), PATIENT), { any: '2/1h' })
  await until('a line', () => without.log.length > 0)
  t.match(without.log, [
    { level: 50, code: 'NOPERM', err: { message: /NOPERM.* may not call TIME.*time: 'caller'/ } }
  ])
  t.strictSame(await statuses(without.app, '/', '/', '/'), [503, 503, 503], 'as the failure mode says')
  t.equal(without.log.length, 1, 'told once')
  const told = await serveByServer(t, client(), { any: '2/1h' }, { time: 'caller' })
  t.strictSame(await statuses(told.app, '/', '/', '/'), [200, 200, 429])
  t.strictSame(told.log, [])
  const { heard } = watchWarnings(t)
  // The client would ask for that, too.
  const old = clientOf(t, server, { enableReadyCheck: false })
  old.info = async () => 'redis_version:4.0.14\r\n'
  await serveIn(t, redisStore(old, { ...PATIENT, connection: 'shared' }), { any: '2/1h' })
  await until('a warning', async () => (await heard()).length > 0)
  t.match(await heard(), [{ code: 'FST_QUOTA_REDIS_VERSION', message: /5\.0 or later.*time: 'caller'/ }])
})

fieldCase('C58', 'whatever is done to a key, it goes in time', async t => {
  const prefix = newPrefix()
  const client = clientOf(t, await redis())
  const policies: Record<string, PolicyOptions> = Object.fromEntries(
    ALGORITHMS.map(algorithm => [
      algorithm,
      {
        quota: 2,
        window: '10s',
        algorithm,
        default: false,
        refund: (request: { url: string }) => request.url.endsWith('/back')
      }
    ])
  )
  const slots = { quota: 2, algorithm: 'concurrency', holdFor: '10s', default: false } as const
  const { app, clock } = await inRedis(t, { ...policies, slots }, prefix, {
    routes: app => {
      for (const name of ALGORITHMS) {
        for (const url of [`/${name}`, `/${name}/back`])
          app.get(url, { config: { quota: [name] } }, async () => url)
      }
      app.get('/slots', { config: { quota: ['slots'] } }, async () => 'served')
    }
  })
  const subject = { ip: '127.0.0.1' }
  const checked = async (what: string): Promise<void> => {
    for (const life of await livesOf(client, prefix)) t.ok(life > 0 && life <= 21_000, `${what}: ${life} ms`)
  }
  for (const [i, name] of [...ALGORITHMS, 'slots'].entries()) {
    clock.at(i * 60)
    await client.del(...(await keysOf(client, prefix)), 'none')
    t.equal((await ask(app, `/${name}`)).status, 200)
    await checked(`${name}, admitted`)
    if (name !== 'slots') t.equal((await ask(app, `/${name}/back`)).status, 200)
    const left = name === 'slots' ? 2 : 1
    await until('what is given back', async () => {
      const { limits } = await app.quota.peek(subject, [name])
      return limits[0]!.remaining === left
    })
    await checked(`${name}, given back`)
    const reservation = await app.quota.reserve(subject, name, left)
    t.equal(reservation.outcome, 'allowed')
    await checked(`${name}, reserved`)
    t.strictSame(await statuses(app, `/${name}`, `/${name}`), [429, 429])
    await checked(`${name}, refused`)
    await app.quota.peek(subject, [name])
    await checked(`${name}, looked at`)
    await reservation.release()
    await checked(`${name}, released`)
  }
  await t.test('and nothing is left', async t => {
    const server = await startRedis(t)
    const brief = (algorithm: AlgorithmName): PolicyOptions => ({ quota: 2, window: '1s', algorithm })
    const policies = Object.fromEntries(ALGORITHMS.map(algorithm => [algorithm, brief(algorithm)]))
    const { app } = await serveByServer(t, clientOf(t, server), policies)
    await repeat(app, 6)
    await until('an empty database', async () => (await server.command('DBSIZE')) === '0')
  })
})

fieldCase(
  'C59',
  'both stores say the same, and limiters that were not told of each other share nothing',
  async t => {
    const steps = script200()
    const options: QuotaOptions = {
      policies: {
        burst: { quota: 6, window: '5s' },
        each: { quota: 4, window: '4s', algorithm: 'fixed-window', partition: 'route' }
      }
    }
    const routes = (app: Served['app']): void => {
      for (const url of ['/a', '/b', '/c']) app.get(url, async () => 'served')
    }
    const replay = async (apps: readonly Served[]): Promise<readonly unknown[]> => {
      const answers: unknown[] = []
      for (const { at, instance, url } of steps) {
        const { app, clock } = apps[instance]!
        clock.at(at)
        const { status, headers } = await ask(app, url)
        answers.push([status, headers['ratelimit'], headers['retry-after']])
      }
      return answers
    }
    const clock = new Clock()
    const alone = [await serve(t, options, { routes, clock }), await serve(t, options, { routes, clock })]
    const secrets = ['first', 'second'].map(name => `${name} ${SECRET}`)
    const apart: Served[] = []
    for (const secret of secrets) {
      const store = redisStore(clientOf(t, await redis()), {
        onFailure: 'closed',
        deadline: '10s',
        secret,
        time: 'caller'
      })
      store.useClock(clock.read)
      apart.push(await serveIn(t, store, options, { routes, clock }))
    }
    const answers = await replay(alone)
    t.strictSame(await replay(apart), answers)
    t.ok(new Set(answers.map(answer => JSON.stringify(answer))).size > 20, 'there was something to tell')
    await t.test('told to share, they do', async t => {
      const prefix = newPrefix()
      const shared = { any: '2/1m' } as const
      const [one, two] = [await inRedis(t, shared, prefix), await inRedis(t, shared, prefix)]
      t.strictSame(
        [...(await statuses(one.app, '/')), ...(await statuses(two.app, '/', '/'))],
        [200, 200, 429]
      )
    })
  }
)

fieldCase('C61', 'a time to live is a whole number that Redis takes, whatever the rate', async t => {
  const client = clientOf(t, await redis())
  const shapes: Readonly<Record<string, PolicyOptions>> = {
    third: { quota: 3, window: '10s', algorithm: 'token-bucket' },
    vast: { quota: 1, window: '30d', burst: 1_000_000, algorithm: 'token-bucket' },
    vaster: { quota: 1, window: '30d', burst: 1_000_000, algorithm: 'leaky-bucket' },
    ...Object.fromEntries(
      ALGORITHMS.flatMap((algorithm, i) => [
        [
          `brief${i}`,
          {
            quota: 3,
            window: '1ms',
            algorithm,
            ...(algorithm === 'sliding-window-counter' ? { precision: 1 } : {})
          }
        ],
        [`decade${i}`, { quota: 3, window: '3650d', algorithm }]
      ])
    )
  }
  for (const [name, policy] of Object.entries(shapes)) {
    const prefix = newPrefix()
    const { app } = await inRedis(t, { [name]: policy }, prefix)
    for (const units of [1, (policy.burst ?? 3) - 1]) {
      const { outcome, source } = await app.quota.consume({ ip: '127.0.0.1' }, { [name]: units })
      t.strictSame([outcome, source], ['allowed', 'redis'], name)
    }
    t.equal((await ask(app)).status, 429, name)
    const lives = await livesOf(client, prefix)
    // What lasts a millisecond may be gone.
    t.ok(
      lives.every(life => Number.isSafeInteger(life) && (life >= 1 || life === -2)),
      `${name}: ${lives.join()}`
    )
    if (!name.startsWith('brief')) t.equal(lives.length, 1)
  }
})

interface Step {
  readonly at: number
  readonly instance: number
  readonly url: string
}

/** 200 requests at uneven times, always the same. */
function script200(): readonly Step[] {
  let seed = 20261130
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((seed / 2 ** 31) * below)
  }
  let at = 0
  return Array.from({ length: 200 }, () => {
    at += random(4) === 0 ? random(3000) / 1000 : random(300) / 1000
    return { at, instance: random(2), url: ['/a', '/b', '/c'][random(3)]! }
  })
}
