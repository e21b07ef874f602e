import fc from 'fast-check'
import t from 'tap'
import { backoff, jittered, kindOf } from '../../src/client/backoff.js'

const none = { jitter: 0, random: () => 0.999 }
const most = { jitter: 0.25, random: () => 0.999_999 }

t.test('without a word from the server the wait grows by the kind of what ran out', async t => {
  const waits = (unit: string | undefined): readonly number[] =>
    [1, 2, 3, 4, 5, 6].map(strikes => backoff(undefined, unit, strikes, none))
  t.strictSame(waits('requests'), [1000, 2000, 4000, 8000, 8000, 8000])
  t.strictSame(waits('tokens'), [3000, 6000, 12_000, 24_000, 30_000, 30_000])
  t.strictSame(waits(undefined), [2000, 4000, 8000, 15_000, 15_000, 15_000])
})

t.test('units are of the kind that comes back at the same speed', async t => {
  for (const unit of ['requests', 'concurrent-requests']) t.equal(kindOf(unit), 'requests')
  for (const unit of ['tokens', 'token', 'input-tokens']) t.equal(kindOf(unit), 'tokens')
  for (const unit of [undefined, 'unknown', 'content-bytes', 'mails', 'brokens'])
    t.equal(kindOf(unit), 'unknown')
})

t.test('own waits stay within their range, jitter and all', async t => {
  for (const strikes of [1, 2, 3, 4, 5, 50]) {
    const wait = backoff(undefined, 'requests', strikes, most)
    t.ok(wait >= 1000 && wait <= 8000, `${wait}`)
  }
  t.ok(backoff(undefined, 'requests', 50, most) > 7900)
})

t.test('a wait that the server asks for is kept', async t => {
  t.equal(backoff(7000, 'tokens', 1, none), 7000)
})

t.test('a server that refuses again after the wait it asked for is not believed to the second', async t => {
  t.strictSame(
    [1, 2, 3, 4, 5].map(strikes => backoff(1000, 'requests', strikes, none)),
    [1000, 1000, 2000, 4000, 8000]
  )
  t.equal(backoff(60_000, 'requests', 5, none), 60_000)
})

t.test('jitter only adds, no more than its share and never more than ten seconds', async t => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1e9 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (wait, jitter, chance) => {
        const spread = jittered(wait, { jitter, random: () => chance })
        return spread >= wait && spread <= wait * (1 + jitter) + 1 && spread <= wait + 10_000
      }
    )
  )
  t.equal(jittered(1000, { jitter: 0.5, random: () => 0.5 }), 1250)
})
