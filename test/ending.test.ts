import { EventEmitter } from 'node:events'
import type { FastifyReply, FastifyRequest } from 'fastify'
import t from 'tap'
import { Ending } from '../src/ending.js'

class Raw extends EventEmitter {
  destroyed = false

  close(): void {
    this.destroyed = true
    this.emit('close')
  }
}

/** A request on a connection, and how often its end was told. */
function begin(connection: Raw = new Raw()): {
  readonly connection: Raw
  readonly response: Raw
  readonly ending: Ending
  readonly told: () => number
} {
  const response = new Raw()
  const request = { raw: { socket: connection } } as unknown as FastifyRequest
  const ending = new Ending(request, { raw: response } as unknown as FastifyReply)
  let told = 0
  ending.await(() => told++)
  return { connection, response, ending, told: () => told }
}

t.test(
  'the end is that of the response, or that of the connection, whichever comes first, and told once',
  t => {
    for (const order of [
      ['response', 'connection'],
      ['connection', 'response']
    ] as const) {
      const request = begin()
      t.equal(request.ending.over, false)
      for (const end of order) {
        request[end].close()
        t.equal(request.ending.over, true)
        t.equal(request.told(), 1)
      }
      request.ending.check()
      t.equal(request.told(), 1)
    }
    t.end()
  }
)

t.test('everybody who waits is told, in the order they came; who comes later is told at once', t => {
  const { ending, response } = begin()
  const told: string[] = []
  ending.await(() => told.push('first'))
  ending.await(() => told.push('second'))
  response.close()
  ending.await(() => told.push('late'))
  t.strictSame(told, ['first', 'second', 'late'])
  t.end()
})

t.test('an end that came before anybody listened is seen', t => {
  for (const missed of ['response', 'connection'] as const) {
    const { ending, told, ...request } = begin()
    request[missed].destroyed = true
    t.equal(ending.over, true)
    let late = 0
    ending.await(() => late++)
    t.equal(late, 1, 'who asks is told')
    t.equal(told(), 0)
    ending.check()
    t.equal(told(), 1, 'who waits is told when somebody looks')
    t.equal(late, 1)
  }
  t.end()
})

t.test('looking ends nothing that goes on', t => {
  const { ending, told, response } = begin()
  ending.check()
  t.equal(told(), 0)
  response.close()
  t.equal(told(), 1)
  t.end()
})

t.test('the requests of a connection share one listener, and each has an end of its own', t => {
  const connection = new Raw()
  const requests = Array.from({ length: 30 }, () => begin(connection))
  t.equal(connection.listenerCount('close'), 1)
  requests[3]!.response.close()
  t.strictSame(
    requests.flatMap(({ told }, i) => (told() > 0 ? [i] : [])),
    [3]
  )
  connection.close()
  t.ok(requests.every(({ told }) => told() === 1))
  const other = begin()
  other.connection.close()
  t.equal(other.told(), 1)
  t.end()
})
