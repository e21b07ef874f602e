import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { AlgorithmName, PolicyOptions } from '../../src/index.js'
import { leftOf } from '../plugin/kit.js'
import { clientOf } from '../stores/redis/kit.js'
import { ALGORITHMS, ask, fieldCase, inBothStores, inRedis, newPrefix, redis, repeat, serve } from './kit.js'
import type { Served, Told } from './kit.js'

t.setTimeout(120_000)

/** Seconds told on a refusal, or the status. */
const told = ({ status, retryAfter }: Told): number => (status === 429 ? retryAfter : status)

/** What a client is told at each of these times. */
async function tell(
  { app, clock }: Served,
  times: readonly number[],
  from?: string
): Promise<readonly number[]> {
  const answers: number[] = []
  for (const at of times) {
    clock.at(at)
    answers.push(told(await ask(app, from === undefined ? '/' : { from })))
  }
  return answers
}

const every = (step: number, times: number): readonly number[] =>
  Array.from({ length: times }, (_, i) => i * step)

const admitted = (answers: readonly Told[]): number => answers.filter(({ status }) => status === 200).length

fieldCase('C31', 'each client has a window of its own', t =>
  inBothStores(t, async (t, serve) => {
    const [a, b] = ['192.0.2.1', '192.0.2.2']
    const own = await serve({ own: { quota: 1, window: '10s', algorithm: 'fixed-window' } })
    t.strictSame(await tell(own, [0], a), [200])
    t.strictSame(await tell(own, [7, 8, 12, 17.1], b), [200, 9, 5, 200])
    const clock = await serve({
      aligned: { quota: 1, window: '10s', algorithm: 'fixed-window', align: true }
    })
    t.strictSame(await tell(clock, [0], a), [200])
    t.strictSame(await tell(clock, [7, 8, 9.5, 10, 10.1], b), [200, 2, 1, 200, 10], 'a window of the clock')
    for (const algorithm of ALGORITHMS) {
      const served = await serve({ [algorithm]: { quota: 1, window: '10s', algorithm } })
      for (const [from, at] of [
        [a, 0],
        [b, 7]
      ] as const) {
        t.strictSame(await tell(served, [at], from), [200])
        served.clock.at(at + 1)
        const { limits } = await served.app.quota.consume({ ip: from }, { [algorithm]: 1 })
        const end = at + 1 + limits[0]!.retryAfter / 1000
        t.strictSame(await tell(served, [end - 0.5, end - 0.001, end], from), [1, 1, 200], algorithm)
      }
    }
  })
)

fieldCase('C32', 'two bursts around an edge of the clock are as many as the algorithm promises', async t => {
  const second = async ({ app, clock }: Served): Promise<number> => {
    clock.at(59)
    t.equal(admitted(await repeat(app, 10)), 10)
    clock.at(61)
    return admitted(await repeat(app, 10))
  }
  const variants: readonly (readonly [Partial<PolicyOptions> & { algorithm: AlgorithmName }, number])[] = [
    [{ algorithm: 'sliding-window' }, 0],
    [{ algorithm: 'sliding-window', precision: 1 }, 0],
    [{ algorithm: 'sliding-window-log' }, 0],
    [{ algorithm: 'sliding-window-counter' }, 0],
    [{ algorithm: 'sliding-window-counter', precision: 1 }, 1],
    [{ algorithm: 'token-bucket' }, 0],
    [{ algorithm: 'leaky-bucket' }, 0],
    [{ algorithm: 'fixed-window' }, 0],
    [{ algorithm: 'fixed-window', align: true }, 10]
  ]
  await inBothStores(t, async (t, serve) => {
    for (const [i, [options, more]] of variants.entries()) {
      const served = await serve({ [`p${i}`]: { quota: 10, window: '1m', ...options } })
      t.equal(await second(served), more, JSON.stringify(options))
    }
  })
})

