import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Failures of the server that are free, and a login that counts wrong passwords only. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: {
      default: { quota: 100, window: '1m', refund: (_request, reply) => reply.statusCode >= 500 },
      login: { quota: 3, window: '15m', default: false, refund: (_request, reply) => reply.statusCode < 400 }
    }
  })

  app.get('/', () => ({ hello: 'world' }))

  app.get('/broken', async () => {
    throw new Error('the database is away')
  })

  app.post<{ Body: { password: string } }>('/login', { config: { quota: ['login'] } }, (request, reply) =>
    request.body.password === 'correct horse'
      ? reply.send({ token: '…' })
      : reply.code(401).send({ error: 'wrong password' })
  )

  return app
}
