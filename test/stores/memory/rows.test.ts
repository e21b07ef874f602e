import t from 'tap'
import { NO_ROW, Rows } from '../../../src/stores/memory/rows.js'

/** Rows of a chunk. */
const CHUNK = 16_384

/** All rows that are walked through in a round. */
function round(rows: Rows): readonly number[] {
  const walked: number[] = []
  for (let row = rows.after(NO_ROW); row !== NO_ROW; row = rows.after(row)) walked.push(row)
  return walked
}

t.test('each taken row is another one, and none is that of nobody', async t => {
  const rows = new Rows()
  const taken = Array.from({ length: 2 * CHUNK }, (_, i) => rows.take(i, -i, NO_ROW))
  t.equal(new Set(taken).size, taken.length)
  t.notOk(taken.includes(NO_ROW))
  t.notOk(rows.isTaken(NO_ROW))
  t.ok(taken.every(row => rows.isTaken(row)))
  t.strictSame(round(rows), taken, 'and a round goes through all')
  t.equal(rows.taken, taken.length)
  t.ok(taken.every((row, i) => rows.low(row) === i))
})

t.test('rows that were given up are taken again before new ones, those in front first', async t => {
  const rows = new Rows()
  const taken = Array.from({ length: 2 * CHUNK }, (_, i) => rows.take(i, 0, NO_ROW))
  const all = round(rows)
  const given = [taken[CHUNK + 5]!, taken[7]!, taken[9]!]
  for (const row of given) rows.vacate(row)
  t.notOk(given.some(row => rows.isTaken(row)))
  const again = given.map(() => rows.take(1, 2, NO_ROW))
  t.strictSame(again, [taken[9], taken[7], taken[CHUNK + 5]])
  t.strictSame(round(rows), all)
})

t.test('a row begins as expired, whatever was in it before', async t => {
  const rows = new Rows()
  const row = rows.take(1, 2, NO_ROW)
  rows.setEnd(row, 1_753_900_000_000)
  t.equal(rows.end(row), 1_753_900_000_000)
  rows.vacate(row)
  t.equal(rows.end(rows.take(3, 4, NO_ROW)), 0)
})

t.test('a bucket is searched for both halves of a digest', async t => {
  const rows = new Rows()
  const last = rows.take(1, 1, NO_ROW)
  const middle = rows.take(1, 2, last)
  const first = rows.take(2, 1, middle)
  t.equal(rows.search(first, 1, 1), last)
  t.equal(rows.search(first, 1, 2), middle)
  t.equal(rows.search(first, 2, 1), first)
  t.equal(rows.search(first, 2, 2), NO_ROW)
  t.equal(rows.search(NO_ROW, 1, 1), NO_ROW)
  rows.link(first, last)
  t.equal(rows.next(first), last)
  t.equal(rows.search(first, 1, 2), NO_ROW)
})

t.test('chunks in which nobody is are given back, and made again when they are needed', async t => {
  const rows = new Rows()
  const taken = Array.from({ length: 4 * CHUNK }, (_, i) => rows.take(i, 0, NO_ROW))
  const stays = taken[2 * CHUNK]!
  for (const row of taken) if (row !== stays) rows.vacate(row)
  rows.trim()
  t.ok(rows.isTaken(stays))
  t.equal(rows.low(stays), 2 * CHUNK)
  t.equal(round(rows).length, CHUNK, 'a round goes through its chunk alone')
  t.notOk(rows.isTaken(taken.at(-1)!), 'those behind it are gone')
  t.notOk(rows.isTaken(taken[CHUNK + 1]!), 'and one in front of it')
  const again = Array.from({ length: 3 * CHUNK }, (_, i) => rows.take(i, 0, NO_ROW))
  t.equal(new Set([...again, stays]).size, again.length + 1)
  for (const row of [...again, stays]) rows.vacate(row)
  rows.trim()
  t.equal(rows.taken, 0)
  t.strictSame(round(rows), [])
})
