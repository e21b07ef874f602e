import t from 'tap'
import { heldResponse } from '../../src/client/held-response.js'

interface Held {
  readonly response: Response
  readonly over: () => number
}

function held(body: ConstructorParameters<typeof Response>[0], init?: ResponseInit): Held {
  let over = 0
  const response = heldResponse(new Response(body, init), () => over++)
  return { response, over: () => over }
}

/** A body of so many chunks of 40 kB, and how many of them have been read. */
function chunks(count: number): { readonly body: ReadableStream<Uint8Array>; readonly read: () => number } {
  let read = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (read === count) return controller.close()
        read++
        controller.enqueue(new Uint8Array(40_000))
      }
    },
    { highWaterMark: 0 }
  )
  return { body, read: () => read }
}

const soon = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

t.test('it is the same response', async t => {
  const original = new Response('body', { status: 201, statusText: 'Made', headers: { 'x-a': '1' } })
  Object.defineProperties(original, {
    url: { value: 'http://a/' },
    redirected: { value: true },
    type: { value: 'cors' }
  })
  const response = heldResponse(original, () => {})
  t.ok(response instanceof Response)
  t.match(response, {
    status: 201,
    statusText: 'Made',
    url: 'http://a/',
    redirected: true,
    type: 'cors',
    ok: true
  })
  t.equal(response.headers.get('x-a'), '1')
  t.equal(await response.clone().text(), 'body')
  t.equal(await response.text(), 'body')
})

t.test('a response without a body is over at once', async t => {
  for (const { over } of [held(null, { status: 204 }), held(undefined)]) t.equal(over(), 1)
})

t.test('it is over when it has been read', async t => {
  const { body } = chunks(5)
  const { response, over } = held(body)
  await soon()
  t.equal(over(), 0)
  t.equal((await response.arrayBuffer()).byteLength, 200_000)
  t.equal(over(), 1)
})

t.test('a small body that nobody reads is over all the same, and a large one is not', async t => {
  const small = held('small')
  await soon()
  t.equal(small.over(), 1)
  const { body, read } = chunks(5)
  const large = held(body)
  await soon()
  t.equal(large.over(), 0)
  t.ok(read() <= 3, 'and it is not read either')
})

t.test('it is over when it is cancelled', async t => {
  let reason: unknown
  const body = new ReadableStream<Uint8Array>(
    {
      cancel(given) {
        reason = given
      }
    },
    { highWaterMark: 0 }
  )
  const { response, over } = held(body)
  await response.body?.cancel('enough')
  t.equal(over(), 1)
  t.equal(reason, 'enough')
})

t.test('it is over when it breaks off', async t => {
  const { response, over } = held(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error('broken'))
      }
    })
  )
  await t.rejects(response.text(), { message: 'broken' })
  t.equal(over(), 1)
})

t.test('its end is told once', async t => {
  const { response, over } = held('body')
  await response.text()
  await response.body?.cancel().catch(() => {})
  await soon()
  t.equal(over(), 1)
})
