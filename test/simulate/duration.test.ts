import t from 'tap'
import { duration } from '../../src/simulate/duration.js'

t.test('a duration is in the largest unit that has no fraction', async t => {
  const cases: readonly (readonly [number, string])[] = [
    [0, '0s'],
    [1, '1ms'],
    [1500, '1500ms'],
    [1000, '1s'],
    [90_000, '90s'],
    [60_000, '1m'],
    [7_200_000, '2h'],
    [86_400_000, '1d']
  ]
  for (const [milliseconds, text] of cases) t.equal(duration(milliseconds), text)
})
