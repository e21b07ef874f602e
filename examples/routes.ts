import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { RouteQuota } from 'fastify-quota'

/** Routes with the default policies, with none, with their own, with more, and with costs. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      burst: { quota: 20, window: '10s' },
      daily: { quota: 10_000, window: '1d' },
      login: { quota: 5, window: '1m', default: false },
      heavy: { quota: 50, window: '1h', default: false }
    }
  })

  // burst and daily
  app.get('/items', () => ['hammer', 'nail'])

  // none
  app.get('/health', { config: { quota: false } }, () => 'ok')

  // login instead of the defaults
  app.post('/login', { config: { quota: ['login'] } }, () => ({ token: '…' }))

  // burst, daily and heavy; each request costs 5 of each
  app.get('/export', { config: { quota: { also: ['heavy'], cost: 5 } } }, () => 'id,name\n')

  // heavy alone; the cost is read from the request
  app.get<{ Querystring: { years?: string } }>(
    '/report',
    {
      config: {
        quota: {
          policies: ['heavy'],
          cost: { heavy: request => 10 * Number((request.query as { years?: string }).years ?? 1) }
        }
      }
    },
    () => ({ report: '…' })
  )

  // a policy written in place; `satisfies` finds the mistakes that TypeScript does not look for in `config`
  const search = {
    also: [{ name: 'search', quota: 2, window: '5s' }]
  } satisfies RouteQuota
  app.get('/search', { config: { quota: search } }, () => [])

  return app
}
