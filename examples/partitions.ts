import Fastify from 'fastify'
import quota, { allOf, firstOf } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

/** Quotas for each address, user, tenant, user and route, and for everybody together. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(quota, {
    identify: {
      user: request => request.account?.id,
      tenant: request => request.account?.tenant
    },
    policies: {
      visitors: { quota: 3, window: '1m', partition: firstOf('user', 'ip') },
      tenant: { quota: 4, window: '1m', partition: 'tenant', default: false },
      each: { quota: 1, window: '1m', partition: allOf('user', 'route'), default: false },
      launch: { quota: 2, window: '1m', partition: 'global', default: false }
    }
  })

  app.get('/', request => ({ user: request.account?.id ?? 'nobody' }))
  app.get('/team', { config: { quota: ['tenant'] } }, request => ({ tenant: request.account?.tenant }))
  app.get('/a', { config: { quota: ['each'] } }, () => 'a')
  app.get('/b', { config: { quota: ['each'] } }, () => 'b')
  app.get('/launch', { config: { quota: ['launch'] } }, () => 'to the moon')

  return app
}
