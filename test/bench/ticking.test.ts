import t from 'tap'
import type { Test } from 'tap'
import { isSlow, prewarm } from './ticking.js'

/** Lets ticks be put off by something else for a while. */
function replaceTicks(t: Test, nextTick: (work: () => void) => void): void {
  const own = Reflect.getOwnPropertyDescriptor(process, 'nextTick')!
  t.teardown(() => Object.defineProperty(process, 'nextTick', own))
  Object.defineProperty(process, 'nextTick', { ...own, value: nextTick })
}

t.test('a process that takes as long for a tick as for a microtask is not slow', async t => {
  await prewarm()
  replaceTicks(t, queueMicrotask)
  t.equal(await isSlow(), false)
})

t.test('and one that takes far longer is', async t => {
  replaceTicks(t, work => {
    for (const start = performance.now(); performance.now() - start < 0.01;);
    queueMicrotask(work)
  })
  t.equal(await isSlow(), true)
})
