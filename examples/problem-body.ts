import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Refuses in the words of the API, and counts refusals. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  const refusals = new Map<string, number>()

  await app.register(quota, {
    policies: { default: { quota: 2, window: '1m' } },
    problem: (decision, request) => ({
      type: 'https://api.example.com/problems/slow-down',
      title: 'Slow down, please',
      status: 429,
      instance: request.url,
      policies: decision.limits.filter(limit => !limit.allowed).map(limit => limit.policy.name)
    }),
    onRefused: (_decision, request) => {
      const route = request.routeOptions.url ?? 'none'
      refusals.set(route, (refusals.get(route) ?? 0) + 1)
    }
  })

  app.get('/', () => ({ hello: 'world' }))
  app.get('/refusals', { config: { quota: false } }, () => Object.fromEntries(refusals))

  return app
}
