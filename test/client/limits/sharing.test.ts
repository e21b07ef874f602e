import t from 'tap'
import { Sharing } from '../../../src/client/limits/sharing.js'

/** This client spends so many units, and then so many are left. */
function exchange(sharing: Sharing, units: number, left: number): void {
  sharing.spent(units)
  sharing.settled(left)
}

/** A quota of which this client has spent one unit at a time, and others three. */
function fourOnAKey(): Sharing {
  const sharing = new Sharing()
  sharing.settled(100)
  for (let left = 96; left >= 60; left -= 4) exchange(sharing, 1, left)
  return sharing
}

t.test('nobody else is there until somebody is', async t => {
  const sharing = new Sharing()
  t.equal(sharing.ratio, 0)
  exchange(sharing, 1, 99)
  exchange(sharing, 5, 94)
  t.equal(sharing.ratio, 0)
  t.equal(sharing.shared, false)
})

t.test('others are known by what they spend while this client spends one', async t => {
  const sharing = fourOnAKey()
  t.equal(Math.round(sharing.ratio * 1000), 3000)
  t.equal(sharing.shared, true)
})

t.test('units that came back hide what was spent, so that nothing is learned', async t => {
  const sharing = fourOnAKey()
  exchange(sharing, 1, 80)
  t.equal(Math.round(sharing.ratio * 1000), 3000)
  exchange(sharing, 1, 76)
  t.equal(Math.round(sharing.ratio * 1000), 3000)
})

t.test('who spends nothing cannot tell how much others spend meanwhile', async t => {
  const sharing = new Sharing()
  sharing.settled(100)
  sharing.settled(50)
  t.equal(sharing.ratio, 0)
})

t.test('what others spend now and then is not worth mentioning', async t => {
  const sharing = new Sharing()
  sharing.settled(100)
  for (let i = 0, left = 100; i < 20; i++) exchange(sharing, 1, (left -= i % 4 === 3 ? 2 : 1))
  t.equal(sharing.shared, false)
})

t.test('others who are gone are forgotten', async t => {
  const sharing = fourOnAKey()
  for (let left = 59; left > 0; left--) exchange(sharing, 1, left)
  t.equal(sharing.shared, false)
})

t.test('so many have to be left that others can spend as many as they do', async t => {
  const sharing = fourOnAKey()
  t.equal(sharing.needed(1, 0, 'usual'), 4)
  t.equal(sharing.needed(2, 0, 'usual'), 8)
  t.equal(new Sharing().needed(7, 5, 'usual'), 7)
})

t.test('and twice as many where several are on their way', async t => {
  t.equal(fourOnAKey().needed(1, 1, 'usual'), 1 + 2 + 12)
})

t.test('with little patience who was not seen the last time is not waited for', async t => {
  const sharing = fourOnAKey()
  t.equal(sharing.needed(1, 0, 'little'), 4)
  exchange(sharing, 1, 59)
  t.equal(sharing.needed(1, 0, 'usual'), 4)
  t.equal(sharing.needed(1, 0, 'little'), 1)
})
