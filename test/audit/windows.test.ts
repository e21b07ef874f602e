import fc from 'fast-check'
import t from 'tap'
import { mostCertain, mostInAnyWindow, mostPossible, worstCrowd } from '../../src/audit/windows.js'
import type { Between } from '../../src/audit/windows.js'
import { mostInAnyWindow as simulated } from '../../src/simulate/measure.js'
import { howToRepeat } from '../algorithms/kit.js'

t.comment(howToRepeat)

const instants = fc.array(fc.nat(60), { maxLength: 24 })
const between = fc
  .tuple(fc.nat(40), fc.nat(12))
  .map(([sent, took]): Between => ({ sent, arrived: sent + took }))
const window = fc.integer({ min: 1, max: 20 })

t.test('of instants it is the measure of the simulator', async () => {
  fc.assert(
    fc.property(instants, window, (times, window) => {
      const admissions = times.map(at => ({ at, units: 1 }))
      return mostInAnyWindow(times, window) === simulated(admissions, window)
    })
  )
})

t.test('what was counted exactly a window earlier is not in it', async t => {
  t.equal(mostInAnyWindow([0, 1000], 1000), 1)
  t.equal(mostInAnyWindow([0, 999.999], 1000), 2)
  t.equal(mostInAnyWindow([], 1000), 0)
})

t.test(
  'no instants between sending and arrival fall short of what is sure or exceed what is possible',
  async () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(between, fc.double({ min: 0, max: 1, noNaN: true })), { maxLength: 16 }),
        window,
        (list, window) => {
          const betweens = list.map(([between]) => between)
          const times = list.map(([{ sent, arrived }, share]) => sent + share * (arrived - sent))
          const most = mostInAnyWindow(times, window)
          return mostCertain(betweens, window) <= most && mostPossible(betweens, window) >= most
        }
      )
    )
  }
)

t.test(
  'where answers arrive in the order of their requests, instants exist for what is sure and for what is possible',
  async () => {
    const small = fc.array(fc.tuple(fc.nat(6), fc.nat(2)), { maxLength: 5 }).map(inOrder)
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: 4 }), (betweens, window) => {
        const counts = choices(betweens).map(times => mostInAnyWindow(times, window))
        return (
          mostCertain(betweens, window) === Math.min(...counts) &&
          mostPossible(betweens, window) === Math.max(...counts)
        )
      })
    )
  }
)

t.test('several windows in a row can prove what no single one does', async t => {
  // The second and the third cannot both keep away from their neighbours.
  const betweens = [
    { sent: 0, arrived: 0 },
    { sent: 5, arrived: 15 },
    { sent: 19, arrived: 19 }
  ]
  t.equal(mostCertain(betweens, 10), 2)
  t.strictSame(worstCrowd(betweens, 10), { from: 0, to: 19 })
})

t.test('the crowd is where the most were admitted', async t => {
  const betweens = [0, 500, 990, 995, 1010, 1015, 3000].map(sent => ({ sent, arrived: sent + 5 }))
  t.equal(mostCertain(betweens, 100), 4)
  t.strictSame(worstCrowd(betweens, 100), { from: 990, to: 1020 })
  t.strictSame(worstCrowd(betweens.slice(0, 1), 100), { from: 0, to: 5 })
  t.equal(worstCrowd([], 100), undefined)
})

t.test('a slow answer makes it possible, and not sure, that a window has more', async t => {
  const slow = [
    { sent: 0, arrived: 1500 },
    { sent: 1600, arrived: 1601 }
  ]
  t.equal(mostInAnyWindow(slow, 1000), 1)
  t.equal(mostPossible(slow, 1000), 2)
})

t.test('what are no times and no window is refused', async t => {
  t.throws(() => mostInAnyWindow([Number.NaN], 1000), {
    code: 'QUOTA_OPTION',
    message: 'mostInAnyWindow: an admission must be a time or { sent, arrived }, got NaN'
  })
  t.throws(() => mostInAnyWindow([{ sent: 2, arrived: 1 }], 1000), { code: 'QUOTA_OPTION' })
  for (const window of [0, -1, Infinity, Number.NaN]) {
    t.throws(() => mostInAnyWindow([1], window), {
      message: `mostInAnyWindow: the window must be a number above 0, got ${window}`
    })
  }
  t.throws(() => mostInAnyWindow([1], '1s' as never), { message: /got "1s"$/ })
})

/** Sendings and arrivals in the same order. */
function inOrder(list: readonly (readonly [number, number])[]): Between[] {
  const sent = list.map(([sent]) => sent).sort((a, b) => a - b)
  const arrived = list.map(([sent, took]) => sent + took).sort((a, b) => a - b)
  return sent.map((sent, i) => ({ sent, arrived: arrived[i]! }))
}

/** All instants on a grid: whole numbers are enough, for all times are. */
function choices(betweens: readonly Between[]): number[][] {
  return betweens.reduce<number[][]>(
    (chosen, { sent, arrived }) =>
      chosen.flatMap(times => Array.from({ length: arrived - sent + 1 }, (_, i) => [...times, sent + i])),
    [[]]
  )
}
