import t from 'tap'
import { parseHttpDate } from '../../src/client/http-date.js'

const now = Date.UTC(2026, 10, 30)
const MOMENT = Date.UTC(1994, 10, 6, 8, 49, 37)

t.test('all three forms of RFC 9110 are one moment', async t => {
  t.equal(parseHttpDate('Sun, 06 Nov 1994 08:49:37 GMT', now), MOMENT)
  t.equal(parseHttpDate('Sunday, 06-Nov-94 08:49:37 GMT', now), MOMENT)
  t.equal(parseHttpDate('Sun Nov  6 08:49:37 1994', now), MOMENT)
})

t.test('a year of two digits is not more than fifty years ahead', async t => {
  t.equal(parseHttpDate('Monday, 30-Nov-26 00:00:00 GMT', now), now)
  t.equal(parseHttpDate('Monday, 30-Nov-76 00:00:00 GMT', now), Date.UTC(2076, 10, 30))
  t.equal(parseHttpDate('Tuesday, 30-Nov-77 00:00:00 GMT', now), Date.UTC(1977, 10, 30))
})

t.test('what other readers make dates of is none', async t => {
  for (const text of [
    '',
    '1.5',
    '-3',
    '120',
    '2026',
    '500ms',
    'soon',
    '2026-11-29T00:00:00Z',
    '6 Nov 1994',
    'Sun, 06 Nov 1994 08:49:37',
    'sun, 06 nov 1994 08:49:37 GMT',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:00:00 GMT',
    'Sun, 06 Nov 1994 08:49:37 +0100',
    'x Sun, 06 Nov 1994 08:49:37 GMT'
  ]) {
    t.equal(parseHttpDate(text, now), undefined, text)
  }
})
