import Fastify from 'fastify'
import t from 'tap'
import { serve } from '../../src/audit/serve.js'

t.test('an app is served on a free port, and goes on when that is closed', async t => {
  const app = Fastify()
  app.get('/', () => 'served')
  await app.ready()
  const served = await serve(app)
  const response = await fetch(served.origin)
  t.equal(await response.text(), 'served')
  await served.close()
  await t.rejects(fetch(served.origin))
  t.equal((await app.inject('/')).payload, 'served')
})
