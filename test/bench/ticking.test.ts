import t from 'tap'
import { isSlow, prewarm } from './ticking.js'

t.test('a process that takes far longer for a tick than for a microtask is slow', async t => {
  await prewarm()
  const { nextTick } = process
  t.teardown(() => (process.nextTick = nextTick))
  process.nextTick = queueMicrotask as typeof nextTick
  t.equal(await isSlow(), false)
  process.nextTick = ((work: () => void) => {
    for (const start = performance.now(); performance.now() - start < 0.01;);
    queueMicrotask(work)
  }) as typeof nextTick
  t.equal(await isSlow(), true)
})
