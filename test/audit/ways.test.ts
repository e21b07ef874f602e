import t from 'tap'
import { MAPPED, UNMAPPED, WAYS } from '../../src/audit/ways.js'
import type { Outgoing } from '../../src/audit/world.js'
import { USUAL } from './kit.js'

function way(name: string, usual: Partial<Outgoing>, index = 0): Outgoing | undefined {
  return WAYS.find(way => way.name === name)!.request({ ...USUAL, ...usual }, index)
}

t.test('paths are spelled otherwise, and nothing else of the request changes', async t => {
  const spelled: readonly (readonly [string, string, string | undefined])[] = [
    ['slash', '/items', '/items/'],
    ['slash', '/items/?a=B', '/items?a=B'],
    ['slash', '/', undefined],
    ['case', '/Items/%2fx?a=B', '/iTEMS/%2fX?a=B'],
    ['case', '/42', undefined],
    ['encoded', '/v1/items?a=B', '/v1/item%73?a=B'],
    ['encoded', '/a%2F', '/%61%2F'],
    ['encoded', '/42?a', undefined]
  ]
  for (const [name, path, expected] of spelled) {
    t.strictSame(way(name, { path }), expected && { ...USUAL, path: expected }, `${name} ${path}`)
  }
})

t.test('HEAD stands for GET alone', async t => {
  t.match(way('head', {}), { method: 'HEAD', path: '/items' })
  t.equal(way('head', { method: 'POST' }), undefined)
})

t.test('forwarded addresses differ from request to request, and a mapped one means the same', async t => {
  const addresses = [0, 1, 253].map(index => way('forwarded', {}, index)?.headers['x-forwarded-for'])
  t.strictSame(addresses, ['198.51.100.1', '198.51.100.2', '198.51.100.254'])
  t.strictSame(UNMAPPED.request(USUAL, 0)?.headers, { accept: '*/*', 'x-forwarded-for': '203.0.113.9' })
  t.strictSame(MAPPED.request(USUAL, 0)?.headers, {
    accept: '*/*',
    'x-forwarded-for': '::ffff:203.0.113.9'
  })
})
