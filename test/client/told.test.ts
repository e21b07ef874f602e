import t from 'tap'
import { nothingTold } from '../../src/client/told.js'

t.test('where nothing is told but a name there is nothing but a name', async t => {
  const { policy, partitionKey, ...rest } = nothingTold('a')
  t.strictSame([policy, partitionKey], ['a', ''])
  t.ok(Object.values(rest).every(value => value === undefined))
})
