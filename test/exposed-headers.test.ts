import t from 'tap'
import { exposedHeaders } from '../src/index.js'
import { start } from './fixtures/wire.js'

t.test('every field the plugin adds to a response is among them, and no other', async t => {
  const { app } = await start(t, {
    policies: { burst: '1/10s' },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })
  await app.inject('/')
  const { headers } = await app.inject('/')
  const ours = Object.keys(headers).filter(name => /ratelimit|retry/.test(name))
  t.strictSame(ours.sort(), exposedHeaders.map(name => name.toLowerCase()).sort())
})

t.test('they are names that Access-Control-Expose-Headers can carry', async t => {
  for (const name of exposedHeaders) t.match(name, /^[A-Za-z-]+$/)
  t.equal(new Set(exposedHeaders).size, exposedHeaders.length)
})
