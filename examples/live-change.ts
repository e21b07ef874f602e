import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, RouteShorthandOptions } from 'fastify'

interface Change {
  readonly Params: { readonly policy: string }
  readonly Body: { readonly quota: number }
}

/** An API whose operators change its quotas while it serves. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      burst: { quota: 3, window: '10s' },
      hourly: { quota: 100, window: '1h' }
    }
  })

  app.get('/', () => ({ hello: 'world' }))

  // Only for operators: here, for those who come from this machine.
  const operators: RouteShorthandOptions = {
    config: { quota: false },
    onRequest: async (request, reply) => {
      if (request.ip !== '127.0.0.1') return reply.code(403).send()
    }
  }

  app.put<Change>('/quotas/:policy', operators, (request, reply) => {
    const { policy } = request.params
    try {
      return app.quota.update({ policies: { [policy]: { quota: request.body.quota } } })
    } catch (error) {
      // Nothing has changed.
      return reply.code(400).send({ error: (error as Error).message })
    }
  })

  return app
}
