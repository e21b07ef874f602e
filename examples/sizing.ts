import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** A service that bears 400 requests a second, and a page of which sends 25 when it is loaded. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      // Three quarters of what the service bears, of all clients together. It is nobody's fault: 503.
      service: { quota: 300, window: '1s', partition: 'global', status: 503 },
      // Two page loads at once, for each client.
      page: { quota: 50, window: '10s' },
      // What a busy client does in an hour, and half as much again.
      hourly: { quota: 3000, window: '1h' }
    }
  })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
