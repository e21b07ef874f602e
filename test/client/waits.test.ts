import t from 'tap'
import { dateOf, parseReset, parseRetryAfter } from '../../src/client/waits.js'

const now = Date.UTC(2026, 10, 30, 12)
const clocks = { date: undefined, now }
const server = { date: 'Mon, 30 Nov 2026 11:00:00 GMT', now }
const epoch = now / 1000

t.test('Retry-After is whole seconds or an HTTP-date', async t => {
  t.equal(parseRetryAfter('7', clocks), 7000)
  t.equal(parseRetryAfter(' 007 ', clocks), 7000)
  t.equal(parseRetryAfter('Mon, 30 Nov 2026 12:00:30 GMT', clocks), 30_000)
  t.equal(parseRetryAfter('Monday, 30-Nov-26 12:00:30 GMT', clocks), 30_000)
})

t.test('a date is compared with the server’s own clock, if it shows it', async t => {
  t.equal(parseRetryAfter('Mon, 30 Nov 2026 11:00:30 GMT', server), 30_000)
  t.equal(parseRetryAfter('Mon, 30 Nov 2026 11:00:30 GMT', { date: 'now', now: now - 3_600_000 }), 30_000)
})

t.test('no wait, a wait that is over, and almost-numbers say nothing', async t => {
  for (const text of [undefined, '', '0', '-3', '+3', '1.5', '500ms', 'soon', '1e3', '0x10', '１']) {
    t.equal(parseRetryAfter(text, clocks), undefined, String(text))
  }
  t.equal(parseRetryAfter('Mon, 30 Nov 2026 11:59:59 GMT', clocks), undefined)
})

const resets: readonly (readonly [text: string, wait: number | undefined, why: string])[] = [
  ['60', 60_000, 'seconds from now'],
  ['594.5', 594_500, 'and fractions of them'],
  ['999999999', undefined, 'a delta of thirty years is no delta'],
  [String(epoch + 60), 61_000, 'Unix seconds, that may have been rounded down'],
  [String(epoch + 0.5), 1500, 'and fractions of them'],
  [String((epoch + 60) * 1000), 60_000, 'Unix milliseconds'],
  [String(epoch - 60), undefined, 'a moment that is over'],
  [String(epoch + 400 * 86_400), undefined, 'one that is absurdly far away'],
  ['12ms', 12, 'a duration'],
  ['1s', 1000, 'a duration'],
  ['6m0s', 360_000, 'a duration'],
  ['2m59.56s', 179_560, 'a duration with a fraction'],
  ['1h', 3_600_000, 'a duration'],
  ['1h2m3s4ms', 3_723_004, 'a duration of all units'],
  ['2026-11-30T12:01:00Z', 60_000, 'RFC 3339'],
  ['2026-11-30T12:01Z', 60_000, 'RFC 3339 to the minute'],
  ['2026-11-30T13:01:00.5+01:00', 60_500, 'RFC 3339 with an offset'],
  ['Mon, 30 Nov 2026 12:01:00 GMT', 60_000, 'an HTTP-date'],
  ['0', undefined, 'no wait'],
  ['-1', undefined, 'no number of any kind'],
  ['', undefined, 'nothing'],
  ['m', undefined, 'a unit without a number'],
  ['soon', undefined, 'a word'],
  ['2026-11-30', undefined, 'a date without a time'],
  ['Tue Feb 16 2027 09:02:42 GMT+0100', undefined, 'what JavaScript prints']
]

t.test('the reset of older fields is told apart by its form', async t => {
  t.equal(parseReset(undefined, clocks), undefined)
  for (const [text, wait, why] of resets) t.equal(parseReset(text, clocks), wait, `${text}: ${why}`)
})

t.test('a moment is compared with the server’s own clock, if it shows it', async t => {
  t.equal(parseReset(String(epoch - 3600 + 60), server), 61_000)
})

t.test('what no date can hold is the last there is', async t => {
  t.strictSame(dateOf(now), new Date(now))
  for (const far of [8.64e15 + 1, 1e18, Infinity]) t.strictSame(dateOf(far), new Date(8.64e15))
})
