import Fastify from 'fastify'
import t from 'tap'
import quota from '../../src/index.js'
import { fromFastifyRateLimit } from '../../src/migrate.js'
import { bare } from '../plugin/kit.js'
import { CommonTime, opened } from './kit.js'

t.test('what errorResponseBuilder does wrong is logged, and the body is the plugin’s own', async t => {
  const { app, errors } = bare(t)
  await app.register(
    quota,
    fromFastifyRateLimit({
      max: 1,
      errorResponseBuilder: () => {
        throw new Error('no words')
      }
    })
  )
  app.get('/', async () => 'served')
  await app.inject('/')
  t.match((await app.inject('/')).json(), {
    statusCode: 429,
    error: 'Too Many Requests',
    message: /60 seconds/
  })
  t.match(errors, [{ option: 'errorResponseBuilder', err: { message: 'no words' } }])
})

t.test('a status that is no refusal is 429', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { max: 0 },
    routes: Object.fromEntries(
      [200, 600, 429.5, 'busy'].map(statusCode => [
        `/${statusCode}`,
        { errorResponseBuilder: () => ({ statusCode }) }
      ])
    )
  })
  for (const url of ['/200', '/600', '/429.5', '/busy']) t.equal((await app.inject(url)).statusCode, 429, url)
})

t.test('of several policies that refuse, the longest wait is told', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, {
    ...fromFastifyRateLimit({
      global: false,
      errorResponseBuilder: (_request, { max, ttl, after }) => ({ statusCode: 429, max, ttl, after })
    }),
    clock: () => 0
  })
  const policies = [
    { name: 'short', quota: 1, window: '10s' },
    { name: 'long', quota: 1, window: '1h' }
  ] as const
  app.get('/', { config: { quota: policies } }, async () => 'served')
  await app.inject('/')
  t.strictSame((await app.inject('/')).json(), { statusCode: 429, max: 1, ttl: 3_600_000, after: '1 hour' })
})

t.test('fields that are left out are left to others, where nothing was decided', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { max: 5, addHeadersOnExceeding: { 'x-ratelimit-limit': false } },
    after: app => {
      const config = { rateLimit: false } as const
      app.get('/relayed', { config }, async (_request, reply) =>
        reply.header('x-ratelimit-limit', 9).send('relayed')
      )
    }
  })
  t.equal((await app.inject('/relayed')).headers['x-ratelimit-limit'], '9')
  t.equal((await app.inject('/')).headers['x-ratelimit-limit'], undefined)
})

t.test('a refusal by hand has the same body', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { max: 1, errorResponseBuilder: () => ({ statusCode: 429, slow: 'down' }) },
    after: app => {
      app.get('/hand', async (request, reply) => {
        const decision = await app.quota.consume(request, { default: 1 })
        return decision.outcome === 'refused' ? reply.refuse(decision) : 'served'
      })
    }
  })
  t.equal((await app.inject('/hand')).payload, '{"statusCode":429,"slow":"down"}')
})
