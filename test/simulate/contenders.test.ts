import t from 'tap'
import { NAMES, contenders, knows } from '../../src/simulate/contenders.js'
import type { Settings } from '../../src/simulate/contenders.js'

const settings: Settings = { quota: 100, window: 60_000, precisions: [10], drained: false }
const labels = (more: Partial<Settings>): string[] =>
  NAMES.flatMap(name => contenders(name, { ...settings, ...more })).map(({ label }) => label)

t.test('a contender is called by its algorithm and the options that tell it from others', async t => {
  t.strictSame(labels({}), [
    'sliding-window, precision 10',
    'sliding-window-log',
    'sliding-window-counter, precision 10',
    'fixed-window',
    'fixed-window, aligned to the clock',
    'token-bucket, burst 100',
    'leaky-bucket, burst 100'
  ])
  t.strictSame(labels({ precisions: [1, 6], burst: 5, maxDelay: 1500, drained: true }), [
    'sliding-window, precision 1, drained',
    'sliding-window, precision 6, drained',
    'sliding-window-log, drained',
    'sliding-window-counter, precision 1, drained',
    'sliding-window-counter, precision 6, drained',
    'fixed-window, drained',
    'fixed-window, aligned to the clock, drained',
    'token-bucket, burst 5, drained',
    'leaky-bucket, max delay 1500ms, drained'
  ])
})

t.test('the log is the sliding window with a sub-window for each millisecond', async t => {
  const [log] = contenders('sliding-window-log', settings)
  const [window] = contenders('sliding-window', { ...settings, precisions: [60_000] })
  t.equal(log?.algorithm, window?.algorithm)
  t.strictSame(log?.params, window?.params)
})

t.test('a queue has no burst of its own', async t => {
  t.strictSame(knows('leaky-bucket', {}), ['burst', 'maxDelay'])
  t.strictSame(knows('leaky-bucket', { maxDelay: 1000 }), ['maxDelay'])
})
