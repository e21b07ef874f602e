import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Paces the calls to something that takes ten a second: what comes faster waits up to a second, then it is refused. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      printer: {
        quota: 10,
        window: '1s',
        algorithm: 'leaky-bucket',
        maxDelay: '1s',
        partition: 'global',
        status: 503
      }
    }
  })

  app.post('/print', () => ({ printedAt: Date.now() }))

  return app
}
