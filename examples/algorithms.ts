import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** The same quota, counted in six ways. `clock` is for tests, which need not wait. */
export async function build(clock: () => number = Date.now): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    clock,
    policies: {
      sliding: { quota: 10, window: '1m', default: false },
      log: { quota: 10, window: '1m', algorithm: 'sliding-window-log', default: false },
      counter: { quota: 10, window: '1m', algorithm: 'sliding-window-counter', default: false },
      fixed: { quota: 10, window: '1m', algorithm: 'fixed-window', align: true, default: false },
      token: { quota: 10, window: '1m', algorithm: 'token-bucket', burst: 10, default: false },
      leaky: { quota: 10, window: '1m', algorithm: 'leaky-bucket', burst: 10, default: false }
    }
  })

  for (const policy of ['sliding', 'log', 'counter', 'fixed', 'token', 'leaky']) {
    app.get(`/${policy}`, { config: { quota: [policy] } }, () => 'served')
  }

  return app
}
