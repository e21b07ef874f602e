import fc from 'fast-check'
import t from 'tap'
import { NO_ROW } from '../../../src/stores/memory/rows.js'
import { Table } from '../../../src/stores/memory/table.js'
import { howToRepeat, runs } from '../../algorithms/kit.js'

t.comment(howToRepeat)

const named = (i: number): string => `user:${i}`

/** Adds the partitions of a range, and tells their rows. */
const added = (table: Table, from: number, to: number): Map<string, number> =>
  new Map(Array.from({ length: to - from }, (_, i) => [named(from + i), table.add(named(from + i))]))

function lost(table: Table, known: ReadonlyMap<string, number>): number {
  let count = 0
  for (const [partition, row] of known) if (table.find(partition) !== row) count++
  return count
}

t.test('what was added is found, what was dropped is not, in any order', async () => {
  const partition = fc.string({ unit: 'binary', maxLength: 3 })
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), partition), { maxLength: 60 }), steps => {
      const table = new Table()
      const known = new Map<string, number>()
      for (const [add, partition] of steps) {
        const row = known.get(partition)
        if (table.find(partition) !== (row ?? NO_ROW)) throw new Error(`${partition} is in a wrong row`)
        if (add && row === undefined) known.set(partition, table.add(partition))
        if (add || row === undefined) continue
        table.drop(row)
        known.delete(partition)
      }
      return lost(table, known) === 0 && table.rows.taken === known.size
    }),
    { numRuns: Math.ceil(runs / 10) }
  )
})

t.test('nobody is lost while buckets are split and joined again', async t => {
  const table = new Table()
  const known = added(table, 0, 50_000)
  t.equal(lost(table, known), 0)
  t.equal(table.find('user:50000'), NO_ROW)
  for (const [partition, row] of known) {
    if (known.size <= 5000) break
    table.drop(row)
    known.delete(partition)
  }
  for (let rounds = 0; rounds < 3; rounds++) {
    table.trim()
    t.equal(lost(table, known), 0)
    for (const [partition, row] of added(table, 60_000 + 9000 * rounds, 69_000 + 9000 * rounds)) {
      known.set(partition, row)
    }
    t.equal(lost(table, known), 0)
  }
  t.equal(table.rows.taken, 5000 + 3 * 9000)
})

t.test('a table that nobody is in any more begins anew', async t => {
  const table = new Table()
  for (const row of added(table, 0, 40_000).values()) table.drop(row)
  table.trim()
  t.equal(table.find(named(1)), NO_ROW)
  t.equal(lost(table, added(table, 0, 40_000)), 0)
})

t.test('two tables have secrets of their own', async t => {
  const order = (table: Table): string =>
    Array.from({ length: 40 }, (_, i) => table.rows.low(table.add(named(i)))).join()
  t.not(order(new Table()), order(new Table()))
})
