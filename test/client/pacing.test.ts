import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { paced } from '../../src/client/index.js'
import type { PacedOptions } from '../../src/client/index.js'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { injected } from './injected.js'
import type { Sent } from './injected.js'
import { VirtualTime } from './virtual-time.js'

t.setTimeout(120_000)

/** A real server and its clients in one time that nobody waits for. */
interface World {
  readonly time: VirtualTime
  readonly app: FastifyInstance
  readonly sent: readonly Sent[]
  /** What reaches the server, and how long the way takes. */
  readonly network: typeof fetch
}

/** From client to server and back in 10 to 50 ms. */
const network = (time: VirtualTime): number => 5 + 20 * time.random()

const noNetwork = (): number => 0

async function world(
  t: Test,
  policies: QuotaOptions['policies'],
  latency: (time: VirtualTime) => number,
  seed: number = 1
): Promise<World> {
  const time = new VirtualTime(seed)
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, { clock: () => Math.floor(time.now()), policies })
  app.all('/', async () => 'served')
  await app.ready()
  const sent: Sent[] = []
  return { time, app, sent, network: injected(app, time, () => latency(time), sent) }
}

/** One way to call an API: it calls until it is served. */
type Caller = (world: World) => () => Promise<void>

const URL_OF_ALL = 'http://api.test/'

/** Tries again after a tenth of a second, whatever it is told. */
const naive: Caller =
  ({ time, network }) =>
  async () => {
    while ((await network(URL_OF_ALL)).status !== 200) await time.sleep(100)
  }

/** Tries again when `Retry-After` is over, as most clients do. */
const retrying: Caller =
  ({ time, network }) =>
  async () => {
    for (;;) {
      const response = await network(URL_OF_ALL)
      if (response.status === 200) return
      await time.sleep(Number(response.headers.get('retry-after')) * 1000)
    }
  }

const pacing =
  (options: PacedOptions = {}): Caller =>
  ({ time, network }) => {
    const api = paced(network, { timing: time, ...options })
    return async () => {
      const response = await api(URL_OF_ALL)
      if (response.status !== 200) throw new Error(`${response.status} after all retries`)
    }
  }

interface Row {
  readonly seconds: number
  readonly served: number
  readonly refused: number
  /** In percent of all requests. */
  readonly refusals: number
}

/** So many clients that call one after the other until all calls are served. */
async function inTurn(world: World, caller: Caller, clients: number, calls: number): Promise<Row> {
  const work = async (): Promise<void> => {
    const call = caller(world)
    for (let i = 0; i < calls / clients; i++) await call()
  }
  await world.time.run(Promise.all(Array.from({ length: clients }, work)))
  return row(world)
}

/** So many clients that make all their calls at once. */
async function atOnce(world: World, caller: Caller, clients: number, calls: number): Promise<Row> {
  const work = async (): Promise<void> => {
    const call = caller(world)
    await Promise.all(Array.from({ length: calls / clients }, call))
  }
  await world.time.run(Promise.all(Array.from({ length: clients }, work)))
  return row(world)
}

function row({ time, sent }: World): Row {
  const refused = sent.filter(({ status }) => status === 429).length
  return {
    seconds: time.passed / 1000,
    served: sent.length - refused,
    refused,
    refusals: (100 * refused) / sent.length
  }
}

function show(t: Test, name: string, { seconds, served, refused, refusals }: Row): void {
  const cells = [name.padEnd(44), `${seconds.toFixed(1)} s`, `${served} served`, `${refused} refused`]
  t.comment(`${cells.join(' | ')} | ${refusals.toFixed(1)} %`)
}

/** The second one lets 100 through in 5 s, and the first one the next 100 after 10 s. */
const TWO = { long: '100/10s', short: '20/1s' } as const

/** 500 calls: 100 each in the seconds 0 to 4, 10 to 14, and so on; the last 20 of them at second 44. */
const IDEAL = 44

t.test('500 calls by one client, one after the other: no refusal, in the ideal time', async t => {
  const rows: Record<string, Row> = {}
  for (const [name, caller] of Object.entries({ naive, 'Retry-After': retrying, paced: pacing() })) {
    rows[name] = await inTurn(await world(t, TWO, noNetwork), caller, 1, 500)
    show(t, `one client, ${name}`, rows[name])
  }
  const { seconds, served, refused } = rows['paced']!
  t.strictSame([served, refused], [500, 0])
  t.ok(seconds <= IDEAL * 1.05, `${seconds} s of ${IDEAL} s`)
  t.ok(rows['naive']!.refused > 300)
  t.ok(rows['Retry-After']!.refused >= 20)
})

t.test('500 calls by one client, all at once: no refusal, in the ideal time', async t => {
  const one = await atOnce(await world(t, TWO, noNetwork), pacing(), 1, 500)
  show(t, 'one client, all at once, paced', one)
  t.strictSame([one.served, one.refused], [500, 0])
  t.ok(one.seconds <= IDEAL * 1.05)
})

