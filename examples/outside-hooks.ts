import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

/** Quota spent in a handler, asked for without spending, and given back by an operator. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(quota, {
    identify: { tenant: request => request.account?.tenant },
    policies: {
      default: '100/1m',
      mails: { quota: 10, window: '1h', unit: 'mails', partition: 'tenant', default: false }
    }
  })

  // Only the handler knows how many mails there will be.
  app.post<{ Body: readonly string[] }>('/invitations', async (request, reply) => {
    const decision = await app.quota.consume(request, { mails: request.body.length })
    if (decision.outcome === 'refused') return reply.refuse(decision)
    return { invited: request.body.length }
  })

  // What is left. It costs nothing.
  app.get('/mails', async (request, reply) => {
    const { limits } = await app.quota.peek(request, ['mails'])
    return reply.send(limits.map(limit => ({ policy: limit.policy.name, left: limit.remaining })))
  })

  // Forgets what a tenant has spent. A subject can be written by hand: no request of the tenant's is needed.
  app.delete<{ Params: { tenant: string } }>('/mails/:tenant', async (request, reply) => {
    await app.quota.reset({ tenant: request.params.tenant }, ['mails'])
    return reply.code(204).send()
  })

  // What was decided about this request, and which policies each route has.
  app.get('/', request => ({ outcome: request.quota.outcome, ...app.quota.routes() }))

  return app
}
