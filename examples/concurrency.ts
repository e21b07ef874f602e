import { Readable } from 'node:stream'
import { setTimeout as sleep, setInterval as ticks } from 'node:timers/promises'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { Duration, Reservation } from 'fastify-quota'

/** Streams of events that take a place each, and jobs that take one without a request. */
export async function build(maxHold: Duration = '10m', pace = 1000): Promise<FastifyInstance> {
  const app = Fastify({ forceCloseConnections: true })

  await app.register(quota, {
    policies: {
      // Two at a time for each address; after ten minutes a stream is ended and has to be opened again.
      streams: { quota: 2, algorithm: 'concurrency', maxHold, default: false },
      jobs: { quota: 1, algorithm: 'concurrency', partition: 'global', default: false }
    }
  })

  app.get('/events', { config: { quota: ['streams'] } }, (_request, reply) =>
    reply.header('content-type', 'text/event-stream').send(Readable.from(ticks(pace, 'data: tick\n\n')))
  )

  // The place is held, and renewed, until it is released. Should this process die, it is free again after `holdFor`.
  app.post('/rebuild', async (_request, reply) => {
    const place = await app.quota.reserve({}, 'jobs', 1)
    if (place.outcome === 'refused') return reply.refuse(place)
    void rebuild(pace, place)
    return reply.code(202).send({ rebuilding: true })
  })

  return app
}

/** Stands for work that takes its time. */
async function rebuild(pace: number, place: Reservation): Promise<void> {
  try {
    await sleep(pace)
  } finally {
    await place.release()
  }
}
