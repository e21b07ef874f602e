import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { QuotaOptions } from 'fastify-quota'

/** An API that its tests can take through time: they hand it a clock, everybody else leaves it out. */
export async function build(options: Pick<QuotaOptions, 'clock'> = {}): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, { ...options, policies: { default: { quota: 2, window: '1h' } } })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
