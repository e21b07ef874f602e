import axios from 'axios'
import axiosRetry from 'axios-retry'
import type { FastifyInstance } from 'fastify'
import { got } from 'got'
import t from 'tap'
import type { Test } from 'tap'
import { Agent, RetryAgent, request } from 'undici'
import { paced } from '../../src/client/index.js'
import type { AlgorithmName, Legacy, PolicyOptions, QuotaOptions, Store } from '../../src/index.js'
import { redisStore } from '../../src/index.js'
import { refused, world } from '../client/kit.js'
import type { Reply } from '../client/kit.js'
import { VirtualTime } from '../client/virtual-time.js'
import { NOON } from '../fixtures/wire.js'
import { clientOf, SECRET } from '../stores/redis/kit.js'
import { startRedis } from '../redis/servers.js'
import { ask, fieldCase, inBothStores, portOf, repeat, serve, serveIn } from './kit.js'
import type { Asked, Build, Told } from './kit.js'

t.setTimeout(120_000)

/** Whole seconds, at least one: no fraction, no sign, no date. */
const SECONDS = /^[1-9]\d*$/

const URL = 'http://api.test/'

/** Seconds after which our client is back that was refused with these fields, and served then. */
async function backAfter(
  fields: Readonly<Record<string, string>>,
  date: number = VirtualTime.START
): Promise<number> {
  const reply: Reply = refused({ date: new Date(date).toUTCString(), ...fields })
  const { time, api, seconds } = world([reply, {}], { jitter: 0, maxWait: '1h' })
  const { status } = await time.run(api(URL))
  return status === 200 ? seconds()[1]! : Number.NaN
}

/** A real client that tries again once. */
type Caller = (url: string) => Promise<number>

const callers: Readonly<Record<string, () => Caller>> = {
  'axios-retry': () => {
    const client = axios.create()
    axiosRetry(client, { retries: 1 })
    return async url => (await client.get(url)).status
  },
  'undici RetryAgent': () => {
    const agent = new RetryAgent(new Agent(), { maxRetries: 1 })
    return async url => {
      const { statusCode, body } = await request(url, { dispatcher: agent })
      await body.dump()
      return statusCode
    }
  },
  got: () => async url => (await got(url, { retry: { limit: 1 } })).statusCode,
  ours: () => {
    const api = paced(fetch, { retries: 1 })
    return async url => (await api(url)).status
  }
}

/** An app in real time that keeps when it refused and when it served, in milliseconds. */
async function observed(
  t: Test,
  policy: PolicyOptions
): Promise<{ readonly url: string; readonly refusals: number[]; readonly served: number[] }> {
  const refusals: number[] = []
  const served: number[] = []
  const options: QuotaOptions = {
    policies: { any: policy },
    onRefused: () => void refusals.push(performance.now())
  }
  const routes = (app: FastifyInstance): unknown =>
    app.get('/', async () => {
      served.push(performance.now())
      return 'served'
    })
  const { app } = await serve(
    t,
    { ...options, clock: () => performance.timeOrigin + performance.now() },
    { routes }
  )
  return { url: `http://127.0.0.1:${await portOf(app)}/`, refusals, served }
}

fieldCase(
  'C117',
  'a wait is whole seconds on every way to a refusal, and odd ones make our client hurry nowhere',
  async t => {
    const one = { quota: 1, window: 60 } as const
    const upload: Asked = {
      method: 'POST',
      headers: { 'content-type': 'text/plain', 'transfer-encoding': 'chunked' },
      body: 'x'.repeat(100)
    }
    const ways: Readonly<
      Record<
        string,
        {
          readonly options: QuotaOptions
          readonly routes?: NonNullable<Build['routes']>
          readonly asked?: Asked
        }
      >
    > = {
      usual: { options: { policies: { one } } },
      'at the first hook': { options: { policies: { one: { ...one, hook: 'onRequest' } } } },
      'at the last hook': { options: { policies: { one: { ...one, hook: 'preHandler' } } } },
      'with status 503': { options: { policies: { one: { ...one, status: 503 } } } },
      'without fields': { options: { policies: { one }, fields: false } },
      'with jitter': { options: { policies: { one }, jitter: '1500ms' } },
      internal: { options: { policies: { one: { ...one, advertise: false } } } },
      'with a body of the framework': { options: { policies: { one }, problem: false } },
      'of less than a second': { options: { policies: { one: { quota: 1, window: '100ms' } } } },
      'where nothing matches': { options: { policies: { one } }, asked: { url: '/nowhere' } },
      'with a queue': {
        options: { policies: { one: { quota: 1, window: 60, algorithm: 'leaky-bucket', maxDelay: '1s' } } }
      },
      'of a body that is too long': {
        options: { policies: { bytes: { quota: 150, window: 60, unit: 'content-bytes' } } },
        routes: app => app.post('/', async () => 'served'),
        asked: upload
      },
      'in a handler': {
        options: { policies: { one: { ...one, default: false } } },
        routes: app =>
          app.get('/', async (request, reply) => {
            const decision = await app.quota.consume(request, { one: 1 })
            return decision.outcome === 'refused' ? reply.refuse(decision) : 'served'
          })
      }
    }
    for (const [way, { options, routes, asked = {} }] of Object.entries(ways)) {
      const { app } = await serve(t, options, routes === undefined ? {} : { routes })
      const [, told] = await repeat(app, 2, asked)
      t.match(String(told!.status), /^(429|503)$/, way)
      t.match(told!.headers['retry-after'], SECONDS, way)
    }
    const server = await startRedis(t)
    await server.kill()
    const store: Store = redisStore(clientOf(t, server, { lazyConnect: true }), {
      onFailure: 'closed',
      secret: SECRET
    })
    const { app } = await serveIn(t, store, { one })
    for (const { status, headers } of await repeat(app, 10)) {
      t.equal(status, 503)
      t.match(headers['retry-after'], SECONDS, 'while the store is away')
    }
    await Promise.all(
      Object.entries(callers).map(async ([name, make]) => {
        const { url, refusals, served } = await observed(t, { quota: 1, window: 1 })
        const call = make()
        t.strictSame([await call(url), await call(url)], [200, 200], name)
        t.ok(refusals.length <= 1 && served.length === 2, `${name} is back in time`, { refusals, served })
      })
    )
    for (const [text, least, most] of [
      ['0', 1, 15],
      ['00', 1, 15],
      ['7', 7, 7],
      [new Date(VirtualTime.START + 7000).toUTCString(), 7, 7],
      [new Date(VirtualTime.START - 7000).toUTCString(), 1, 15],
      [new Date(VirtualTime.START).toUTCString(), 1, 15]
    ] as const) {
      const back = await backAfter({ 'retry-after': text })
      t.ok(back >= least && back <= most, `"${text}": ${back} s`)
    }
  }
)

