import { Readable } from 'node:stream'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Rows of a database: nobody knows how many there will be before they are read. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    policies: { rows: { quota: 1000, window: '1h', unit: 'rows', default: false } }
  })

  // Reserve the most it can be, settle what it was.
  app.get<{ Params: { name: string } }>('/search/:name', async (request, reply) => {
    const reservation = await request.quota.reserve('rows', 500)
    if (reservation.outcome === 'refused') return reply.refuse(reservation)
    const rows = select(request.params.name)
    await reservation.settle(rows.length)
    return rows
  })

  // Pay as you go: the first row when the request is decided, all others as they are sent, until none are left.
  app.get('/all', { config: { quota: ['rows'] } }, (request, reply) =>
    reply.header('content-type', 'application/x-ndjson').send(Readable.from(all(request)))
  )

  return app
}

async function* all(request: FastifyRequest): AsyncGenerator<string> {
  yield `${JSON.stringify({ row: 1 })}\n`
  for (let row = 2; request.quota.limits[0]!.remaining > 0; row++) {
    await request.quota.spend('rows', 1)
    yield `${JSON.stringify({ row })}\n`
  }
}

/** Stands for your database: as many rows as the name has letters. */
function select(name: string): readonly string[] {
  return name.split('')
}
