import { EventEmitter } from 'node:events'
import { Socket } from 'node:net'
import { mock } from 'node:test'
import type { FastifyReply, FastifyRequest } from 'fastify'
import t from 'tap'
import { linger } from '../src/lingering.js'

/** A request that is answered before its body has come; the calls of its connection are written down. */
function answer(socket: Socket | EventEmitter): {
  readonly calls: string[]
  readonly response: EventEmitter
} {
  const calls: string[] = []
  if (socket instanceof Socket) {
    socket.end = () => (calls.push('end'), socket)
    socket.destroy = () => (calls.push('destroy'), socket)
  }
  const response = new EventEmitter()
  const request = { raw: { httpVersionMajor: 1, socket } } as unknown as FastifyRequest
  const header = (name: string, value: string): void => void calls.push(`${name}: ${value}`)
  linger(request, { header, raw: response } as unknown as FastifyReply)
  return { calls, response }
}

t.test('our direction is closed after the response, and theirs five seconds later', t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const socket = new Socket()
  const { calls, response } = answer(socket)
  t.strictSame(calls, ['connection: close'])
  socket.destroySoon()
  t.strictSame(calls, ['connection: close'], 'not when Node.js would close both')
  response.emit('close')
  t.strictSame(calls, ['connection: close', 'end'])
  mock.timers.tick(4999)
  t.strictSame(calls, ['connection: close', 'end'])
  mock.timers.tick(1)
  t.strictSame(calls, ['connection: close', 'end', 'destroy'])
  t.end()
})

t.test('a client that closes its direction is waited for no longer', t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const socket = new Socket()
  const { calls, response } = answer(socket)
  response.emit('close')
  socket.emit('close')
  mock.timers.tick(10_000)
  t.strictSame(calls, ['connection: close', 'end'])
  t.end()
})

t.test('an injected request has no connection to end', t => {
  const { calls, response } = answer(new EventEmitter())
  response.emit('close')
  t.strictSame(calls, ['connection: close'])
  t.end()
})

t.test('in HTTP/2 the stream ends when the response is written', t => {
  let closed = 0
  const stream = Object.assign(new EventEmitter(), { close: () => closed++ })
  const request = { raw: { httpVersionMajor: 2, stream } } as unknown as FastifyRequest
  linger(request, {} as FastifyReply)
  t.equal(closed, 0)
  stream.emit('finish')
  t.equal(closed, 1)
  t.end()
})
