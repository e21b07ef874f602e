import { on } from 'node:events'
import websocket from '@fastify/websocket'
import type { WebSocket } from '@fastify/websocket'
import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Decision, QuotaOptions } from 'fastify-quota'
import { authenticate } from './accounts.js'

/** Sockets that take a place each while they are open, and whose messages cost by their length. */
export async function build(options: Pick<QuotaOptions, 'clock'> = {}): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(websocket, { options: { maxPayload: 64 * 1024 } })
  await app.register(quota, {
    ...options,
    identify: { user: request => request.account?.id },
    policies: {
      // How often somebody may knock: a refused handshake is a 429 like any other.
      default: { quota: 20, window: '1m' },
      // Two sockets at a time for each user.
      sockets: { quota: 2, algorithm: 'concurrency', partition: firstOf('user', 'ip'), default: false },
      // What is said on them, all sockets of a user together.
      messages: {
        quota: 10,
        window: '10s',
        unit: 'messages',
        partition: firstOf('user', 'ip'),
        default: false
      }
    }
  })

  app.get('/chat', { websocket: true, config: { quota: { also: ['sockets'] } } }, (socket, request) => {
    void converse(socket, request)
  })

  async function converse(socket: WebSocket, request: FastifyRequest): Promise<void> {
    // One message after the other. The socket is paused while many wait.
    const messages = on(socket, 'message', { close: ['close'], highWaterMark: 10, lowWaterMark: 5 })
    let refused = 0
    try {
      for await (const [message] of messages as AsyncIterable<[Buffer]>) {
        const decision = await app.quota.consume(request, { messages: costOf(message) })
        if (decision.outcome === 'allowed') {
          socket.send(message.toString())
          continue
        }
        // Told once how long to wait, then a few times more; then it is enough.
        if (++refused > 3) return socket.close(1008, 'too many messages')
        socket.send(JSON.stringify({ refused: 'messages', retryAfter: secondsOf(decision) }))
      }
    } catch (error) {
      // What a client sends may be no message. Its socket is closed then.
      request.log.info(error)
    }
  }

  return app
}

/** A message, and one more for each kilobyte. */
const costOf = (message: Buffer): number => 1 + Math.floor(message.length / 1000)

/** The seconds after which the same message is admitted; `undefined`: it never is, or nobody knows. */
function secondsOf({ limits, retryAfter }: Decision): number | undefined {
  const wait = Math.max(retryAfter ?? 0, ...limits.map(limit => limit.retryAfter))
  return wait > 0 ? Math.ceil(wait / 1000) : undefined
}
