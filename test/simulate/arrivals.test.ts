import t from 'tap'
import { LATEST, burst, evenly, inOrder, later, parseArrivals } from '../../src/simulate/arrivals.js'
import type { Arrival } from '../../src/simulate/arrivals.js'

const times = (arrivals: readonly Arrival[]): number[] => arrivals.map(({ at }) => at)
const parse = (text: string): Arrival[] =>
  parseArrivals(message => {
    throw new Error(message)
  }, text)

t.test('an even rate starts at once and keeps its spacing', async t => {
  t.strictSame(times(evenly(0, 5, { requests: 5, per: 1000 })), [0, 200, 400, 600, 800])
  t.strictSame(times(evenly(60_004, 3, { requests: 200, per: 1000 })), [60_004, 60_009, 60_014])
})

t.test('a spacing that is no whole number of milliseconds does not drift', async t => {
  t.strictSame(times(evenly(0, 7, { requests: 3, per: 1000 })), [0, 333, 666, 1000, 1333, 1666, 2000])
})

t.test('a burst is so many requests in one millisecond', async t => {
  t.strictSame(burst(59_000, 2), [
    { at: 59_000, units: 1 },
    { at: 59_000, units: 1 }
  ])
})

t.test('requests can be moved on the clock and brought in order', async t => {
  t.strictSame(times(later(burst(5, 2), 30_000)), [30_005, 30_005])
  t.strictSame(inOrder([...burst(2, 1), { at: 1, units: 3 }, { at: 1, units: 2 }]), [
    { at: 1, units: 3 },
    { at: 1, units: 2 },
    { at: 2, units: 1 }
  ])
})

t.test(
  'a file has a time a line, in milliseconds or ISO 8601 with a zone, and a cost where it is not 1',
  async t => {
    const text = [
      '\uFEFF# times',
      '0',
      '  250 3  # three',
      '',
      '500,2',
      '750;4\r',
      '1970-01-01T00:00:01Z',
      '1970-01-01T01:00:01.25+01:00\t5'
    ].join('\n')
    t.strictSame(parse(text), [
      { at: 0, units: 1 },
      { at: 250, units: 3 },
      { at: 500, units: 2 },
      { at: 750, units: 4 },
      { at: 1000, units: 1 },
      { at: 1250, units: 5 }
    ])
  }
)

t.test('a line that is not understood is refused with its number', async t => {
  const time = (line: number, got: string): string =>
    `--file line ${line}: a time must be milliseconds from 0 to ${LATEST} or like 2026-11-30T12:00:00.000Z, got ${got}`
  const cost = (got: string): string =>
    `--file line 1: a cost must be an integer from 1 to 999999999999999, got ${got}`
  t.throws(() => parse('0\n-5'), { message: time(2, '"-5"') })
  t.throws(() => parse('1.5'), { message: time(1, '"1.5"') })
  t.throws(() => parse(`${LATEST + 1}`), { message: time(1, `"${LATEST + 1}"`) })
  t.throws(() => parse('1969-12-31T23:59:59Z'), { message: time(1, '"1969-12-31T23:59:59Z"') })
  t.throws(() => parse('2026-13-01T00:00:00Z'), { message: time(1, '"2026-13-01T00:00:00Z"') })
  t.throws(
    () => parse('2026-02-29T00:00:00Z'),
    { message: time(1, '"2026-02-29T00:00:00Z"') },
    'no leap year'
  )
  t.strictSame(parse('2028-02-29T00:00:00Z').length, 1)
  t.throws(() => parse('2026-11-30T12:00:00'), { message: time(1, '"2026-11-30T12:00:00"') }, 'no zone')
  t.throws(() => parse('5 0'), { message: cost('"0"') })
  t.throws(() => parse('5 -1'), { message: cost('"-1"') })
  t.throws(() => parse('5 1 1'), { message: '--file line 1: a line is a time and a cost, got "5 1 1"' })
})
