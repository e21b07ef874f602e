import redis from '@fastify/redis'
import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/**
 * An API whose quotas hold for all its processes together. Its environment has `QUOTA_SECRET`, the same for all of them,
 * and `REDIS_PORT`, if that is not 6379.
 */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const port = Number(process.env['REDIS_PORT'] || 6379)

  await app.register(redis, { host: '127.0.0.1', port })
  await app.register(quota, {
    policies: { default: '100/1m' },
    store: redisStore(app.redis, { onFailure: 'local', instances: 2, secret: process.env['QUOTA_SECRET'] })
  })

  // The errors of the client that the app shares with others: without a listener, ioredis prints them.
  app.redis.on('error', ({ message }: Error) => app.log.warn(message))

  app.get('/', () => ({ hello: 'world' }))

  return app
}

/** Serves it. */
export async function serve(app: FastifyInstance): Promise<void> {
  await app.listen({ port: 3000 })
}