fieldCase('C118', 'a wait can be taken for nothing else, and what is no wait is taken for none', async t => {
  const clocks: Readonly<Record<string, () => () => number>> = {
    'that stands still': () => () => NOON,
    'that jumps ahead': () => {
      let now = NOON
      return () => (now += 700)
    },
    'that goes back': () => {
      let now = NOON
      return () => (now -= 700)
    },
    'of fractions': () => {
      let now = NOON
      return () => (now += 0.3)
    }
  }
  const policies: Readonly<Record<string, PolicyOptions>> = {
    fraction: { quota: 1, window: '1500ms' },
    half: { quota: 1, window: '500ms' },
    years: { quota: 1, window: '3650d' },
    century: { quota: 1, window: '36525d', algorithm: 'token-bucket' }
  }
  for (const [which, clock] of Object.entries(clocks)) {
    for (const [name, policy] of Object.entries(policies)) {
      for (const legacy of [false, { style: 'x-ratelimit', reset: 'delta' }] as const) {
        const { app } = await serve(t, { policies: { [name]: policy }, clock: clock(), legacy })
        for (const { status, headers, retryAfter } of await repeat(app, 4)) {
          if (status === 200) t.equal(headers['retry-after'], undefined)
          else t.match(headers['retry-after'], SECONDS, `${name}, a clock ${which}`)
          t.notOk(retryAfter > 2_147_483, 'and is none that a timer cannot wait')
          if (legacy !== false) t.match(headers['x-ratelimit-reset'], SECONDS)
        }
      }
    }
  }
  for (const text of [
    '1.5',
    '-3',
    '+3',
    '500ms',
    '3s',
    '1e3',
    '0x10',
    '120 ',
    '2026',
    '2026-11-30',
    'Infinity',
    '',
    '3, 4'
  ]) {
    const back = await backAfter({ 'retry-after': text })
    const [least, most] = SECONDS.test(text.trim()) ? [Number(text), Number(text)] : [1, 15]
    t.ok(back >= least && back <= most, `"${text}": ${back} s`)
  }
})

fieldCase('C120', 'a reset of the epoch is a second in which the quota is there again', async t => {
  const epoch: Legacy = { style: 'x-ratelimit', reset: 'epoch' }
  const x = NOON / 1000
  for (const algorithm of ['sliding-window', 'sliding-window-log', 'fixed-window', 'token-bucket'] as const) {
    const { app, clock } = await serve(t, {
      policies: { one: { quota: 1, window: 3, algorithm } },
      legacy: epoch
    })
    clock.at(0.5)
    t.match(await ask(app), { status: 200, headers: { 'x-ratelimit-reset': String(x + 4) } }, algorithm)
    clock.at(1.5)
    const told = await ask(app)
    t.match(told, {
      status: 429,
      headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(x + 4) },
      retryAfter: 2
    })
    clock.at(4)
    t.match(await ask(app), { status: 200 }, 'who waits until that second is served')
    clock.at(7)
    await ask(app)
    clock.at(9.999)
    const late = await ask(app)
    t.match(late, { status: 429, headers: { 'x-ratelimit-reset': String(x + 10) }, retryAfter: 1 })
  }
  const { app } = await serve(
    t,
    { policies: { one: { quota: 1, window: 3 } }, legacy: epoch, clock: () => Date.now() },
    {}
  )
  for (const { headers } of await repeat(app, 3))
    t.ok(
      Number(headers['x-ratelimit-reset']) * 1000 > Date.parse(headers.date!),
      'and is later than the date'
    )
  const now = VirtualTime.START / 1000
  const of = (remaining: number, reset: number): Readonly<Record<string, string>> => ({
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(reset)
  })
  t.ok((await backAfter(of(0, now))) >= 1, 'our client does not come back in the second that is over')
  t.ok((await backAfter(of(0, now + 7))) >= 7)
  t.ok((await backAfter(of(3, now + 7))) >= 7, 'nor before the reset, whatever is said to be left')
  const ahead = VirtualTime.START + 3_600_000
  const skewed = await backAfter(of(0, ahead / 1000 + 7), ahead)
  t.ok(skewed >= 7 && skewed <= 9, 'and goes by the clock of the server', { skewed })
})

