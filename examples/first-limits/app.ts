import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** A small API with limits that are short enough to watch. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    // For this demonstration only: anybody can send any header. Take what your authentication has verified.
    identify: { user: request => request.headers['x-user']?.toString() },
    policies: {
      burst: { quota: 10, window: '3s' },
      daily: { quota: 1000, window: '1d', partition: firstOf('user', 'ip') },
      login: { quota: 3, window: '4s', default: false },
      profile: { quota: 3, window: '2s', partition: 'user', default: false }
    }
  })

  // The policies that are not `default: false`: burst and daily.
  app.get('/items', () => [{ id: 1 }, { id: 2 }])

  // None.
  app.get('/health', { config: { quota: false } }, () => ({ status: 'ok' }))

  // Its own instead of the defaults. What is refused by the handler counts too: that is the point.
  app.post('/login', { config: { quota: ['login'] } }, (_request, reply) =>
    reply.code(401).send({ error: 'wrong password' })
  )

  // Burst and daily, and five units of each.
  app.get('/export', { config: { quota: { cost: 5 } } }, () => ({ rows: 50_000 }))

  // Each user has a quota of their own.
  app.get('/me', { config: { quota: ['profile'] } }, request => ({ user: request.headers['x-user'] }))

  return app
}
