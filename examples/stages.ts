import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

/** A limit that counts what authentication rejects, one that knows the user, and one that has read the body. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)

  await app.register(quota, {
    identify: { user: request => request.account?.id },
    policies: {
      // Before authentication: this plugin is registered before the hook below.
      attempts: { quota: 5, window: '1m', hook: 'onRequest', default: false },
      // After it and before the body, which is the default.
      user: { quota: 3, window: '1m', partition: 'user' },
      // After the body was read and validated.
      rows: {
        quota: 1000,
        window: '1h',
        unit: 'rows',
        partition: 'user',
        hook: 'preHandler',
        default: false,
        cost: request => (request.body as readonly unknown[]).length
      }
    }
  })

  app.addHook('onRequest', authenticate)
  app.addHook('onRequest', async (request, reply) => {
    if (request.account === null) return reply.code(401).send({ error: 'who are you?' })
  })

  app.get('/', request => ({ user: request.account?.id }))
  app.get('/vault', { config: { quota: ['attempts'] } }, () => 'gold')
  app.post('/rows', { config: { quota: { also: ['rows'], hook: 'preHandler' } } }, () => 'stored')

  return app
}
