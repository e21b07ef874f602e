import t from 'tap'
import { SlowStart } from '../../../src/client/limits/slow-start.js'

/** Sends as many as may go out at once, and lets all of them come back. */
function batch(start: SlowStart): number {
  let sent = 0
  for (; !start.waits && sent < 1000; sent++) start.sent()
  start.settled()
  return sent
}

t.test('each time twice as many go out at once', async t => {
  const start = new SlowStart()
  t.strictSame(
    Array.from({ length: 5 }, () => batch(start)),
    [1, 2, 4, 8, 16]
  )
})

t.test('fewer than might go prove nothing about more', async t => {
  const start = new SlowStart()
  batch(start)
  start.sent()
  start.settled()
  t.equal(batch(start), 2)
})

t.test('after a refusal half as many go out, but one always', async t => {
  const start = new SlowStart()
  for (let i = 0; i < 3; i++) batch(start)
  start.refused()
  t.equal(batch(start), 4)
  for (let i = 0; i < 9; i++) start.refused()
  t.equal(batch(start), 1)
})
