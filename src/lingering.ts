import type { ServerHttp2Stream } from 'node:http2'
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** How long the rest of a body may go on arriving after its request was answered, in milliseconds. */
const LINGER = 5000

/**
 * Ends the connection after the response to a request whose body is not wanted any more, in stages (RFC 9112 §9.6): our
 * direction first. Node.js would close both as soon as the response is written; what still arrives is then answered with a
 * reset, and most clients that are busy sending lose the response. What still arrives has to be read by the caller.
 *
 * In HTTP/2 only the stream ends (RFC 9113 §8.1).
 */
export function linger({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.httpVersionMajor > 1) {
    const { stream } = raw as unknown as { readonly stream: ServerHttp2Stream }
    stream.once('finish', () => stream.close())
    return
  }
  reply.header('connection', 'close')
  const { socket } = raw
  if (!(socket instanceof Socket)) return // an injected request has none
  socket.destroySoon = () => {} // what Node.js calls when the response is written
  reply.raw.once('close', () => {
    socket.end()
    const timer = setTimeout(() => socket.destroy(), LINGER).unref()
    socket.once('close', () => clearTimeout(timer))
  })
}
