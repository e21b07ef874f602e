import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import calculateSlot from 'cluster-key-slot'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { Keys } from '../../../src/stores/redis/keys.js'
import { howToRepeat } from '../../algorithms/kit.js'

t.comment(howToRepeat)

const SECRET = 'a secret of thirty-two characters'
const KEY = /^q1:\{[A-Za-z0-9_-]{22}\}$/

const keys = (secret: string | Uint8Array = SECRET, prefix: string = 'q1', oneSlot: boolean = false): Keys =>
  new Keys(secret, prefix, oneSlot)

t.test('a key has a fixed alphabet and length, whatever the partition is', async t => {
  for (const partition of [
    '',
    'ip:203.0.113.9',
    'user:x}{y',
    'user:\0\r\n*',
    'user:__proto__',
    `user:${'ä'.repeat(100_000)}`,
    'user:\u{1f600}'
  ]) {
    t.match(keys().of(partition), KEY)
  }
  fc.assert(fc.property(fc.string({ unit: 'binary' }), partition => KEY.test(keys().of(partition))))
})

t.test('a key is the same each time, here and in other processes', async t => {
  const one = keys()
  t.equal(one.of('user:42'), one.of('user:42'))
  t.equal(keys().of('user:42'), one.of('user:42'))
  t.equal(one.of('user:42'), 'q1:{vvRrVPupguh0e4prSAJCFG}')
})

t.test('partitions, secrets and prefixes have keys of their own', async t => {
  const partitions = ['', 'user:1', 'user:2', 'user: 1', 'ip:1', 'user:1 ', 'USER:1', 'user:1\0']
  t.equal(new Set(partitions.map(partition => keys().of(partition))).size, partitions.length)
  t.not(keys().of('user:1'), keys(`${SECRET}.`).of('user:1'))
  t.match(keys(SECRET, 'other.app').of('user:1'), /^other\.app:\{[\w-]{22}\}$/)
  t.equal(
    keys(SECRET, 'other').of('user:1').slice('other'.length),
    keys().of('user:1').slice('q1'.length),
    'which differ in their prefix alone'
  )
})

t.test('strings that differ in a lone surrogate are two partitions', async t => {
  const partitions = ['user:\ud800', 'user:\udbff', 'user:\udc00', 'user:\ufffd', 'user:?', 'user:']
  t.equal(new Set(partitions.map(partition => keys().of(partition))).size, partitions.length)
})

t.test('a secret is the same as text and as its bytes', async t => {
  for (const secret of [SECRET, 'ä€😀'.repeat(20)]) {
    const text = keys(secret).of('user:42')
    t.equal(keys(Buffer.from(secret)).of('user:42'), text)
    t.equal(keys(new Uint8Array(Buffer.from(secret))).of('user:42'), text)
  }
})

t.test('nothing of a partition or the secret can be seen, nor found without the secret', async t => {
  const key = keys().of('user:alice@example.com')
  t.notMatch(key, /alice|example|secret/)
  for (const encoding of ['utf8', 'utf16le'] as const) {
    const plain = crypto
      .createHmac('sha256', SECRET)
      .update('user:alice@example.com', encoding)
      .digest('base64url')
    t.notOk(
      key.includes(plain.slice(0, 22)),
      'a digest of the same secret for another purpose is another one'
    )
    const bare = crypto.createHash('sha256').update('user:alice@example.com', encoding).digest('base64url')
    t.notOk(key.includes(bare.slice(0, 22)))
  }
})

t.test('each partition has a slot of its own, or all have one', async t => {
  const partitions = Array.from({ length: 200 }, (_, i) => `user:${i}`)
  const slots = (keys: Keys): Set<number> =>
    new Set(partitions.map(partition => calculateSlot(keys.of(partition))))
  t.ok(slots(keys()).size > 190)
  const together = keys(SECRET, 'q1', true)
  t.equal(slots(together).size, 1)
  t.strictSame([...slots(together)], [calculateSlot('q1')])
  t.match(together.of('user:1'), /^q1:\{q1\}:[A-Za-z0-9_-]{22}$/)
  t.equal(new Set(partitions.map(partition => together.of(partition))).size, 200)
})

t.test('what was asked for lately is remembered, and no more than so much', async t => {
  const made = countDigests(t)
  const some = keys()
  for (let i = 0; i < 3; i++) some.of('user:first')
  t.equal(made(), 1)
  for (let i = 0; i < 20_000; i++) some.of(`user:${i}`)
  t.equal(made(), 20_001)
  some.of('user:19999')
  t.equal(made(), 20_001)
  some.of('user:first')
  t.equal(made(), 20_002, 'it was forgotten for others')
})

t.test('what is long is not remembered: clients could fill the memory with it', async t => {
  const made = countDigests(t)
  const some = keys()
  const [long, longer] = ['x'.repeat(256), 'x'.repeat(257)]
  for (let i = 0; i < 3; i++) some.of(long)
  t.equal(made(), 1)
  for (let i = 0; i < 3; i++) some.of(longer)
  t.equal(made(), 4)
})

/** How many digests were made since. */
function countDigests(t: Test): () => number {
  let made = 0
  const original = crypto.createHmac
  crypto.createHmac = (...given) => {
    made++
    return original(...given)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    crypto.createHmac = original
    syncBuiltinESMExports()
  })
  return () => made
}
