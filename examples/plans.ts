import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

const QUOTAS = { visitor: 2, free: 3, pro: 100 } as const

/** One policy whose quota depends on who asks. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  // Stands for your database.
  const plans = new Map<string | undefined, keyof typeof QUOTAS>([
    ['ann', 'free'],
    ['ben', 'pro']
  ])

  await app.register(quota, {
    identify: { user: request => request.account?.id },
    policies: {
      hourly: {
        quota: request => QUOTAS[plans.get(request.account?.id) ?? 'visitor'],
        window: '1h',
        partition: firstOf('user', 'ip')
      }
    }
  })

  app.get('/', request => ({ plan: plans.get(request.account?.id) ?? 'visitor' }))

  // What was spent stays spent: of the new quota, so much less is left.
  app.post('/upgrade', { config: { quota: false } }, request => {
    plans.set(request.account?.id, 'pro')
    return { plan: 'pro' }
  })

  return app
}
