import fc from 'fast-check'
import t from 'tap'
import { ServerTime } from '../../../src/stores/guard/server-time.js'
import { howToRepeat } from '../../algorithms/kit.js'

t.comment(howToRepeat)

t.test('nobody knows the time at a server that has not answered yet', async t => {
  t.equal(new ServerTime().at(5000), 0)
})

t.test('a reply tells the time of the middle of its round trip', async t => {
  const time = new ServerTime()
  time.learn(1_000_000, 100, 110)
  t.equal(time.at(105), 1_000_000)
  t.equal(time.at(155), 1_000_050)
  t.equal(time.at(105.2), 1_000_001, 'rounded up: a fence that is early would refuse what came in time')
})

t.test('a server whose clock is behind has times of its own, too', async t => {
  const time = new ServerTime()
  time.learn(10, 1_000_000, 1_000_000)
  t.equal(time.at(1_000_005), 15)
})

t.test('a slower reply says nothing better than a fast one', async t => {
  const time = new ServerTime()
  time.learn(1_000_000, 100, 102)
  time.learn(1_000_500, 200, 300)
  t.equal(time.at(101), 1_000_000)
  time.learn(1_000_199, 300, 301)
  t.equal(time.at(300.5), 1_000_199, 'a faster one does')
})

t.test('what a fast reply told is believed less and less', async t => {
  const time = new ServerTime()
  time.learn(1_000_000, 0, 2)
  // The server's clock gains 50 ms. All replies take twice as long as the first one.
  const believed = Array.from({ length: 20 }, (_, i) => {
    const sent = 10 * (i + 1)
    time.learn(1_000_050 + sent + 2, sent, sent + 4)
    return time.at(sent) - sent
  })
  t.strictSame(
    believed.slice(0, 15),
    Array.from({ length: 15 }, () => 999_999)
  )
  t.strictSame(
    believed.slice(15),
    Array.from({ length: 5 }, () => 1_000_050),
    'for 1.05 ^ 15 is more than 2'
  )
})

t.test('a proof that it was wrong is believed at once', async t => {
  const time = new ServerTime()
  time.learn(1_000_000, 100, 101)
  time.relearn(4_600_000, 200, 280)
  t.equal(time.at(240), 4_600_000)
  time.relearn(999_000, 300, 400)
  t.equal(time.at(350), 999_000)
})

t.test(
  'it is wrong by half of the fastest round trip at most, and a server that counts whole milliseconds',
  async () => {
    const trip = fc.record({
      gap: fc.double({ min: 0, max: 1000, noNaN: true }),
      out: fc.double({ min: 0, max: 100, noNaN: true }),
      back: fc.double({ min: 0, max: 100, noNaN: true })
    })
    const offsets = fc.integer({ min: -(10 ** 9), max: 2 * 10 ** 12 })
    fc.assert(
      fc.property(offsets, fc.array(trip, { minLength: 1, maxLength: 10 }), (offset, trips) => {
        const time = new ServerTime()
        let now = 10 ** 9
        for (const { gap, out, back } of trips) {
          const sent = now + gap
          now = sent + out + back
          time.learn(Math.floor(sent + out + offset), sent, now)
        }
        // Ten replies make what the fastest one told half as precise.
        const fastest = Math.min(...trips.map(({ out, back }) => out + back)) * 1.05 ** trips.length
        const error = time.at(now) - (now + offset)
        return error >= -fastest / 2 - 1 - TINY && error <= fastest / 2 + 1 + TINY
      })
    )
  }
)

/** Doubles of 2^40 milliseconds. */
const TINY = 0.01
