import { setTimeout } from 'node:timers/promises'
import redis from '@fastify/redis'
import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { UpdateOptions } from 'fastify-quota'

const CHANNEL = 'quota-changes'

/** An API of several processes, whose operators change its quotas in all of them while they serve. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const port = Number(process.env['REDIS_PORT'] || 6379)

  await app.register(redis, { host: '127.0.0.1', port })
  await app.register(quota, {
    policies: { default: { quota: 100, window: '1m' } },
    store: redisStore(app.redis, { onFailure: 'local', instances: 2, secret: process.env['QUOTA_SECRET'] })
  })

  // A connection that listens does nothing else.
  const changes = app.redis.duplicate()
  for (const client of [app.redis, changes]) client.on('error', ({ message }: Error) => app.log.warn(message))
  changes.on('message', (_channel, text: string) => {
    try {
      app.quota.update(JSON.parse(text) as UpdateOptions)
    } catch (error) {
      // Such as a policy that this process does not have yet, while a new version is rolled out.
      app.log.error(error)
    }
  })
  await changes.subscribe(CHANNEL)
  app.addHook('onClose', async () => changes.disconnect())

  app.get('/', () => ({ hello: 'world' }))

  // Only for operators, in an app of yours.
  app.put<{ Body: UpdateOptions['policies'] }>(
    '/quotas',
    { config: { quota: false } },
    async (request, reply) => {
      const update: UpdateOptions = { policies: request.body }
      let changed
      try {
        changed = app.quota.update(update)
      } catch (error) {
        // What is wrong here is wrong everywhere: nobody hears of it.
        return reply.code(400).send({ error: (error as Error).message })
      }
      const told = app.redis.publish(CHANNEL, JSON.stringify(update)).then(() => true)
      if (await Promise.race([told.catch(() => false), setTimeout(1000, false, { ref: false })]))
        return changed
      return reply.code(503).send({ error: 'changed in this process only: Redis does not answer' })
    }
  )

  return app
}
