import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { LEGACY_NAMES, xRateLimit } from '../src/legacy.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)

const DAY = 86_400_000
const NOW = Date.UTC(2026, 10, 30)

t.test('there is a name for each value', async t => {
  t.strictSame(LEGACY_NAMES, ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'])
})

t.test('delta is seconds from now, rounded up', async t => {
  const limit = { quota: 100, remaining: 99, effectiveWindow: 9001 }
  t.strictSame(xRateLimit('delta', limit, NOW), ['100', '99', '10'])
  t.strictSame(xRateLimit('delta', { ...limit, effectiveWindow: 1 }, NOW), ['100', '99', '1'])
})

t.test('epoch is the second after the true reset', async t => {
  const limit = { quota: 1, remaining: 0, effectiveWindow: 3000 }
  const x = NOW / 1000
  t.strictSame(xRateLimit('epoch', limit, NOW + 500), ['1', '0', String(x + 4)])
  t.strictSame(xRateLimit('epoch', { ...limit, effectiveWindow: 2000 }, NOW + 1500), [
    '1',
    '0',
    String(x + 4)
  ])
})

t.test('an epoch is later than the Date of the same response, and not early', async () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 2 * NOW }),
      fc.integer({ min: -5000, max: 400 * DAY }),
      (now, effectiveWindow) => {
        fc.pre(effectiveWindow !== 0)
        const [, , reset] = xRateLimit('epoch', { quota: 1, remaining: 0, effectiveWindow }, now)
        assert.ok(Number(reset) > Math.floor(now / 1000))
        assert.ok(Number(reset) * 1000 >= now + effectiveWindow)
      }
    ),
    { seed }
  )
})

t.test('every value is a bare integer, and a relative one cannot be taken for an epoch', async t => {
  for (const effectiveWindow of [10_000, DAY, 400 * DAY]) {
    const limit = { quota: 1_000_000, remaining: 999_999, effectiveWindow }
    for (const value of [...xRateLimit('delta', limit, NOW), ...xRateLimit('epoch', limit, NOW)])
      t.match(value, /^\d+$/)
    t.ok(Number(xRateLimit('delta', limit, NOW)[2]) < 1e9)
    t.ok(Number(xRateLimit('epoch', limit, NOW)[2]) > 1e9)
  }
})

t.test('without an effective window there is no reset', async t => {
  const limit = { quota: 0, remaining: 0, effectiveWindow: 0 }
  t.strictSame(xRateLimit('delta', limit, NOW), ['0', '0', undefined])
  t.strictSame(xRateLimit('epoch', limit, NOW), ['0', '0', undefined])
})
