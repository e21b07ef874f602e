import t from 'tap'
import { start } from '../fixtures/wire.js'

const policies = { burst: '1/10s', mails: { quota: 1, window: '1m', default: false } } as const

t.test(
  'sdkHints tells SDKs not to retry a refusal by rules of their own, and nothing on what is served',
  async t => {
    const { app } = await start(t, { policies, sdkHints: true })
    t.equal((await app.inject('/')).headers['x-should-retry'], undefined)
    const { statusCode, headers } = await app.inject('/')
    t.equal(statusCode, 429)
    t.equal(headers['x-should-retry'], 'false')
    t.equal(headers['retry-after'], '10')
  }
)

t.test('a refusal that code has asked for has the hint too, and one with 503', async t => {
  const { app } = await start(
    t,
    {
      policies: { ...policies, busy: { quota: 0, window: '1m', status: 503, default: false } },
      sdkHints: true
    },
    {
      routes: app => {
        app.get('/mails', async (request, reply) =>
          reply.refuse(await app.quota.consume(request, { mails: 2 }))
        )
        app.get('/busy', { config: { quota: ['busy'] } }, async () => 'unreached')
      }
    }
  )
  for (const [url, status] of [
    ['/mails', 429],
    ['/busy', 503]
  ] as const) {
    const { statusCode, headers } = await app.inject(url)
    t.equal(statusCode, status)
    t.equal(headers['x-should-retry'], 'false')
  }
})

t.test('without sdkHints there is no hint, and an error of the app has none', async t => {
  for (const sdkHints of [false, undefined]) {
    const { app } = await start(t, { policies, sdkHints })
    for (const status of [200, 429]) {
      const { statusCode, headers } = await app.inject('/')
      t.equal(statusCode, status)
      t.equal(headers['x-should-retry'], undefined)
    }
  }
  const { app } = await start(
    t,
    { policies, sdkHints: true },
    {
      routes: app =>
        app.get('/', async () => {
          throw Object.assign(new Error('upstream'), { statusCode: 429 })
        })
    }
  )
  t.equal((await app.inject('/')).headers['x-should-retry'], undefined)
})
