import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Sends `X-RateLimit-*` beside the fields of the draft, for clients that read nothing else. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: { burst: '10/10s', daily: '1000/1d' },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
