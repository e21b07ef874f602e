import fc from 'fast-check'
import t from 'tap'
import { EMPTY } from '../../../src/algorithm.js'
import type { State } from '../../../src/algorithm.js'
import { Cells } from '../../../src/stores/memory/cells.js'
import { howToRepeat, runs } from '../../algorithms/kit.js'

t.comment(howToRepeat)

const NOW = 1_753_900_000_000

const number = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.maxSafeInteger(),
  fc.constantFrom(2 ** 32 - 1, 2 ** 32, -(2 ** 31), 0.5),
  fc.integer({ min: NOW, max: NOW + 2 ** 33 })
)

/** States of all lengths, and often one entry of a window: a count, a time, and a later one. */
const state: fc.Arbitrary<State> = fc.oneof(
  fc.array(number, { maxLength: 9 }),
  fc
    .tuple(fc.nat(2 ** 32 + 2), fc.nat(NOW), fc.integer({ min: -2, max: 2 ** 32 + 2 }))
    .map(([units, first, between]) => [units, first, first + between])
)

const rows = fc.constantFrom(0, 1, 2, 1023, 1024, 5000)

t.test('what was written is read, in each row its own', async () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(rows, state), { maxLength: 30 }), writes => {
      const cells = new Cells()
      const known = new Map<number, State>()
      for (const [row, state] of writes) {
        cells.write(row, state, 1)
        known.set(row, state)
        for (const [each, wanted] of known) {
          const got = cells.read(each)
          if (got.length !== wanted.length || got.some((value, i) => value !== wanted[i])) {
            throw new Error(`row ${each}: wrote ${wanted.join()}, read ${got.join()}`)
          }
          if (cells.isEmpty(each) !== (wanted.length === 0)) throw new Error(`row ${each} is empty or not`)
        }
      }
      const long = [...known.values()].filter(({ length }) => length > 3)
      return cells.words >= long.reduce((sum, { length }) => sum + length, 0)
    }),
    { numRuns: Math.min(runs, 2000) }
  )
})

/** What an algorithm makes of a state, such as a window of entries, by a number. */
const next = {
  'stays as it is': (state: State) => state,
  'changes at its end': (state: State, by: number) => [...state.slice(0, -1), NOW + by],
  'changes at its beginning': (state: State, by: number) => [by, ...state.slice(1)],
  grows: (state: State, by: number) => [...state, by, NOW, NOW + by],
  'loses its beginning': (state: State) => state.slice(3),
  'loses its end': (state: State) => state.slice(0, -3),
  'goes back in time': (state: State, by: number) => state.map(each => (each < NOW ? each : NOW - by)),
  ends: () => EMPTY
} as const

const change = fc.record({
  row: rows,
  how: fc.constantFrom(...(Object.keys(next) as (keyof typeof next)[])),
  by: fc.nat(9),
  meanwhile: fc.array(rows, { maxLength: 2 }),
  twice: fc.boolean()
})

t.test('a state that was read is kept as it is written, whatever was read or written meanwhile', async () => {
  const long: State = [5, NOW, NOW + 1, 7, NOW + 2, NOW + 3]
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40 }), changes => {
      const cells = new Cells()
      const known = new Map<number, State>()
      for (const { row, how, by, meanwhile, twice } of changes) {
        const before = known.get(row) ?? long
        const read = known.has(row) ? cells.read(row) : long
        if (read.join() !== before.join())
          throw new Error(`row ${row}: ${before.join()}, read ${read.join()}`)
        const after = [...next[how](before, by)]
        // What is passed on is the list that was read, if an algorithm leaves the state as it is.
        for (const other of meanwhile) cells.read(other)
        if (twice) cells.write(row, long, 1)
        cells.write(row, how === 'stays as it is' && meanwhile.length === 0 && !twice ? read : after, 1)
        known.set(row, after)
      }
      for (const [row, wanted] of known) {
        const got = cells.read(row)
        if (got.join() !== wanted.join()) throw new Error(`row ${row}: ${wanted.join()}, read ${got.join()}`)
      }
    }),
    { numRuns: Math.min(runs, 2000) }
  )
})

t.test('also when a row of another kind was read into the same list meanwhile', async t => {
  const cells = new Cells()
  const entry = [5, NOW + 20, NOW + 30]
  const longer = [...entry, 1, NOW + 40, NOW + 40]
  cells.write(1, [7, NOW + 9, NOW], 1)
  cells.write(2, entry, 1)
  cells.read(1)
  cells.read(2)
  cells.write(1, longer, 1)
  t.strictSame([...cells.read(1)], longer)
})

