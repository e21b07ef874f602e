import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import { Redis } from 'ioredis'
import type { FastifyInstance } from 'fastify'

/** An API with a policy for each way of doing without Redis. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const client = new Redis({ port: Number(process.env['REDIS_PORT'] || 6379), lazyConnect: true })

  await app.register(quota, {
    policies: {
      // Each process counts by itself, as the store says below.
      default: { quota: 100, window: '1m' },
      // Rather nobody logs in than somebody who guesses passwords.
      login: { quota: 5, window: '1m', onStoreFailure: 'closed', default: false },
      // Rather some searches too many than none.
      search: { quota: 20, window: '1m', onStoreFailure: 'open', default: false }
    },
    store: redisStore(client, {
      onFailure: 'local',
      instances: 2,
      // Long enough for a computer that is busy with other things, too.
      deadline: '2s',
      secret: process.env['QUOTA_SECRET']
    })
  })

  app.get('/', () => ({ hello: 'world' }))
  app.get('/search', { config: { quota: ['search'] } }, () => [])
  app.post('/login', { config: { quota: ['login'] } }, (_request, reply) =>
    reply.code(401).send({ error: 'wrong password' })
  )

  return app
}
