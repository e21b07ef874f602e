import t from 'tap'
import { Recent } from '../../src/client/recent.js'

t.test('of more than it holds those set longest ago are forgotten', async t => {
  const recent = new Recent<number>(2)
  recent.set('a', 1)
  recent.set('b', 2)
  recent.set('a', 3)
  recent.set('c', 4)
  t.strictSame([recent.get('a'), recent.get('b'), recent.get('c')], [3, undefined, 4])
  t.strictSame([...recent.values()], [3, 4])
})
