import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Counts clients behind a proxy, which is believed because of where it is. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify({ trustProxy: ['127.0.0.1', '10.0.0.0/8'] })

  await app.register(quota, { policies: { default: { quota: 1, window: '1m' } } })

  app.get('/', request => ({ you: request.ip }))

  return app
}
