import t from 'tap'
import { admittedPer, admittedWithin, mostInAnyWindow, total } from '../../src/simulate/measure.js'
import type { Admission } from '../../src/simulate/measure.js'

const at = (...times: number[]): Admission[] => times.map(at => ({ at, units: 1 }))

t.test(
  'an admission a window earlier counts no longer, and one a millisecond later than that does',
  async t => {
    t.equal(mostInAnyWindow(at(0, 1000), 1000), 1)
    t.equal(mostInAnyWindow(at(0, 999), 1000), 2)
    t.equal(mostInAnyWindow(at(1, 1000), 1000), 2)
  }
)

t.test('the window may start anywhere, also between the edges of a limiter', async t => {
  t.equal(mostInAnyWindow(at(990, 990, 990, 1010, 1010, 1010), 1000), 6)
  t.equal(mostInAnyWindow(at(0, 10, 20, 3000, 3010, 9000), 1000), 3)
})

t.test('all admissions of one millisecond are in one window', async t => {
  t.equal(mostInAnyWindow(at(0, 5, 5, 5), 5), 3)
})

t.test('the order of the record does not matter, and nothing admitted is nothing', async t => {
  t.equal(mostInAnyWindow(at(1010, 0, 990), 1000), 2)
  t.equal(mostInAnyWindow([], 1000), 0)
})

t.test('an admission counts with its units', async t => {
  const admissions = [
    { at: 0, units: 5 },
    { at: 999, units: 2 },
    { at: 1000, units: 4 }
  ]
  t.equal(mostInAnyWindow(admissions, 1000), 7)
  t.equal(total(admissions), 11)
})

t.test('an interval has its start and not its end', async t => {
  t.equal(admittedWithin(at(99, 100, 199, 200), 100, 100), 2)
  t.strictSame(admittedPer(at(100, 150, 199, 200, 399, 400), 100, 100, 3), [3, 1, 1])
})
