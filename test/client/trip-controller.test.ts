import t from 'tap'
import type { DispatchController } from '../../src/client/dispatch.js'
import { TripController } from '../../src/client/trip-controller.js'

class Connection implements DispatchController {
  aborted = false
  paused = false
  reason: Error | null = null
  rawHeaders: unknown = 'headers'
  rawTrailers: unknown = 'trailers'

  abort(reason: Error): void {
    this.aborted = true
    this.reason = reason
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }
}

function made(): {
  readonly controller: TripController
  readonly left: Error[]
  readonly connection: Connection
} {
  const left: Error[] = []
  return { controller: new TripController(reason => left.push(reason)), left, connection: new Connection() }
}

const reason = new Error('never mind')

t.test('without a connection aborting ends the wait, once', async t => {
  const { controller, left } = made()
  t.match(controller, {
    aborted: false,
    reason: null,
    paused: false,
    rawHeaders: undefined,
    rawTrailers: undefined
  })
  controller.abort(reason)
  controller.abort(new Error('again'))
  t.strictSame(left, [reason])
  t.match(controller, { aborted: true, reason })
})

t.test('with a connection it is the connection that is aborted, paused and resumed', async t => {
  const { controller, left, connection } = made()
  controller.target = connection
  t.match(controller, { rawHeaders: 'headers', rawTrailers: 'trailers' })
  controller.pause()
  t.equal(connection.paused, true)
  controller.resume()
  t.equal(connection.paused, false)
  controller.abort(reason)
  t.strictSame(left, [])
  t.match(connection, { aborted: true, reason })
})

t.test('what happens to the connection is seen', async t => {
  const { controller, connection } = made()
  controller.target = connection
  connection.pause()
  connection.abort(reason)
  t.match(controller, { aborted: true, paused: true, reason })
})

t.test('who pauses before there is a connection has paused the connection', async t => {
  const { controller, connection } = made()
  controller.pause()
  t.equal(controller.paused, true)
  controller.target = connection
  t.equal(connection.paused, true)
  controller.target = undefined
  controller.resume()
  t.equal(controller.paused, false)
})
