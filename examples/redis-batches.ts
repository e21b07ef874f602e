import redis from '@fastify/redis'
import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** An API with one quota that is spent all the time: most of its requests do not ask Redis. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const port = Number(process.env['REDIS_PORT'] || 6379)
  await app.register(redis, { host: '127.0.0.1', port })

  await app.register(quota, {
    policies: {
      events: { quota: 1_000_000, window: '1m', partition: 'global', batch: { max: 100 } }
    },
    store: redisStore(app.redis, { onFailure: 'open', instances: 4, secret: process.env['QUOTA_SECRET'] })
  })

  app.post('/events', (_request, reply) => reply.code(202).send())

  return app
}
