import t from 'tap'
import type { Algorithm } from '../../src/algorithm.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'
import { burst, evenly } from '../../src/simulate/arrivals.js'
import { contenders } from '../../src/simulate/contenders.js'
import type { Contender, Name, Settings } from '../../src/simulate/contenders.js'
import { run } from '../../src/simulate/run.js'

const only = (name: Name, settings: Partial<Settings>): Contender =>
  contenders(name, { quota: 2, window: 1000, precisions: [10], drained: false, ...settings })[0]!

t.test('the clock stands at the time of each request', async t => {
  const { admissions } = run(only('fixed-window', {}), [...burst(0, 3), ...burst(999, 1), ...burst(1000, 1)])
  t.strictSame(admissions, [
    { at: 0, units: 1 },
    { at: 0, units: 1 },
    { at: 1000, units: 1 }
  ])
})

t.test('a wait is true if the request is admitted then, and not a millisecond earlier', async t => {
  const wrongBy = (error: number): Contender => ({ ...only('fixed-window', {}), algorithm: hasty(error) })
  const arrivals = evenly(0, 10, { requests: 10, per: 1000 })
  t.strictSame(run(wrongBy(0), arrivals).waits, { given: 8, true: 8 })
  t.strictSame(run(wrongBy(1), arrivals).waits, { given: 8, true: 0 }, 'admitted earlier')
  t.strictSame(run(wrongBy(-1), arrivals).waits, { given: 8, true: 0 }, 'not yet admitted')
})

t.test('trying a wait leaves no trace in what is counted', async t => {
  const arrivals = evenly(0, 40, { requests: 10, per: 1000 })
  for (const name of ['sliding-window', 'sliding-window-counter', 'token-bucket'] as const) {
    const { admissions, waits } = run(only(name, {}), arrivals)
    t.equal(admissions.length + waits.given, 40)
    t.equal(waits.true, waits.given)
  }
})

t.test('a request that costs more than can ever be held has no wait', async t => {
  const { admissions, waits, refusedForEver } = run(only('token-bucket', {}), [
    { at: 0, units: 3 },
    ...burst(0, 1)
  ])
  t.strictSame(admissions, [{ at: 0, units: 1 }])
  t.strictSame(waits, { given: 0, true: 0 })
  t.equal(refusedForEver, 1)
})

t.test('what is drained has spent everything in the millisecond of the first request', async t => {
  const times = (contender: Contender, at: number): number[] =>
    run(contender, evenly(at, 1100, { requests: 1000, per: 1000 })).admissions.map(({ at }) => at)
  t.strictSame(times(only('token-bucket', { drained: true }), 0), [500, 1000])
  t.strictSame(times(only('token-bucket', { drained: true }), 70), [570, 1070])
  t.strictSame(times(only('sliding-window', { drained: true }), 70), [1070, 1071])
  t.strictSame(run(only('token-bucket', { drained: true }), []).admissions, [])
})

t.test('what a queue admits counts when it starts', async t => {
  const { admissions, waits } = run(only('leaky-bucket', { maxDelay: 1000 }), burst(0, 5))
  t.strictSame(
    admissions.map(({ at }) => at),
    [0, 500, 1000]
  )
  t.strictSame(waits, { given: 2, true: 2 })
})

/** A fixed window whose waits are wrong by so many milliseconds. */
function hasty(error: number): Algorithm {
  return {
    ...fixedWindow,
    step(state, params, now, units) {
      const step = fixedWindow.step(state, params, now, units)
      return step.allowed ? step : { ...step, retryAfter: step.retryAfter + error }
    }
  }
}
