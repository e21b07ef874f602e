import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Bytes of uploads, whether their length is announced or not. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify({ bodyLimit: 10_000_000 })

  await app.register(quota, {
    policies: {
      uploads: { quota: 1_000_000, window: '1h', unit: 'content-bytes', default: false }
    }
  })

  // The body as it arrives: nobody keeps it in memory.
  app.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload))

  app.post<{ Body: Readable }>('/uploads', { config: { quota: ['uploads'] } }, async (request, reply) => {
    const hash = createHash('sha256')
    for await (const chunk of request.body) hash.update(chunk as Buffer)
    return reply.send({ sha256: hash.digest('hex') })
  })

  return app
}
