import t from 'tap'
import { realTiming } from '../../../src/stores/guard/timing.js'

const timers = (): number =>
  process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length

t.test('time passes and never goes back', async t => {
  const before = realTiming.now()
  const during = performance.now()
  const after = realTiming.now()
  t.ok(before <= during && during <= after)
})

t.test('work is done after its time, and not if it is called off', async t => {
  const done: string[] = []
  const began = performance.now()
  const off = realTiming.after(1, () => done.push('called off'))
  off()
  await new Promise<void>(resolve => {
    const alive = setInterval(() => {}, 1000)
    realTiming.after(20, () => {
      clearInterval(alive)
      done.push('work')
      resolve()
    })
  })
  // A timer may be early by the part of a millisecond.
  t.ok(performance.now() - began >= 19)
  t.strictSame(done, ['work'])
  t.doesNotThrow(off, 'it may be called off again')
})

t.test('what waits for its time keeps no process alive', async t => {
  const before = timers()
  const off = realTiming.after(60_000, () => {})
  t.equal(timers(), before)
  off()
})

t.test('chance is from 0 to less than 1', async t => {
  const chances = Array.from({ length: 100 }, () => realTiming.random())
  t.ok(chances.every(chance => chance >= 0 && chance < 1))
  t.ok(new Set(chances).size > 90)
})
