import t from 'tap'
import { realTiming } from '../../src/client/timing.js'

t.test('the time is that of the epoch', async t => {
  const off = realTiming.now() - Date.now()
  t.ok(Math.abs(off) < 60_000, `${off} ms`)
  const chance = realTiming.random()
  t.ok(chance >= 0 && chance < 1)
})

t.test('work is done after its time, and not if it is cancelled', async t => {
  const started = realTiming.now()
  await new Promise<void>((resolve, reject) => {
    const cancel = realTiming.after(1, () => reject(new Error('it was cancelled')))
    cancel()
    realTiming.after(2.5, resolve)
  })
  t.ok(realTiming.now() - started >= 2)
})

t.test('a wait longer than a timer can be is no hot loop', async t => {
  let early = false
  const cancel = realTiming.after(2 ** 40, () => (early = true))
  await new Promise(resolve => setTimeout(resolve, 5))
  cancel()
  t.equal(early, false)
})
