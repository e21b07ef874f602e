import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** A search that becomes cheaper for who asks much, before it is refused. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      default: { quota: 5, window: '1m' },
      // Refuses nobody: it tells the handler whose searches have been thorough often enough.
      thorough: { quota: 2, window: '1m', mode: 'shadow' }
    }
  })

  app.get('/search', request =>
    wouldRefuse(request, 'thorough')
      ? { results: ['hammer'], complete: false }
      : { results: ['hammer', 'jackhammer', 'sledgehammer'], complete: true }
  )

  return app
}

function wouldRefuse({ quota }: FastifyRequest, name: string): boolean {
  return quota.shadow.some(({ policy, wouldRefuse }) => policy === name && wouldRefuse)
}
