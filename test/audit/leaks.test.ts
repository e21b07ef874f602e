import { createHash } from 'node:crypto'
import t from 'tap'
import { leakFinder } from '../../src/audit/leaks.js'
import type { Leak } from '../../src/audit/leaks.js'
import { USUAL } from './kit.js'

function find(text: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): readonly Leak[] {
  return leakFinder({ ...USUAL, headers })([{ where: 'pk', bytes: Buffer.from(text) }])
}

t.test('labels, numbers, times and versions are no leaks', async t => {
  const harmless = [
    'tenant-7',
    'GET /items',
    '"p";r=0;t=20',
    '14:20:10',
    '1.2.3',
    '::',
    'premium',
    '',
    'a:b',
    'Bearer realm'
  ]
  for (const text of harmless) t.strictSame(find(text, { authorization: 'Bearer 0123456789' }), [], text)
})

t.test('identifiers in clear are found', async t => {
  for (const [text, what, shown] of [
    ['user ann.b+c@mail.example.com!', 'an e-mail address', 'ann.b+c@mail.example.com'],
    ['ip 198.51.100.7', 'an IP address', '198.51.100.7'],
    ['::ffff:198.51.100.7', 'an IP address', '::ffff:198.51.100.7'],
    ['user:2001:db8::7', 'an IP address', '2001:db8::7'],
    ['ghp_abcdefghijklmnopqrstuv', 'an API key or a token', 'ghp…'],
    ['eyJhbGciOi.eyJzdWIi.c2lnbmF0', 'an API key or a token', 'eyJ…']
  ] as const) {
    t.strictSame(find(text), [{ where: 'pk', what, text: shown }], text)
  }
})

t.test('what a request was authenticated with is found, and not shown', async t => {
  for (const [headers, text] of [
    [{ authorization: 'Bearer abcdef123' }, 'key abcdef123'],
    [{ authorization: `Basic ${Buffer.from('annette:topsecret').toString('base64')}` }, 'user annette'],
    [{ cookie: 'a=1; session=abcdef123' }, 'abcdef123'],
    [{ 'x-api-key': 'abcdef123' }, '"abcdef123"']
  ] as const) {
    t.match(find(text, headers), [{ what: 'a header of the request', text: /^...…$/ }], text)
  }
  t.strictSame(find('application', { accept: 'application', 'user-agent': 'application' }), [])
})

t.test('hashes that anybody can make are found, whole, shortened, as bytes and as text', async t => {
  const digest = (algorithm: string, text: string): Buffer => createHash(algorithm).update(text).digest()
  for (const [bytes, what] of [
    [digest('sha256', '127.0.0.1').toString('hex'), 'sha256'],
    [digest('sha256', '::1').toString('hex').slice(0, 12).toUpperCase(), 'sha256'],
    [digest('sha1', 'abcdef123'), 'sha1'],
    [digest('md5', 'abcdef123').subarray(0, 6), 'md5'],
    [digest('sha512', '::ffff:127.0.0.1').toString('base64'), 'sha512']
  ] as const) {
    t.match(find(bytes, { 'x-api-key': 'abcdef123' }), [
      { what: `an identifier as ${what} without a secret` }
    ])
  }
  t.strictSame(find(digest('sha256', 'abcdef123 and a secret'), { 'x-api-key': 'abcdef123' }), [])
  t.strictSame(find(digest('sha256', '127.0.0.1').subarray(0, 4)), [], 'four bytes may be anything')
})
