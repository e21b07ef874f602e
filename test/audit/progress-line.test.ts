import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ProgressLine, lineOf } from '../../src/audit/progress-line.js'

/** Back to the start of the line, and everything behind it gone. */
const CLEARED = '\r\u001b[K'

const WAITING = { stage: 'waiting', name: 'shifted-50', index: 3, of: 11, remaining: 4500 } as const

t.test('the line tells which attack it is, and how long it will be', async t => {
  t.equal(lineOf(WAITING, 0), 'attack 4 of 11: shifted-50 begins in 5s')
  t.equal(lineOf(WAITING, 4000), 'attack 4 of 11: shifted-50 begins in 500ms')
  t.equal(lineOf({ ...WAITING, stage: 'attacking' }, 9000), 'attack 4 of 11: shifted-50 asks for 0ms more')
  t.equal(lineOf({ ...WAITING, stage: 'done' }, 0), 'done')
})

t.test('it is painted over until it is done, and leaves nothing behind', async t => {
  const terminal = new PassThrough({ encoding: 'utf8' })
  const line = new ProgressLine(terminal)
  // Time passes, and there is nothing to say yet.
  await sleep(300)
  t.equal(terminal.read(), null)
  line.show(WAITING)
  t.equal(terminal.read(), `${CLEARED}attack 4 of 11: shifted-50 begins in 5s`)
  while (terminal.readableLength === 0) await sleep(20)
  const [before, again] = String(terminal.read()).split(CLEARED)
  t.equal(before, '')
  t.match(again, /^attack 4 of 11: shifted-50 begins in \d+m?s$/)
  line.end()
  t.ok(String(terminal.read()).endsWith(CLEARED))
})

t.test('a line that never said anything clears nothing', async t => {
  const terminal = new PassThrough({ encoding: 'utf8' })
  new ProgressLine(terminal).end()
  t.equal(terminal.read(), null)
})
