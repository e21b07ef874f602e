import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Decision } from 'fastify-quota'

/** Counts all decisions of the process, and what a tighter quota would refuse, before anybody is refused by it. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  const counts = { allowed: 0, refused: 0, none: 0, wouldRefuse: 0 }

  await app.register(quota, {
    policies: {
      now: { quota: 5, window: '1m' },
      next: { quota: 2, window: '1m', mode: 'shadow' }
    }
  })

  function count(message: unknown): void {
    const { decision } = message as { decision: Decision; request?: FastifyRequest }
    counts[decision.outcome]++
    if (decision.shadow.some(({ wouldRefuse }) => wouldRefuse)) counts.wouldRefuse++
  }
  subscribe('fastify-quota:decision', count)
  app.addHook('onClose', async () => {
    unsubscribe('fastify-quota:decision', count)
  })

  app.get('/', () => ({ hello: 'world' }))
  app.get('/counts', { config: { quota: false } }, () => counts)

  // When nobody would be refused who should not be: only for operators, in an app of yours.
  app.post('/enforce', { config: { quota: false } }, () => {
    app.quota.update({ policies: { now: { mode: 'shadow' }, next: { mode: 'enforce' } } })
    return { enforced: 'next' }
  })

  return app
}
