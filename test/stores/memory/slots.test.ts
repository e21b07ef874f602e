import t from 'tap'
import { Slots, fits, sizeFor } from '../../../src/stores/memory/slots.js'

function read(slots: Slots, size: number, slot: number, length: number): readonly number[] {
  const state = counted(length).slice()
  slots.read(size, slot, state)
  return state
}

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
    const size = sizeFor(2 * length)
    const states = Array.from({ length: 3 * Math.ceil(32_768 / length) }, (_, i) => [
      i,
      ...counted(length - 1)
    ])
    const places = states.map(state => {
      const slot = slots.take(size)
      slots.write(size, slot, state)
      return slot
    })
    t.strictSame(
      places.map(slot => read(slots, size, slot, length)),
      states
    )
  }
})

t.test('memory of a size is given back when none of its slots is in use', async t => {
  const slots = new Slots()
  const [first, second] = [slots.take(1), slots.take(1)]
  slots.vacate(1, first)
  slots.trim()
  slots.write(1, second, [1, 2, 3])
  t.strictSame(read(slots, 1, second, 3), [1, 2, 3], 'another is kept as it is')
  slots.vacate(1, second)
  slots.trim()
  t.equal(slots.take(1), 0, 'all begins anew')
  slots.write(1, 0, [4, 5, 6])
  t.strictSame(read(slots, 1, 0, 3), [4, 5, 6])
})

t.test('slots that are given back are taken again, and count no longer', async t => {
  const slots = new Slots()
  t.equal(slots.words, 0)
  const [first, second] = [slots.take(1), slots.take(1)]
  const large = slots.take(sizeFor(2 * 25_000))
  t.equal(slots.words, 2 * 12 + 98_304)
  slots.vacate(1, first)
  slots.vacate(sizeFor(2 * 25_000), large)
  t.equal(slots.words, 12)
  t.equal(slots.take(1), first)
  t.not(slots.take(1), second)
  t.equal(slots.take(sizeFor(2 * 25_000)), large)
  slots.write(sizeFor(2 * 25_000), large, counted(25_000))
  t.strictSame(read(slots, sizeFor(2 * 25_000), large, 25_000), counted(25_000))
})

t.test('numbers that have a base take a word each', async t => {
  const slots = new Slots()
  const base = 1_753_900_000_000
  const states = [[5, base, base + 2 ** 31 - 1, 2 ** 31 - 1, 0, base + 7], counted(6).map(Math.floor)]
  const places = states.map(state => {
    const slot = slots.take(sizeFor(state.length))
    slots.writeNear(0, slot, state, base)
    return slot
  })
  t.equal(slots.words, 12)
  for (const [i, state] of states.entries()) {
    const got = counted(6).slice()
    slots.readNear(0, places[i]!, got, base)
    t.strictSame(got, state)
  }
  t.equal(slots.writeNear(0, places[0]!, [base - 1], base), false, 'and others cannot be written so')
  t.equal(slots.writeNear(0, places[0]!, [0.5], base), false)
})
