import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import { Redis } from 'ioredis'
import type { FastifyInstance } from 'fastify'

/** An API that starts, serves and ends without Redis, and counts there as soon as it is up. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const port = Number(process.env['REDIS_PORT'] || 6379)

  // It is never connected itself: it says where the store has to connect to.
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true })
  await app.register(quota, {
    policies: { default: '100/1m' },
    store: redisStore(client, { onFailure: 'local', instances: 2, secret: process.env['QUOTA_SECRET'] })
  })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