fieldCase('C33', 'a window longer than a timer can be is kept, and nothing runs meanwhile', async t => {
  const warnings: Error[] = []
  const listen = (warning: Error): void => void warnings.push(warning)
  process.on('warning', listen)
  t.teardown(() => process.off('warning', listen))
  const loops = (): number => performance.nodeTiming.uvMetricsInfo.loopCount
  for (const algorithm of ALGORITHMS) {
    for (const days of [25, 30, 365]) {
      const { app } = await serve(t, {
        policies: {
          any: { quota: 1, window: `${days}d`, algorithm },
          short: { quota: 100, window: '1m' }
        },
        clock: undefined
      })
      t.equal((await ask(app)).status, 200)
      await sleep(50)
      const refused = await ask(app)
      t.equal(refused.status, 429)
      // A weighted window lets go of its oldest part early, by up to a tenth.
      const least = algorithm === 'sliding-window-counter' ? days * 77_760 - 1 : 2_147_483
      t.ok(refused.retryAfter >= Math.min(least, 2_147_483) && refused.retryAfter <= 2_147_483)
      await app.close()
    }
  }
  const { app } = await serve(t, { policies: { any: { quota: 1, window: '365d' } }, clock: undefined })
  t.equal((await ask(app)).status, 200)
  await sleep(50)
  const before = loops()
  await sleep(200)
  t.ok(loops() - before < 40, `the event loop turned ${loops() - before} times`)
  t.equal((await ask(app)).status, 429)
  t.strictSame(
    warnings.filter(({ name }) => name === 'TimeoutOverflowWarning'),
    []
  )
})

fieldCase('C34', 'after any time a bucket holds what it can, and no more', t =>
  inBothStores(t, async (t, serve) => {
    const hours = 3600
    const years = 365 * 24 * hours
    for (const algorithm of ['token-bucket', 'leaky-bucket'] as const) {
      const fast = await serve({
        [`fast-${algorithm}`]: {
          quota: 1e9,
          window: '1s',
          algorithm,
          cost: ({ headers }) => Number(headers['x-cost'])
        }
      })
      const spend = async (cost: number): Promise<readonly unknown[]> => {
        const { status, limits } = await ask(fast.app, { headers: { 'x-cost': String(cost) } })
        return [status, limits[0]!['r']]
      }
      fast.clock.at(0)
      t.strictSame(await spend(1e9), [200, 0])
      for (const at of [12 * hours, 10 * years, 250 * years]) {
        fast.clock.at(at)
        t.strictSame(await spend(1), [200, 1e9 - 1])
        t.strictSame(await spend(1e9 - 1), [200, 0])
      }
      const slow = await serve({ [`slow-${algorithm}`]: { quota: 1, window: '365d', algorithm } })
      t.strictSame(await tell(slow, [0, 12 * hours]), [200, 2_147_483])
      const { limits } = await ask(slow.app)
      t.equal(limits[0]!['r'], 0)
      t.strictSame(
        await tell(slow, [10 * years, 10 * years, 11 * years - 1, 11 * years]),
        [200, 2_147_483, 1, 200]
      )
      slow.clock.at(250 * years)
      t.strictSame(await leftOf(slow.app, [`slow-${algorithm}`]), { [`slow-${algorithm}`]: 1 })
    }
  })
)

fieldCase('C37', 'who keeps asking is not shut out by what was refused', async t => {
  const names = ['sliding-window', 'sliding-window-log', 'sliding-window-counter'] as const
  for (const algorithm of names) {
    const { app, clock } = await serve(t, { [algorithm]: { quota: 10, window: '10m', algorithm } })
    const served: number[] = []
    const ends: number[] = []
    for (const at of every(30, 121)) {
      clock.at(at)
      const { status, retryAfter } = await ask(app)
      if (status === 200) served.push(at)
      else ends.push(at + retryAfter)
    }
    t.ok(served.length >= 55 && served.length <= 61, `${algorithm}: ${served.length} of 121`)
    const gaps = served.slice(1).map((at, i) => at - served[i]!)
    t.ok(Math.max(...gaps) < 600, 'no window without one')
    t.notOk(
      served.some((at, i) => served[i + 10]! - at < 600),
      'no window with more than ten'
    )
    const due = ends.filter(end => end < 3600)
    t.ok(
      due.every(end => served.some(at => at >= end && at < end + 30)),
      'each wait was true'
    )
  }
  await t.test('and what is stored does not grow', async t => {
    const prefix = newPrefix()
    const log = { quota: 10, window: '10m', algorithm: 'sliding-window-log' } as const
    const { app, clock } = await inRedis(t, { log }, prefix)
    const client = clientOf(t, await redis())
    const sizes = new Set<unknown>()
    for (const at of every(30, 60)) {
      clock.at(at)
      await ask(app)
      const keys = (await client.keys(`${prefix}:*`)).filter(key => !key.endsWith(':probe'))
      const [field, ...others] = await client.hkeys(keys[0]!)
      t.strictSame([keys.length, others], [1, []])
      sizes.add(await client.eval(LENGTH, 1, keys[0]!, field!))
    }
    t.strictSame(Math.max(...[...sizes].map(Number)), 3 * 10, 'an entry is three numbers')
  })
})

