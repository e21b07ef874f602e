import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Adds a policy to the routes of one part of an API. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(quota, { policies: { default: '100/1m' } })

  app.get('/', () => 'default')

  await app.register(
    async admin => {
      await admin.register(quota, { policies: { admin: { quota: 2, window: '1m' } } })
      admin.get('/users', () => 'default and admin')
    },
    { prefix: '/admin' }
  )

  return app
}
