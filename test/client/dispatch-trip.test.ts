import t from 'tap'
import type { DispatchController, DispatchHandler } from '../../src/client/dispatch.js'
import { pacedInterceptor } from '../../src/client/index.js'
import { VirtualTime } from './virtual-time.js'

const options = { origin: 'http://api.test', path: '/', method: 'GET' }

interface Seen {
  readonly errors: Error[]
  readonly handler: DispatchHandler
}

function seen(more: Partial<DispatchHandler> = {}): Seen {
  const errors: Error[] = []
  return {
    errors,
    handler: {
      onRequestStart: () => {},
      onResponseError: (_controller, error) => void errors.push(error),
      ...more
    }
  }
}

type AnyDispatch = (options: object, handler: DispatchHandler) => boolean

const compose = (dispatch: AnyDispatch, time = new VirtualTime()): AnyDispatch =>
  pacedInterceptor({ timing: time })(dispatch)

t.test('handlers of undici 6 are refused', async t => {
  t.throws(() => compose(() => true)(options, {}), {
    message: 'pacedInterceptor needs the handlers of undici 7 or later'
  })
})

t.test('a dispatcher that throws is the error of the request, and the next may go', async t => {
  const time = new VirtualTime()
  let dispatched = 0
  const dispatch = compose(() => {
    dispatched++
    throw new Error('closed')
  }, time)
  for (let i = 0; i < 2; i++) {
    const { errors, handler } = seen()
    dispatch(options, handler)
    await time.pass(0)
    t.match(errors, [{ message: 'closed' }])
  }
  t.equal(dispatched, 2)
})

t.test('a handler that throws when it starts has its own error', async t => {
  const time = new VirtualTime()
  const { errors, handler } = seen({
    onRequestStart: () => {
      throw new Error('not today')
    }
  })
  compose(() => true, time)(options, handler)
  await time.pass(0)
  t.match(errors, [{ message: 'not today' }])
})

t.test(
  'a request that is aborted between its turn and its connection is aborted by the connection',
  async t => {
    const time = new VirtualTime()
    const reasons: Error[] = []
    let controller: DispatchController | undefined
    let start: ((connection: DispatchController) => void) | undefined
    const dispatch = compose((_options, handler) => {
      start = connection => handler.onRequestStart?.(connection, {})
      return true
    }, time)
    const { handler } = seen({ onRequestStart: given => void (controller = given) })
    dispatch(options, handler)
    await time.pass(0)
    controller?.abort(new Error('never mind'))
    const connection = { aborted: false, paused: false, reason: null, pause() {}, resume() {} }
    start?.({ ...connection, abort: reason => void reasons.push(reason) })
    t.match(reasons, [{ message: 'never mind' }])
  }
)

type Ending = (handler: DispatchHandler, connection: DispatchController) => void

const respond =
  (status: number): Ending =>
  (handler, connection) => {
    handler.onResponseStart?.(connection, 100, {})
    handler.onResponseStart?.(connection, status, { 'content-type': 'application/problem+json' })
    handler.onResponseData?.(connection, new Uint8Array(1))
    handler.onResponseEnd?.(connection, {})
  }

const endings: Readonly<Record<string, Ending>> = {
  'a response': respond(200),
  'a refusal': respond(429),
  'an upgrade': (handler, connection) => handler.onRequestUpgrade?.(connection, 101, {}, undefined),
  'an error': (handler, connection) => handler.onResponseError?.(connection, new Error('broken'))
}

for (const [name, end] of Object.entries(endings)) {
  t.test(`a handler that wants to know nothing is told nothing of ${name}`, async t => {
    const time = new VirtualTime()
    const dispatch = compose((_options, handler) => {
      const connection = { aborted: false, paused: false, reason: null, pause() {}, resume() {}, abort() {} }
      handler.onRequestStart?.(connection, {})
      end(handler, connection)
      return true
    }, time)
    dispatch({ ...options, method: 'POST' }, { onRequestStart: () => {} })
    await time.pass(0)
    t.equal(time.passed, 0)
  })
}
