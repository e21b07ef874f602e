import t from 'tap'
import { blocks, median, paired, quantile } from './statistics.js'

t.test(
  'the median lies in the middle, between two values where there are as many above as below',
  async t => {
    t.equal(median([3, 1, 2]), 2)
    t.equal(median([4, 1, 3, 2]), 2.5)
    t.equal(median([7]), 7)
    t.ok(Number.isNaN(median([])))
  }
)

t.test('a quantile lies between two values by its distance from both, and changes no list', async t => {
  const values = [40, 10, 30, 20, 50]
  t.equal(quantile(values, 0), 10)
  t.equal(quantile(values, 0.25), 20)
  t.equal(quantile(values, 0.1), 14)
  t.equal(quantile(values, 1), 50)
  t.strictSame(values, [40, 10, 30, 20, 50])
})

t.test('what disturbs a round disturbs both measures of it, and not what is made of them', async t => {
  const quiet = [10, 10, 10, 10, 10]
  const disturbed = quiet.map((value, round) => value * (round < 3 ? 4 : 1))
  const twice = disturbed.map(value => value * 2)
  t.equal(
    paired(twice, disturbed, (a, b) => a / b),
    2
  )
  t.equal(
    paired([12, 52, 13], [10, 50, 11], (a, b) => a - b),
    2
  )
})

t.test('blocks are runs of one length that together are all values', async t => {
  t.strictSame(blocks([1, 2, 3, 4, 5, 6], 3), [
    [1, 2],
    [3, 4],
    [5, 6]
  ])
  t.strictSame(blocks([1, 2, 3, 4, 5, 6, 7], 2).flat(), [1, 2, 3, 4, 5, 6, 7])
  t.strictSame(blocks([1], 5), [[1]])
})
