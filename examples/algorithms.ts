import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** The same quota, counted three ways. `clock` is for tests, which need not wait. */
export async function build(clock: () => number = Date.now): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    clock,
    policies: {
      sliding: { quota: 10, window: '1m', default: false },
      fixed: { quota: 10, window: '1m', algorithm: 'fixed-window', align: true, default: false },
      bucket: { quota: 10, window: '1m', algorithm: 'token-bucket', burst: 10, default: false }
    }
  })

  app.get('/sliding', { config: { quota: ['sliding'] } }, () => 'served')
  app.get('/fixed', { config: { quota: ['fixed'] } }, () => 'served')
  app.get('/bucket', { config: { quota: ['bucket'] } }, () => 'served')

  return app
}
