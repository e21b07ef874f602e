import { setTimeout as sleep } from 'node:timers/promises'
import { fastifySSE } from '@fastify/sse'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Prices as they change, with `@fastify/sse`: two streams at a time for each client. */
export async function build(pace: number = 1000): Promise<FastifyInstance> {
  const app = Fastify({ forceCloseConnections: true })

  await app.register(fastifySSE)
  await app.register(quota, {
    policies: {
      // How often streams may be opened.
      default: { quota: 30, window: '1m' },
      // How many may be open at a time.
      streams: { quota: 2, algorithm: 'concurrency', maxHold: '1h', default: false }
    }
  })

  app.get('/prices', { sse: 'only', config: { quota: { also: ['streams'] } } }, async (_request, reply) => {
    for (let id = 1; reply.sse.isConnected; id++) {
      await reply.sse.send({ id: String(id), event: 'price', data: { cents: 100 + (id % 7) } })
      await sleep(pace)
    }
  })

  return app
}
