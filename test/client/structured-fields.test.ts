import fc from 'fast-check'
import * as oracle from 'structured-headers'
import t from 'tap'
import { parseDictionary, parseList } from '../../src/client/structured-fields.js'
import type { BareItem, Item } from '../../src/client/structured-fields.js'

const numRuns = Number(process.env['QUOTA_TEST_RUNS'] ?? 2000)

/** Pieces of fields, well-formed and not, so that many of their sequences are near the edge of the grammar. */
const piece = fc.oneof(
  fc.constantFrom('"a"', '"b\\"c"', '"d\\\\"', '"e', 'f"', '\\"', '"é"', 'tok', '*tok/e:n'),
  fc.constantFrom('%"%c3%bc"', '%"%ff"', '%"G"', '?1', '?0', '?2', '?'),
  fc.constantFrom('1', '-0', '-', '007', '999999999999999', '1000000000000000'),
  fc.constantFrom('1.5', '1.', '5.0', '1.2345', '1234567890123.1'),
  fc.constantFrom(':AQID:', ':AQI=:', ':AQI:', ':A:', ':===:', '::', ':A=B:', ':a b:'),
  fc.constantFrom(';', '; ', ' ;', ';;', ';a', ';a=', ';r=1', ';*b=2', ';9=1', ';A=1'),
  fc.constantFrom('=', ' = ', 'a=1', 'a=', 'b', 'k;p'),
  fc.constantFrom(',', ', ', ' ,\t', '\t', ' ', ',,', '(', ')', '(1 2)'),
  fc.string({ maxLength: 3 })
)

const field = fc.array(piece, { maxLength: 12 }).map(pieces => pieces.join(''))

/** structured-headers reads Dates only where nothing follows, and decimals as numbers: neither can be compared. */
const comparable = (text: string): boolean => !text.includes('@')

function plain(value: oracle.BareItem): unknown {
  if (typeof value === 'string') return value
  if (value instanceof ArrayBuffer) return [...new Uint8Array(value)]
  return typeof value === 'number' ? 'number' : 'other'
}

function own(value: BareItem): unknown {
  if (value instanceof Uint8Array) return [...value]
  if (typeof value === 'number') return 'number'
  return value ?? 'other'
}

/** A value of another type may be a Decimal, which the oracle calls a number too. */
function same(ours: BareItem, theirs: oracle.BareItem): boolean {
  if (ours === null && typeof theirs === 'number') return true
  if (typeof ours === 'number') return ours === theirs
  return JSON.stringify(own(ours)) === JSON.stringify(plain(theirs))
}

function sameItem(ours: Item, theirs: oracle.Item): boolean {
  const [value, parameters] = theirs
  return (
    same(ours.value, value) &&
    ours.parameters.size === parameters.size &&
    [...ours.parameters].every(([key, parameter]) => same(parameter, parameters.get(key)))
  )
}

function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse()
  } catch {
    return undefined
  }
}

t.test('a List is read as structured-headers reads it, but for Inner Lists, which are refused', async t => {
  let read = 0
  fc.assert(
    fc.property(field.filter(comparable), text => {
      const ours = parseList(text)
      const theirs = attempt(() => oracle.parseList(text))
      if (theirs?.some(oracle.isInnerList) === true) return ours === undefined
      if (ours !== undefined) read++
      if (ours === undefined || theirs === undefined) return ours === theirs
      return (
        ours.length === theirs.length &&
        ours.every((item, index) => sameItem(item, theirs[index] as oracle.Item))
      )
    }),
    { numRuns }
  )
  t.ok(read > numRuns / 20, `${read} of ${numRuns} were Lists`)
})

t.test('a Dictionary is read as structured-headers reads it', async t => {
  let read = 0
  fc.assert(
    fc.property(field.filter(comparable), text => {
      const ours = parseDictionary(text)
      const theirs = attempt(() => oracle.parseDictionary(text))
      if (theirs !== undefined && [...theirs.values()].some(oracle.isInnerList)) return ours === undefined
      if (ours !== undefined) read++
      if (ours === undefined || theirs === undefined) return ours === theirs
      return (
        ours.size === theirs.size &&
        [...ours].every(([name, item]) => sameItem(item, theirs.get(name) as oracle.Item))
      )
    }),
    { numRuns }
  )
  t.ok(read > numRuns / 20, `${read} of ${numRuns} were Dictionaries`)
})

const parameterOf = (value: string): BareItem | undefined =>
  parseList(`"a";p=${value}`)?.[0]?.parameters.get('p')

t.test('an Integer and a Decimal of the same value are not the same', async t => {
  t.equal(parameterOf('5'), 5)
  t.equal(parameterOf('5.0'), null)
})

t.test('a Date is a value, also before another parameter', async t => {
  t.equal(parameterOf('@1659578233;q=1'), null)
  t.equal(parameterOf('@-1;q=1'), null)
  t.equal(parameterOf('@;q=1'), undefined)
  t.equal(parameterOf('@1234567890123456'), undefined)
})

t.test('a Display String is UTF-8', async t => {
  t.equal(parameterOf('%"f%c3%bc"'), null)
  t.equal(parameterOf('%"f%c3"'), undefined)
  t.equal(parameterOf('%"%C3%BC"'), undefined)
})

t.test('the last of two parameters of a name counts', async t => {
  t.equal(parseList('"a";p=1;p=2')?.[0]?.parameters.get('p'), 2)
})
