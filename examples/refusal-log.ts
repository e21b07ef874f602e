import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'

/** An app whose log has a line for the first refusal of each policy, and then at most one in ten seconds. */
export async function build(logger: FastifyServerOptions['logger'] = true): Promise<FastifyInstance> {
  const app = Fastify({ logger }) as FastifyInstance

  await app.register(quota, {
    policies: {
      default: { quota: 3, window: '1m' },
      rows: { quota: 100, window: '1m', unit: 'rows', cost: 60, default: false }
    },
    logRefusals: '10s'
  })

  app.get('/', () => ({ hello: 'world' }))
  app.get('/rows', { config: { quota: ['rows'] } }, () => [])

  return app
}
