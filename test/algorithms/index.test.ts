import t from 'tap'
import { EMPTY, NEVER } from '../../src/algorithm.js'
import type { Algorithm, Step, Terms } from '../../src/algorithm.js'
import { algorithms } from '../../src/algorithms/index.js'

t.test('every algorithm is found by the name it gives itself, the default first', async t => {
  t.strictSame(
    [...algorithms.keys()],
    [
      'sliding-window',
      'sliding-window-counter',
      'fixed-window',
      'token-bucket',
      'leaky-bucket',
      'concurrency'
    ]
  )
  for (const [name, algorithm] of algorithms) t.equal(algorithm.name, name)
})

const T0 = 1_753_900_000_123

/** What somebody gets who asks at once for so many units, one after the other. */
function asked(algorithm: Algorithm, quota: number, costs: readonly number[]): readonly Step[] {
  const terms: Terms = {
    quota,
    window: 60_000,
    precision: 10,
    burst: quota,
    align: false,
    maxDelay: 0,
    holdFor: 60_000
  }
  let state = EMPTY
  return costs.map(units => {
    const step = algorithm.step(state, algorithm.params(terms), T0, units)
    state = step.state
    return step
  })
}

for (const [name, algorithm] of algorithms) {
  t.test(`${name}: more than it can hold is refused for ever and drains nothing`, async t => {
    t.match(asked(algorithm, 3, [4, 3]), [
      { allowed: false, remaining: 3, retryAfter: NEVER },
      { allowed: true, remaining: 0 }
    ])
  })

  t.test(`${name}: the last that fits is admitted, the next is not`, async t => {
    const steps = asked(algorithm, 5, [1, 1, 1, 1, 1, 1])
    t.strictSame(
      steps.map(({ allowed, remaining }) => [allowed, remaining]),
      [
        [true, 4],
        [true, 3],
        [true, 2],
        [true, 1],
        [true, 0],
        [false, 0]
      ]
    )
  })

  t.test(`${name}: units are counted, not requests`, async t => {
    const steps = asked(algorithm, 10, [8, 1, 0, 1, 1, 0])
    t.strictSame(
      steps.map(({ allowed, remaining }) => [allowed, remaining]),
      [
        [true, 2],
        [true, 1],
        [true, 1],
        [true, 0],
        [false, 0],
        [true, 0]
      ]
    )
  })
}
