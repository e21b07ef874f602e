import t from 'tap'
import { exposedHeaders } from '../src/index.js'
import type { QuotaOptions } from '../src/index.js'
import { start } from './fixtures/wire.js'

const forms: readonly Omit<QuotaOptions, 'policies'>[] = [
  { legacy: { style: 'x-ratelimit', reset: 'delta' }, sdkHints: true },
  { legacy: 'draft-6', partitionKey: 'hash' },
  { legacy: 'draft-7', fields: false },
  { legacy: 'llm' }
]

t.test('every field the plugin adds to a response is among them, and no other', async t => {
  const ours = new Set<string>()
  for (const form of forms) {
    const { app } = await start(t, {
      ...form,
      policies: { burst: '1/10s', tokens: { quota: 1, window: '10s', unit: 'tokens' } }
    })
    await app.inject('/')
    const { headers } = await app.inject('/')
    for (const name of Object.keys(headers)) if (/ratelimit|retry/.test(name)) ours.add(name)
  }
  t.strictSame([...ours].sort(), exposedHeaders.map(name => name.toLowerCase()).sort())
})

t.test('they are names that Access-Control-Expose-Headers can carry', async t => {
  for (const name of exposedHeaders) t.match(name, /^[A-Za-z-]+$/)
  t.equal(new Set(exposedHeaders).size, exposedHeaders.length)
})
