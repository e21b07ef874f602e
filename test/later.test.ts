import t from 'tap'
import { isLater, whenKnown } from '../src/later.js'

/** What has `then`, and nothing else that a promise has: query builders are like that. */
const thenable = <T>(value: T): Promise<T> =>
  // oxlint-disable-next-line unicorn/no-thenable -- that is what it is
  ({ then: (use: (value: T) => unknown) => void use(value) }) as unknown as Promise<T>

t.test('a promise is later, anything else is now', async t => {
  t.equal(isLater(Promise.resolve()), true)
  t.equal(isLater(thenable(1)), true)
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

t.test('what has then and no more is waited for like a promise', async t => {
  const later = whenKnown(thenable(20), value => value + 1)
  t.ok(later instanceof Promise)
  t.equal(await later, 21)
  const failing = whenKnown(thenable(1), () => {
    throw new Error('then')
  })
  await t.rejects(Promise.resolve(failing), { message: 'then' })
})
