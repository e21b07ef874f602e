import t from 'tap'
import { Slots, fits, sizeFor } from '../../../src/stores/memory/slots.js'

const counted = (length: number): readonly number[] => Array.from({ length }, (_, i) => i + 0.5)

t.test('a slot fits what it is made for, and is changed for one that is much too large', async t => {
  for (const length of [1, 3, 6, 7, 12, 13, 48, 49, 100_000]) {
    const size = sizeFor(length)
    t.ok(fits(size, length), `${length}`)
    if (size > 0) t.notOk(fits(size - 1, length), `${length} needs no larger one`)
    t.notOk(fits(size + 3, length), `${length} is lost in one eight times as large`)
  }
})

t.test('each slot holds its own state, in chunks small and large', async t => {
  const slots = new Slots()
  for (const length of [4, 40, 400, 4000]) {
    const size = sizeFor(length)
    const states = Array.from({ length: 3 * Math.ceil(3072 / length) }, (_, i) => [i, ...counted(length - 1)])
    const places = states.map(state => {
      const slot = slots.take(size)
      slots.write(size, slot, state)
      return slot
    })
    t.strictSame(
      places.map(slot => slots.read(size, slot, length)),
      states
    )
  }
})

t.test('what is read is a copy', async t => {
  const slots = new Slots()
  const slot = slots.take(0)
  slots.write(0, slot, [1, 2, 3])
  ;(slots.read(0, slot, 3) as number[]).fill(9)
  t.strictSame(slots.read(0, slot, 3), [1, 2, 3])
})

t.test('slots that are given back are taken again, and count no longer', async t => {
  const slots = new Slots()
  t.equal(slots.numbers, 0)
  const [first, second] = [slots.take(1), slots.take(1)]
  const large = slots.take(sizeFor(5000))
  t.equal(slots.numbers, 2 * 12 + 6144)
  slots.vacate(1, first)
  slots.vacate(sizeFor(5000), large)
  t.equal(slots.numbers, 12)
  t.equal(slots.take(1), first)
  t.not(slots.take(1), second)
  t.equal(slots.take(sizeFor(5000)), large)
  slots.write(sizeFor(5000), large, counted(5000))
  t.strictSame(slots.read(sizeFor(5000), large, 5000), counted(5000))
})
