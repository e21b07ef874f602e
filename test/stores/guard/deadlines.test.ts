import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { Deadlines } from '../../../src/stores/guard/deadlines.js'
import type { Attempt } from '../../../src/stores/guard/deadlines.js'
import { realTiming } from '../../../src/stores/guard/timing.js'
import { TestTiming, settled } from './kit.js'

t.test('an attempt is over when its time is, and not before', async t => {
  const timing = new TestTiming()
  const attempt = new Deadlines(50, timing).begin()
  t.equal(attempt.due, timing.time + 50)
  await timing.pass(49)
  t.equal(attempt.over, false)
  await timing.pass(1)
  t.equal(attempt.over, true)
})

t.test('what was to be done then is done, each once, unless it was called off', async t => {
  const timing = new TestTiming()
  const attempt = new Deadlines(50, timing).begin()
  const done: string[] = []
  attempt.whenOver(() => done.push('a'))
  const off = attempt.whenOver(() => done.push('b'))
  attempt.whenOver(() => done.push('c'))
  off()
  await timing.pass(500)
  t.strictSame(done, ['a', 'c'])
})

t.test('work that calls itself off as it is done does not stop the rest', async t => {
  const timing = new TestTiming()
  const attempt = new Deadlines(50, timing).begin()
  const done: string[] = []
  const off = attempt.whenOver(() => {
    off()
    done.push('a')
  })
  attempt.whenOver(() => done.push('b'))
  await timing.pass(50)
  t.strictSame(done, ['a', 'b'])
})

t.test('one timer does for all, and each attempt is over at its own time', async t => {
  const timing = new TestTiming()
  const deadlines = new Deadlines(50, timing)
  const began = timing.time
  const over: number[] = []
  for (const gap of [0, 0, 10, 0.25, 20, 5]) {
    await timing.pass(gap)
    deadlines.begin().whenOver(() => over.push(timing.time - began))
    t.equal(timing.waiting, 1)
  }
  await timing.pass(200)
  t.equal(over.length, 6)
  t.equal(timing.waiting, 0, 'none is left when there is nothing to wait for')
  const due = [50, 50, 60, 60.25, 80.25, 85.25]
  // A timer counts whole milliseconds.
  for (const [i, at] of over.entries()) t.ok(at >= due[i]! && at <= due[i]! + 1, `${at} is ${due[i]}`)
  deadlines.begin()
  t.equal(timing.waiting, 1, 'and there is one again when it is needed')
})

t.test('what is done is forgotten, and the others are over at their own times', async t => {
  const timing = new TestTiming()
  const deadlines = new Deadlines(50, timing)
  const over: string[] = []
  const begin = (name: string): Attempt => {
    const attempt = deadlines.begin()
    attempt.whenOver(() => over.push(name))
    return attempt
  }
  const [first, , middle, , last] = ['a', 'b', 'c', 'd', 'e'].map(begin)
  for (const attempt of [middle!, last!, first!, first!]) attempt.done()
  begin('f')
  await timing.pass(50)
  t.strictSame(over, ['b', 'd', 'f'])
  t.strictSame([first!.over, middle!.over, last!.over], [false, false, false])
  t.equal(timing.waiting, 0)
  const alone = begin('g')
  alone.done()
  t.equal(timing.waiting, 1, 'the timer is left for who comes next')
  await timing.pass(50)
  t.equal(timing.waiting, 0)
  const late = begin('h')
  await timing.pass(50)
  late.done()
  t.strictSame(over, ['b', 'd', 'f', 'h'])
})

t.test('what is begun because a time is over has its own time, and needs no second timer', async t => {
  const timing = new TestTiming()
  const deadlines = new Deadlines(50, timing)
  const began = timing.time
  const over: number[] = []
  const begin = (): void =>
    void deadlines.begin().whenOver(() => {
      over.push(timing.time - began)
      if (over.length < 10) begin()
    })
  begin()
  await timing.pass(20)
  deadlines.begin()
  await timing.pass(200)
  t.strictSame(over, [50, 100, 150, 200])
  t.equal(timing.waiting, 1)
})

t.test(
  'a reply that has arrived is read before its time is said to be over, if the process stood still',
  async t => {
    const [ours, theirs] = await pair(t)
    const happened: string[] = []
    ours.once('data', () => happened.push('reply'))
    const attempt = new Deadlines(30, realTiming).begin()
    const over = new Promise<void>(resolve => {
      attempt.whenOver(() => {
        happened.push('over')
        resolve()
      })
    })
    theirs.write('OK')
    standStill(80)
    await over
    t.strictSame(happened, ['reply', 'over'])
  }
)

t.test('nothing is over before the turn is', async t => {
  const timing = new TestTiming()
  const attempt = new Deadlines(50, timing).begin()
  const passed = timing.pass(50)
  await Promise.resolve()
  t.equal(attempt.over, false)
  await passed
  await settled()
  t.equal(attempt.over, true)
})

/** Two ends of a connection. */
async function pair(t: Test): Promise<readonly [Socket, Socket]> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ours = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [[theirs]] = (await Promise.all([once(server, 'connection'), once(ours, 'connect')])) as [
    [Socket],
    unknown
  ]
  t.teardown(() => {
    ours.destroy()
    theirs.destroy()
    server.close()
  })
  return [ours, theirs]
}

function standStill(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

t.test('when it closes, no timer is left as soon as nobody waits for it', async t => {
  const timing = new TestTiming()
  const deadlines = new Deadlines(50, timing)
  deadlines.close()
  const off = deadlines.begin().whenOver(() => {})
  const attempt = deadlines.begin()
  const offs = [attempt.whenOver(() => {}), attempt.whenOver(() => {})]
  off()
  t.equal(timing.waiting, 1)
  deadlines.close()
  t.equal(timing.waiting, 1, 'two wait')
  offs[0]!()
  offs[0]!()
  t.equal(timing.waiting, 1, 'one waits')
  offs[1]!()
  t.equal(timing.waiting, 0)
  let done = 0
  const calledOff = deadlines.begin().whenOver(() => done++)
  deadlines.begin().whenOver(() => done++)
  calledOff()
  t.equal(timing.waiting, 1, 'it can be used again')
  deadlines.close()
  await timing.pass(50)
  t.strictSame([done, timing.waiting], [1, 0], 'and who still waits is told')
})

t.test('it can close between the timer and what is done then', async t => {
  const timing = new TestTiming()
  const deadlines = new Deadlines(50, timing)
  const first = deadlines.begin()
  timing.after(50, () => deadlines.close())
  await timing.pass(50)
  t.strictSame([first.over, timing.waiting], [false, 0])
  const later = deadlines.begin()
  t.equal(timing.waiting, 1)
  await timing.pass(50)
  t.strictSame([later.over, timing.waiting], [true, 0])
})
