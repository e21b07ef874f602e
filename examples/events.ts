import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

/** News for whoever listens. */
export const news: EventEmitter<{ item: [text: string] }> = new EventEmitter()
news.setMaxListeners(0)

/** Streams of events for browsers: `new EventSource('/events')`. Each takes a place until it has ended or its client has left. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify({ forceCloseConnections: true })
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(quota, {
    identify: { user: request => request.account?.id },
    policies: {
      // How often streams may be opened: browsers open them again by themselves.
      default: { quota: 30, window: '1m' },
      // How many may be open at a time; the oldest is ended when it is an hour old.
      streams: {
        quota: 2,
        algorithm: 'concurrency',
        maxHold: '1h',
        partition: firstOf('user', 'ip'),
        default: false
      }
    }
  })

  app.get('/events', { config: { quota: { also: ['streams'] } } }, (request, reply) => {
    let last = Number(request.headers['last-event-id'] ?? 0)
    const stream = new PassThrough()
    const tell = (text: string): void => void stream.write(`id: ${++last}\ndata: ${text}\n\n`)
    news.on('item', tell)
    stream.once('close', () => news.off('item', tell))
    // How long a browser waits before it opens the stream again, in milliseconds.
    stream.write('retry: 5000\n\n')
    return reply.header('content-type', 'text/event-stream').header('cache-control', 'no-store').send(stream)
  })

  return app
}
