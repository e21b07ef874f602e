import fc from 'fast-check'
import t from 'tap'
import { OwnUse } from '../../../src/client/limits/own-use.js'

t.test('what was spent counts for one window', async t => {
  const use = new OwnUse(1000)
  use.add(3, 0)
  use.add(2, 500)
  t.equal(use.units(500), 5)
  t.equal(use.units(999), 5)
  t.equal(use.units(1000), 2)
  t.equal(use.units(1500), 0)
})

t.test('it knows when units come back, the oldest first', async t => {
  const use = new OwnUse(1000)
  use.add(3, 0)
  use.add(2, 500)
  t.equal(use.freedAt(1, 500), 1000)
  t.equal(use.freedAt(3, 500), 1000)
  t.equal(use.freedAt(4, 500), 1500)
  t.equal(use.freedAt(6, 500), undefined)
  t.equal(use.freedAt(1, 1000), 1500, 'what has left is back already')
})

t.test('nothing spent is no entry', async t => {
  const use = new OwnUse(1000)
  use.add(0, 0)
  t.equal(use.freedAt(0, 0), undefined)
})

t.test('it never forgets early, and late by a tenth of the window at most', async () => {
  const spent = fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 9 })), { maxLength: 60 })
  fc.assert(
    fc.property(spent, fc.nat(1500), (steps, later) => {
      const use = new OwnUse(1000)
      const log: (readonly [at: number, units: number])[] = []
      let now = 0
      for (const [pause, units] of steps) {
        now += pause
        use.add(units, now)
        log.push([now, units])
      }
      now += later
      const since = (time: number): number =>
        log.filter(([at]) => at > time).reduce((sum, [, units]) => sum + units, 0)
      return use.units(now) >= since(now - 1000) && use.units(now) <= since(now - 1100)
    })
  )
})