fieldCase('C121', 'each older field has the one unit that the manual says', async t => {
  const windows = [10, 86_400, 400 * 86_400]
  const durations = ['10s', '24h0m0s', '9600h0m0s']
  const legacies: readonly Legacy[] = [
    { style: 'x-ratelimit', reset: 'delta' },
    { style: 'x-ratelimit', reset: 'epoch' },
    'draft-6',
    'draft-7',
    'llm'
  ]
  for (const legacy of legacies) {
    for (const [i, window] of windows.entries()) {
      const { app } = await serve(t, {
        policies: { any: { quota: 1, window } },
        legacy,
        ...(legacy === 'draft-7' && { fields: false })
      })
      for (const { headers } of await repeat(app, 2)) {
        const reset = String(
          headers['x-ratelimit-reset'] ??
            headers['ratelimit-reset'] ??
            headers['x-ratelimit-reset-requests'] ??
            /reset=(.*)$/.exec(String(headers['ratelimit']))?.[1]
        )
        const expected =
          legacy === 'llm'
            ? durations[i]
            : String(typeof legacy === 'object' && legacy.reset === 'epoch' ? NOON / 1000 + window : window)
        t.equal(reset, expected, JSON.stringify(legacy))
        if (legacy === 'llm') continue
        t.match(reset, SECONDS)
        t.equal(
          Number(reset) > 1e9,
          typeof legacy === 'object' && legacy.reset === 'epoch',
          'none can be taken for another'
        )
      }
    }
  }
  const now = VirtualTime.START
  const readings: Readonly<Record<string, readonly [least: number, most: number]>> = {
    '30': [30, 31],
    [String(now / 1000 + 30)]: [30, 31],
    [String(now + 30_000)]: [30, 31],
    '30s': [30, 31],
    '0m30s': [30, 31],
    '30000ms': [30, 31],
    [new Date(now + 30_000).toISOString()]: [30, 31],
    [new Date(now + 30_000).toUTCString()]: [30, 31],
    'Mon Nov 30 2026 12:00:30 GMT+0100': [1, 15],
    '-30': [1, 15],
    '6m': [360, 361]
  }
  for (const [reset, [least, most]] of Object.entries(readings)) {
    const back = await backAfter({
      'x-ratelimit-limit': '10',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': reset
    })
    t.ok(back >= least && back <= most, `our client reads "${reset}" as ${back} s`)
  }
})

const algorithms: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
]

/** The same chance each time, mulberry32. */
const chance = (): (() => number) => new VirtualTime(7).random

fieldCase('C122', 'who waits as long as he is told is served', async t => {
  await inBothStores(t, async (t, serve) => {
    for (const algorithm of algorithms) {
      const random = chance()
      const { app, clock } = await serve({ [algorithm]: { quota: 3, window: 7, algorithm } })
      let served = 0
      const odd: Told[] = []
      for (let round = 0; round < 100; round++) {
        clock.now += Math.floor(random() * 3000)
        let told = await ask(app, { from: '192.0.2.1' })
        while (told.status === 200) told = await ask(app, { from: '192.0.2.1' })
        if (!SECONDS.test(String(told.headers['retry-after'])) || told.retryAfter > 14) odd.push(told)
        if (!told.limits.every(({ r, t }) => r === 0 && Number(t) >= 1 && Number(t) <= told.retryAfter))
          odd.push(told)
        clock.now += told.retryAfter * 1000
        if ((await ask(app, { from: '192.0.2.1' })).status === 200) served++
      }
      t.strictSame([served, odd], [100, []], algorithm)
    }
  })
})

fieldCase(
  'C125',
  'an ordinary client that tries again once is served, and refused no more than once',
  async t => {
    await Promise.all(
      Object.entries(callers).map(async ([name, make]) => {
        const { url, refusals, served } = await observed(t, { quota: 2, window: 2 })
        const call = make()
        t.strictSame([await call(url), await call(url), await call(url)], [200, 200, 200], name)
        t.equal(served.length, 3)
        // Ours waits without being refused.
        t.equal(refusals.length, name === 'ours' ? 0 : 1, name)
        const wait = served[2]! - served[0]!
        t.ok(wait >= 1990 && wait < 8000, `${name} is back after about two seconds`, { wait })
      })
    )
  }
)
