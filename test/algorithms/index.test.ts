import t from 'tap'
import { algorithms } from '../../src/algorithms/index.js'

t.test('every algorithm is found by the name it gives itself, the default first', async t => {
  t.strictSame([...algorithms.keys()], ['sliding-window', 'fixed-window', 'token-bucket'])
  for (const [name, algorithm] of algorithms) t.equal(algorithm.name, name)
})
