import fc from 'fast-check'
import t from 'tap'
import type { AlgorithmName, Quota, Reservation } from '../../src/index.js'
import { runs } from '../algorithms/kit.js'
import { serve } from './kit.js'

t.setTimeout(60_000 + 200 * runs)

const WINDOW = 1000
const QUOTA = 10

/** Units used at a time. */
interface Use {
  readonly at: number
  readonly units: number
}

/** The most that may be admitted in any window, of what is not an overrun. */
const BOUNDS: Readonly<Record<string, number>> = {
  'sliding-window': QUOTA,
  'sliding-window-log': QUOTA,
  'sliding-window-counter': 2 * QUOTA,
  'fixed-window': 2 * QUOTA,
  'token-bucket': 2 * QUOTA - 1,
  'leaky-bucket': 2 * QUOTA - 1
}

/** Something that happens to the quota of one client: all are written as a kind and three numbers. */
const act = fc.record({
  kind: fc.constantFrom('pass', 'pass', 'reserve', 'reserve', 'consume', 'settle', 'settle', 'release'),
  ms: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.constantFrom(0, 1, 99, 100, 499, 500, 999, 1000)),
  units: fc.integer({ min: 0, max: QUOTA + 1 }),
  which: fc.nat(7)
})

const acts = fc.array(act, { maxLength: 60 })

interface Open {
  readonly reservation: Reservation
  readonly at: number
  readonly units: number
}

/** Plays acts, none of which uses more than it reserved, and returns what was used in the end. */
async function play(
  quota: Quota,
  clock: { now: number },
  happens: readonly { kind: string; ms: number; units: number; which: number }[]
): Promise<readonly Use[]> {
  const used: Use[] = []
  const open: Open[] = []
  const close = async (which: number, actual: (units: number) => number): Promise<void> => {
    const [one] = open.splice(which % (open.length || 1), 1)
    if (one === undefined) return
    const units = Math.min(one.units, actual(one.units))
    await one.reservation.settle(units)
    used.push({ at: one.at, units })
  }
  for (const { kind, ms, units, which } of happens) {
    if (kind === 'pass') clock.now += ms
    else if (kind === 'settle') await close(which, () => units)
    else if (kind === 'release') await close(which, () => 0)
    else if (kind === 'consume') {
      const { outcome } = await quota.consume({ ip: '192.0.2.1' }, { any: units })
      if (outcome === 'allowed') used.push({ at: clock.now, units })
    } else {
      const reservation = await quota.reserve({ ip: '192.0.2.1' }, 'any', units)
      if (reservation.outcome === 'allowed') open.push({ reservation, at: clock.now, units })
    }
  }
  for (const { at, units } of open) used.push({ at, units })
  return used
}

/** The most units in any window. */
const most = (used: readonly Use[]): number =>
  Math.max(
    0,
    ...used.map(({ at: from }) =>
      used.reduce((sum, { at, units }) => (at >= from && at < from + WINDOW ? sum + units : sum), 0)
    )
  )

for (const [algorithm, bound] of Object.entries(BOUNDS)) {
  t.test(`${algorithm}: whatever is reserved and settled, no window has more than its bound`, async t => {
    const { app, clock } = await serve(t, {
      any: { quota: QUOTA, window: '1s', algorithm: algorithm as AlgorithmName, default: false }
    })
    await fc.assert(
      fc.asyncProperty(acts, async happens => {
        clock.now += 10 * WINDOW
        await app.quota.reset({ ip: '192.0.2.1' }, ['any'])
        return most(await play(app.quota, clock, happens)) <= bound
      }),
      { numRuns: runs }
    )
  })

  t.test(`${algorithm}: an overrun, settled again to anything, never gives others more`, async t => {
    const { app, clock } = await serve(t, {
      any: { quota: QUOTA, window: '1s', algorithm: algorithm as AlgorithmName, default: false }
    })
    app.get('/overrun', { config: { quota: false } }, async ({ quota, query }) => {
      const { reserved, spent, actual, ms } = query as Record<string, string>
      await quota.reserve('any', Number(reserved))
      for (const units of spent!.split('+')) await quota.spend('any', Number(units))
      clock.now += Number(ms)
      await quota.settle('any', Number(actual))
      return ''
    })
    const { quota } = app
    const subject = { ip: '127.0.0.1' }
    const overrun = fc.record({
      reserved: fc.nat(QUOTA),
      spent: fc.array(fc.nat(3 * QUOTA), { minLength: 1, maxLength: 3 }),
      actual: fc.nat(4 * QUOTA),
      ms: fc.nat(300)
    })
    await fc.assert(
      fc.asyncProperty(fc.nat(QUOTA), overrun, async (others, { reserved, spent, actual, ms }) => {
        clock.now = Math.ceil(clock.now / WINDOW + 10) * WINDOW
        await quota.reset(subject, ['any'])
        await quota.consume(subject, { any: others })
        await app.inject(`/overrun?reserved=${reserved}&spent=${spent.join('%2B')}&actual=${actual}&ms=${ms}`)
        const { limits } = await quota.peek(subject, ['any'])
        const drained = algorithm.endsWith('bucket') ? Math.floor((ms * QUOTA) / WINDOW) : 0
        return limits[0]!.remaining <= QUOTA - Math.max(0, others - drained)
      }),
      { numRuns: runs }
    )
  })
}
