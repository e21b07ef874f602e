import t from 'tap'
import { headersOf } from '../../src/client/dispatch.js'

const fields = (headers: unknown): readonly (readonly [string, string])[] => [...headersOf(headers)]

t.test('header fields are read in every form that undici takes', async t => {
  const expected = [
    ['accept', 'text/plain'],
    ['x-a', '1'],
    ['x-a', '2']
  ]
  t.strictSame(fields({ accept: 'text/plain', 'x-a': ['1', '2'], 'x-b': undefined }), expected)
  t.strictSame(fields(['accept', 'text/plain', 'x-a', '1', 'x-a', '2']), expected)
  t.strictSame(fields(['accept', Buffer.from('text/plain'), 'x-a', ['1', '2']]), expected)
  t.strictSame(
    fields(
      new Map<string, unknown>([
        ['accept', 'text/plain'],
        ['x-a', ['1', '2']]
      ])
    ),
    expected
  )
  t.strictSame(fields(new Headers({ accept: 'text/plain' })), [['accept', 'text/plain']])
})

t.test('nothing is no fields', async t => {
  for (const nothing of [undefined, null, {}, [], new Headers(), 'accept']) t.strictSame(fields(nothing), [])
})