/** Counts the numbers of a state. */
const LENGTH = `local _, state = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])) return #state`

fieldCase('C39', 'no unit is there before its time', t =>
  inBothStores(t, async (t, serve) => {
    for (const algorithm of ['token-bucket', 'leaky-bucket'] as const) {
      const served = await serve({ [algorithm]: { quota: 6, window: '1m', burst: 6, algorithm } })
      t.strictSame(
        await tell(served, [0, 0, 0, 0, 0, 0, 5, 9.9, 9.999, 10, 10.001]),
        [200, 200, 200, 200, 200, 200, 5, 1, 1, 200, 10],
        algorithm
      )
    }
  })
)

fieldCase('C40', 'a wait is rounded up, so that who obeys it is served', t =>
  inBothStores(t, async (t, serve) => {
    const fixed = await serve({ fixed: { quota: 1, window: '3s', algorithm: 'fixed-window' } })
    t.strictSame(await tell(fixed, [0, 1.1, 2.999, 3.1]), [200, 2, 1, 200])
    for (const algorithm of ALGORITHMS) {
      const served = await serve({ [algorithm]: { quota: 1, window: '3s', algorithm } })
      let at = 0
      for (const after of [1.1, 0.001, 0.999, 1, 2.5, 1.5]) {
        const [first, wait = 0] = await tell(served, [at, at + after])
        t.equal(first, 200, algorithm)
        t.ok(Number.isInteger(wait) && wait >= 1 && wait <= 6, `${algorithm} tells ${wait}`)
        at += after + wait
      }
    }
  })
)

fieldCase('C41', 'the wait ends with the window of the first request, not of the last', t =>
  inBothStores(t, async (t, serve) => {
    for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-window-log'] as const) {
      const served = await serve({ [algorithm]: { quota: 10, window: '10s', algorithm } })
      t.strictSame(
        await tell(served, every(1, 10)),
        every(0, 10).map(() => 200)
      )
      t.strictSame(await tell(served, [9.5, 10.1]), [1, 200], algorithm)
    }
  })
)

fieldCase('C42', 'the wait ends when the oldest request leaves the window', t =>
  inBothStores(t, async (t, serve) => {
    for (const algorithm of ['sliding-window-log', 'sliding-window'] as const) {
      const served = await serve({ [algorithm]: { quota: 2, window: '1m', algorithm } })
      t.strictSame(await tell(served, [0, 10, 20, 59.999, 60.1, 60.1]), [200, 200, 40, 1, 200, 10], algorithm)
    }
  })
)

fieldCase('C44', 'a fraction of a unit is not lost, however often somebody asks', t =>
  inBothStores(t, async (t, serve) => {
    const half = every(1, 21).map(n => n % 2 === 0)
    for (const algorithm of ['token-bucket', 'leaky-bucket'] as const) {
      for (const [name, window, step] of [
        ['second', '1s', 0.6],
        ['hours', '2h', 4320.5]
      ] as const) {
        const served = await serve({ [`${name}-${algorithm}`]: { quota: 1, window, burst: 1, algorithm } })
        const answers = await tell(served, every(step, 21))
        t.strictSame(
          answers.map(answer => answer === 200),
          half,
          `${algorithm} per ${window}`
        )
      }
    }
  })
)
