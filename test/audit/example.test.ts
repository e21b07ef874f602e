import t from 'tap'
import { build, measured, rehearsed } from '../../examples/audit.js'

t.test('policies can be compared on a clock that the audit moves', async t => {
  t.match(await rehearsed({ default: '10/1m' }), { promiseKept: true, worst: { mostInAnyWindow: 10 } })
  t.match(await rehearsed({ default: { quota: 10, window: '1m', algorithm: 'token-bucket' } }), {
    promiseKept: false,
    worst: { excess: 1.9 },
    limiter: { kind: 'bucket' }
  })
})

t.test('a server is measured in real time', async t => {
  const app = await build({ policies: { default: '5/2s' } })
  t.teardown(() => app.close())
  const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/items`
  const { promiseKept, attacks, promise } = await measured(url)
  t.ok(promiseKept)
  t.strictSame(
    attacks.map(({ name }) => name),
    ['drained', 'edge-burst']
  )
  t.match(promise, { quota: 5, window: 2, policy: 'default' })
})
