import { readFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { paced } from '../../src/client/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { TWO, cells, mostRefused, rows, seconds } from './pacing-table.js'
import type { Row } from './pacing-table.js'
import { URL_OF_ALL, network, noNetwork, outcome, pacing, run, world } from './pacing-world.js'

t.setTimeout(120_000)

/** The rows of a table by their way to call. */
async function byWay(...what: Parameters<typeof rows>): Promise<Readonly<Record<string, Row>>> {
  return Object.fromEntries((await rows(...what)).map(row => [row.way, row]))
}

/** How much longer than the least that is possible, in percent: in the middle, and at most. */
function over(row: Row, least: Row): { readonly middle: number; readonly worst: number } {
  const percent = (one: number, other: number): number => (100 * one) / other - 100
  return {
    middle: percent(seconds(row).middle, seconds(least).middle),
    worst: percent(seconds(row).worst, seconds(least).worst)
  }
}

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')

/** Whether the README has the figures of these rows. */
function told(t: Test, ...rows: readonly Row[]): void {
  for (const row of rows) t.ok(readme.includes(`| ${cells(row).join(' | ')} |`), cells(row).join(' | '))
}

for (const manner of ['in turn', 'at once'] as const) {
  t.test(`500 calls by one client, ${manner}: no refusal, in the least time that is possible`, async t => {
    const { 'knows what is left': least, paced: row, ...others } = await byWay(1, manner)
    t.equal(mostRefused(row!).refused, 0)
    t.ok(over(row!, least!).worst <= 5, `${over(row!, least!).worst} % longer`)
    for (const other of Object.values(others)) t.ok(mostRefused(other).refused >= 20, other.way)
    told(t, row!, ...Object.values(others))
  })

  t.test(`four clients on one key, ${manner}: hardly a refusal`, async t => {
    const { 'knows what is left': least, paced: row, ...others } = await byWay(4, manner)
    t.ok(mostRefused(row!).refusals < 2, `${mostRefused(row!).refusals} % are refused`)
    const { middle, worst } = over(row!, least!)
    t.ok(middle <= (manner === 'in turn' ? 5 : 12), `${middle} % longer`)
    t.ok(worst <= (manner === 'in turn' ? 15 : 21), `${worst} % longer at most`)
    for (const other of Object.values(others)) t.ok(mostRefused(other).refused >= 90, other.way)
    told(t, row!, ...Object.values(others))
  })

  t.test(`without a network it takes 44 seconds, ${manner}, by one client and by four`, async t => {
    for (const clients of [1, 4]) {
      const one = await world(TWO, noNetwork)
      const { seconds, served, refused } = await run(one, pacing(), clients, 500, manner)
      t.strictSame([served, refused], [500, 0])
      // 100 each in the seconds 0 to 4, 10 to 14, and so on; the last 20 of them at second 44.
      t.ok(seconds >= 44 && seconds <= 44 * 1.05, `${seconds} s`)
    }
  })
}

for (const algorithm of [
  'sliding-window',
  'fixed-window',
  'token-bucket',
  'sliding-window-counter'
] as const) {
  t.test(`${algorithm}: one client is not refused, and uses what there is`, async t => {
    const policies = { default: { quota: 100, window: '10s', algorithm } } as const
    const one = await run(await world(policies, noNetwork), pacing(), 1, 500, 'in turn')
    t.equal(one.refused, 0)
    t.ok(one.seconds <= 46)
  })
}

t.test(
  'even pacing spreads the calls, and loses no more than the default algorithm does under steady pressure',
  async t => {
    const one = await world({ default: '100/10s' }, noNetwork)
    const even = await run(one, pacing({ pacing: 'even' }), 1, 500, 'in turn')
    t.equal(even.refused, 0)
    t.ok(even.seconds <= 50 * 1.1 * 1.05)
    const inFirstSecond = one.sent.filter(({ at }) => at < 1000).length
    t.ok(inFirstSecond <= 11, `${inFirstSecond} in the first second`)
  }
)

t.test('with headroom a part of the quota stays unspent, in any window', async t => {
  const one = await world({ default: '100/10s' }, noNetwork)
  const spared = await run(one, pacing({ headroom: 0.7 }), 1, 350, 'at once')
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
      const one = await world(policies, latency)
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
      t.ok(used >= 0.9, `${used} of the tokens are used`)
      t.equal(outcome(one).refused, 0)
      await one.app.close()
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
