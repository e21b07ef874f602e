import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** An API whose routes admit 100 requests from each address in any minute. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(quota, { policies: { default: '100/1m' } })

  app.get('/', () => ({ hello: 'world' }))

  return app
}

/** Serves it. */
export async function serve(app: FastifyInstance): Promise<void> {
  await app.listen({ port: 3000 })
}
