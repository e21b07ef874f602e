import t from 'tap'
import { isLater, whenKnown } from '../src/later.js'

t.test('a promise is later, anything else is now', async t => {
  t.equal(isLater(Promise.resolve()), true)
  for (const value of [undefined, null, 0, '', 'then', {}, [], () => {}])
    t.equal(isLater<unknown>(value), false)
})

t.test('what is known goes on at once, and no promise is made of it', async t => {
  t.equal(
    whenKnown(20, value => value + 1),
    21
  )
  t.throws(() =>
    whenKnown(1, () => {
      throw new Error('at once')
    })
  )
})

t.test('what is known later goes on then', async t => {
  const later = whenKnown(Promise.resolve(20), value => value + 1)
  t.ok(later instanceof Promise)
  t.equal(await later, 21)
  await t.rejects(Promise.resolve(whenKnown(Promise.reject(new Error('never')), () => t.fail('goes on'))))
})