t.test('over a network there is no refusal either, one after the other', async t => {
  for (const seed of [1, 2, 3]) {
    const one = await inTurn(await world(t, TWO, network, seed), pacing(), 1, 500)
    show(t, `one client, network ${seed}, paced`, one)
    t.strictSame([one.served, one.refused], [500, 0])
    const many = await atOnce(await world(t, TWO, network, seed), pacing(), 1, 500)
    show(t, `one client, all at once, network ${seed}, paced`, many)
    t.ok(many.refusals < 1)
  }
})

t.test('four clients on one key share it: hardly a refusal', async t => {
  for (const [way, latency] of Object.entries({ 'no network': noNetwork, network })) {
    for (const [name, caller] of Object.entries({ naive, 'Retry-After': retrying, paced: pacing() })) {
      const four = await inTurn(await world(t, TWO, latency), caller, 4, 500)
      show(t, `four clients, ${way}, ${name}`, four)
      t.equal(four.served, 500)
      if (name === 'paced') t.ok(four.refusals < 2, `${four.refusals} %`)
    }
  }
})

t.test(
  'four clients on one key are refused less than half as often as with Retry-After, at all at once',
  async t => {
    const caller = pacing({ retries: 20 })
    const four = await atOnce(await world(t, TWO, network), caller, 4, 500)
    show(t, 'four clients, all at once, network, paced', four)
    const plain = await atOnce(await world(t, TWO, network), retrying, 4, 500)
    show(t, 'four clients, all at once, network, Retry-After', plain)
    t.equal(four.served, 500)
    t.ok(four.refused < plain.refused / 2)
  }
)

for (const algorithm of [
  'sliding-window',
  'fixed-window',
  'token-bucket',
  'sliding-window-counter'
] as const) {
  t.test(`${algorithm}: one client is not refused, and uses what there is`, async t => {
    const policies = { default: { quota: 100, window: '10s', algorithm } } as const
    const one = await inTurn(await world(t, policies, noNetwork), pacing(), 1, 500)
    show(t, `one client, ${algorithm}, paced`, one)
    t.equal(one.refused, 0)
    t.ok(one.seconds <= 46)
  })
}

t.test(
  'even pacing spreads the calls, and loses no more than the default algorithm does under steady pressure',
  async t => {
    const one = await world(t, { default: '100/10s' }, noNetwork)
    const even = await inTurn(one, pacing({ pacing: 'even' }), 1, 500)
    show(t, 'one client, evenly, paced', even)
    t.equal(even.refused, 0)
    t.ok(even.seconds <= 50 * 1.1 * 1.05)
    const inFirstSecond = one.sent.filter(({ at }) => at < 1000).length
    t.ok(inFirstSecond <= 11, `${inFirstSecond} in the first second`)
  }
)

t.test('with headroom a part of the quota stays unspent, in any window', async t => {
  const one = await world(t, { default: '100/10s' }, noNetwork)
  const spared = await atOnce(one, pacing({ headroom: 0.7 }), 1, 350)
  show(t, 'one client, headroom 0.7, paced', spared)
  t.equal(spared.refused, 0)
  const most = Math.max(
    ...one.sent.map(({ at }) => one.sent.filter(other => other.at <= at && other.at > at - 10_000).length)
  )
  t.equal(most, 70)
  t.ok(spared.seconds <= 42)
})

t.test(
  'requests and tokens together: the tokens are used up, and neither small nor large calls starve',
  async t => {
    const policies: QuotaOptions['policies'] = {
      rpm: { quota: 300, window: '1m' },
      tokens: {
        quota: 100_000,
        window: '1m',
        unit: 'tokens',
        cost: ({ headers }) => Number(headers['x-tokens'])
      }
    }
    for (const latency of [noNetwork, network]) {
      const one = await world(t, policies, latency)
      const { time } = one
      const api = paced(one.network, {
        timing: time,
        cost: ({ headers }) => ({ tokens: Number(headers.get('x-tokens')) })
      })
      const isLarge = (): boolean => time.random() < 0.1
      const sizes = Array.from({ length: 400 }, () =>
        Math.floor(isLarge() ? 20_000 + 20_000 * time.random() : 100 + 1900 * time.random())
      )
      const ends = await time.run(
        Promise.all(
          sizes.map(async size => {
            const { status } = await api(URL_OF_ALL, { headers: { 'x-tokens': String(size) } })
            t.equal(status, 200)
            return { size, at: time.passed }
          })
        )
      )
      const windows = Math.floor(time.passed / 60_000) + 1
      const used = sizes.reduce((sum, size) => sum + size, 0) / (windows * 100_000)
      show(t, `requests and tokens, ${(100 * used).toFixed(1)} % of the tokens used`, row(one))
      t.ok(used >= 0.9, `${used}`)
      for (const large of [false, true]) {
        const times = ends.filter(({ size }) => size >= 20_000 === large).map(({ at }) => at)
        const gaps = times.toSorted((a, b) => a - b).map((at, index, all) => at - (all[index - 1] ?? 0))
        t.ok(
          Math.max(...gaps) <= 130_000,
          `${large ? 'large' : 'small'} ones wait at most two windows for the next`
        )
      }
    }
  }
)
