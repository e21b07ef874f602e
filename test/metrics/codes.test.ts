import t from 'tap'
import { Codes } from '../../src/metrics/codes.js'

t.test('fifty codes are labels, and all others one', async t => {
  const codes = new Codes()
  const first = Array.from({ length: 50 }, (_, i) => `E${i}`)
  t.strictSame(
    first.map(code => codes.of(code)),
    first
  )
  t.strictSame(
    ['E50', 'E51', 'E0', 'E49'].map(code => codes.of(code)),
    ['OTHER', 'OTHER', 'E0', 'E49']
  )
})
