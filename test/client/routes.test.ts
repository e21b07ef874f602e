import t from 'tap'
import { Gate } from '../../src/client/limits/gate.js'
import type { NamedLimit } from '../../src/client/named-limits.js'
import { Routes } from '../../src/client/routes.js'
import { exact } from './limits/kit.js'

const named = (policy: string): NamedLimit => ({ policy, limit: new Gate('unknown', exact) })

t.test('a route is unknown until a response has told of it', async t => {
  const routes = new Routes()
  t.equal(routes.get('a').known, false)
  routes.set('a', [])
  t.equal(routes.get('a').known, true)
  t.equal(routes.get('b').known, false)
})

t.test('what is told of a route in full replaces what was known, in part it is added', async t => {
  const routes = new Routes()
  const [burst, daily, other] = [named('burst'), named('daily'), named('other')]
  routes.set('a', [burst])
  routes.add('a', [daily])
  t.strictSame([...routes.get('a').limits], [burst, daily])
  routes.set('a', [other])
  t.strictSame([...routes.get('a').limits], [other])
})

t.test('another partition of a policy takes the place of the last', async t => {
  const routes = new Routes()
  const [mine, yours, daily] = [named('burst'), named('burst'), named('daily')]
  routes.add('a', [mine, daily])
  routes.add('a', [yours])
  t.equal([...routes.get('a').limits].includes(mine), false)
  t.equal(routes.get('a').limits.size, 2)
})

t.test('a thousand routes are remembered', async t => {
  const routes = new Routes()
  for (let i = 0; i <= 1000; i++) routes.set(`route ${i}`, [])
  t.equal(routes.get('route 0').known, false)
  t.equal(routes.get('route 1').known, true)
})