t.test('what is left is told anew of a state that stays, whatever its kind, and of none', async t => {
  const cells = new Cells()
  const states: readonly State[] = [[1], [1, 2], [1, NOW, NOW], [5, NOW, NOW, 1, NOW, NOW], [0.5, 1, 2]]
  for (const [row, state] of states.entries()) {
    cells.write(row, state, 1)
    cells.setShare(row, 0.25)
    t.ok(cells.share(row) <= 0.25 && cells.share(row) > 0.24)
    t.strictSame([...cells.read(row)], state)
  }
  for (const row of [9, 99_999]) {
    cells.setShare(row, 0.25)
    t.equal(cells.share(row), 1)
    t.equal(cells.isEmpty(row), true)
  }
})

t.test('a row that was never written is empty, and has everything left', async t => {
  const cells = new Cells()
  for (const row of [0, 7, 99_999]) {
    t.equal(cells.read(row), EMPTY)
    t.equal(cells.isEmpty(row), true)
    t.equal(cells.share(row), 1)
  }
})

t.test('what is left is remembered, to a two hundred and fifty-fourth and never as more', async t => {
  const cells = new Cells()
  for (const share of [0, 0.001, 0.25, 0.4999, 0.5, 0.75, 0.9999, 1]) {
    cells.write(3, [1, 2], share)
    t.ok(cells.share(3) <= share && cells.share(3) > share - 1 / 254, `${share}`)
  }
  cells.write(3, [1, 2], 0.5)
  t.equal(cells.share(3), 0.5, 'half is half')
  cells.write(3, EMPTY, 0)
  t.equal(cells.share(3), 1, 'who has spent nothing has all')
})

t.test('what is empty is given back, and the rest stays', async t => {
  const cells = new Cells()
  const long = [5, NOW, NOW + 100, 1, NOW + 200, NOW + 200]
  cells.write(3, [NOW], 0.5)
  cells.write(20_000, long, 0.25)
  cells.write(40_000, long, 0.25)
  cells.write(20_000, EMPTY, 1)
  cells.trim()
  t.strictSame([...cells.read(3)], [NOW])
  t.equal(cells.read(20_000), EMPTY)
  t.equal(cells.share(20_000), 1)
  t.strictSame([...cells.read(40_000)], long)
  cells.write(20_000, long, 0.25)
  t.strictSame([...cells.read(20_000)], long, 'and is taken again')
})

t.test('short states need no slot, and what is dropped gives its slot back', async t => {
  const cells = new Cells()
  cells.write(1, [NOW], 1)
  cells.write(2, [NOW, 5], 1)
  cells.write(3, [5, NOW, NOW + 100], 1)
  t.equal(cells.words, 0)
  cells.write(3, [5, NOW, NOW + 100, 1, NOW + 200, NOW + 200], 1)
  t.equal(cells.words, 6, 'a word for each number that is near the others')
  cells.write(4, [0.5, NOW, NOW], 1)
  t.equal(cells.words, 6 + 6, 'and two for any other')
  cells.write(3, [5, NOW], 1)
  cells.write(4, EMPTY, 1)
  t.equal(cells.words, 0)
})

t.test('a long state is written over the one before, also when its times go back or run away', async t => {
  const cells = new Cells()
  const at = (...times: readonly number[]): State => times.flatMap(time => [3, time, time + 9])
  for (const state of [
    at(NOW, NOW + 1000),
    at(NOW + 500, NOW + 2000),
    at(NOW - 5000, NOW - 4000),
    at(NOW - 5000, NOW + 2 ** 31),
    at(NOW + 2 ** 31, NOW + 2 ** 31 + 7),
    [0.5, ...at(NOW)],
    at(NOW, NOW + 1, NOW + 2, NOW + 3)
  ]) {
    cells.write(7, state, 1)
    t.strictSame([...cells.read(7)], state)
  }
})

t.test('to forget who was never there takes no memory', async t => {
  const { Float64Array } = globalThis
  let made = 0
  t.teardown(() => (globalThis.Float64Array = Float64Array))
  globalThis.Float64Array = new Proxy(Float64Array, {
    construct(target, words) {
      made++
      return Reflect.construct(target, words) as object
    }
  })
  const cells = new Cells()
  for (let row = 0; row < 2 ** 20; row += 1000) cells.write(row, EMPTY, 1)
  t.equal(made, 0)
  t.equal(cells.read(5000), EMPTY)
  cells.write(5000, [NOW], 1)
  t.equal(made, 1)
})
