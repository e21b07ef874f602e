import fc from 'fast-check'
import t from 'tap'
import { baseOf, fromWord, toWord } from '../../../src/stores/memory/near.js'
import { howToRepeat, runs } from '../../algorithms/kit.js'

t.comment(howToRepeat)

const NOW = 1_753_900_000_000
const HALF = 2 ** 31

t.test('the base is the least of the large numbers, if all of them are near it', async t => {
  t.equal(baseOf([5, NOW + 7, NOW, 3, NOW + 9]), NOW)
  t.equal(baseOf([HALF]), HALF)
  t.equal(baseOf([NOW, NOW + HALF - 1]), NOW)
  t.ok(Number.isNaN(baseOf([NOW, NOW + HALF])))
  t.equal(baseOf([0, 1, HALF - 1]), Infinity, 'there is none, and none is needed')
  t.equal(baseOf([]), Infinity)
})

t.test('what is no integer of 0 or more has no base', async t => {
  for (const number of [-1, 0.5, NOW + 0.5, NaN, Infinity])
    t.ok(Number.isNaN(baseOf([5, NOW, number])), `${number}`)
})

t.test('by a base that was there before, what is below it or far beyond it has no word', async t => {
  t.ok(Number.isNaN(toWord(NOW - 1, NOW)))
  t.ok(Number.isNaN(toWord(NOW + HALF, NOW)))
  t.ok(Number.isNaN(toWord(NOW + 2 * HALF, NOW)))
  for (const number of [-1, 0.5, NOW + 0.5]) t.ok(Number.isNaN(toWord(number, NOW)), `${number}`)
  t.equal(toWord(HALF - 1, NOW), HALF - 1)
})

t.test('a word stands for each number that has a base, and for no other', async () => {
  const number = fc.oneof(
    fc.nat(),
    fc.integer({ min: HALF - 2, max: HALF + 2 }),
    fc.integer({ min: NOW, max: NOW + HALF + 9 })
  )
  fc.assert(
    fc.property(fc.array(number, { maxLength: 9 }), state => {
      const base = baseOf(state)
      if (Number.isNaN(base)) return
      for (const number of state) {
        const word = toWord(number, base)
        if ((word | 0) !== word || fromWord(word, base) !== number)
          throw new Error(`${number} became ${word}`)
      }
    }),
    { numRuns: runs }
  )
})
