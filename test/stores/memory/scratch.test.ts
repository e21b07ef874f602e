import t from 'tap'
import { Scratch } from '../../../src/stores/memory/scratch.js'

t.test('a list of each length is made once, and of great lengths each time', async t => {
  const scratch = new Scratch()
  for (const length of [0, 1, 3, 96]) {
    t.equal(scratch.of(length).length, length)
    t.equal(scratch.of(length), scratch.of(length))
  }
  t.equal(scratch.of(97).length, 97)
  t.not(scratch.of(97), scratch.of(97))
})

t.test('lists belong to one scratch alone', async t => {
  t.not(new Scratch().of(3), new Scratch().of(3))
})
