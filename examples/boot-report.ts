import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'

/** An app that tells in its log what it limits, and what is unwise about it. */
export async function build(logger: FastifyServerOptions['logger'] = true): Promise<FastifyInstance> {
  const app = Fastify({ logger }) as FastifyInstance

  await app.register(quota, {
    policies: {
      // A client may spend it in a second: boot advises a short window beside it.
      daily: { quota: 10_000, window: '1d', default: false },
      login: { quota: 5, window: '1m', default: false }
    }
  })

  app.get('/reports', { config: { quota: ['daily'] } }, () => [])
  app.post('/login', { config: { quota: ['login'] } }, () => ({ token: '…' }))
  app.get('/health', { config: { quota: false } }, () => 'ok')
  // Somebody forgot: boot names it.
  app.get('/items', () => ['hammer', 'nail'])

  return app
}

/** The routes that anybody may call as often as they like: let a test compare them with those that are meant to be. */
export function unlimited(app: FastifyInstance): readonly string[] {
  const { routes } = app.quota.routes()
  return routes.filter(({ policies }) => policies.length === 0).map(({ route }) => route)
}
