import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { fetch as undiciFetch } from 'undici'
import { paced } from '../../src/client/index.js'
import type { OutgoingRequest } from '../../src/client/index.js'
import { URL_OF_ALL, all, refused, told, world } from './kit.js'
import type { Call } from './kit.js'

t.test('a paced fetch is called as the fetch it was made of', async t => {
  const { time, api, calls } = world([{}])
  const respond = async (): Promise<void> => {
    await api('http://api.test/text')
    await api(new URL('http://api.test/url'))
    await api(new Request('http://api.test/request', { headers: { 'x-a': '1' } }))
    await api('http://api.test/init', { method: 'post', body: 'hello', headers: { 'x-a': '2' } })
  }
  await time.run(respond())
  t.match(calls, [
    { method: 'GET', path: '/text' },
    { method: 'GET', path: '/url' },
    { method: 'GET', path: '/request' },
    { method: 'post', path: '/init', body: 'hello' }
  ])
  t.strictSame(
    calls.map(({ headers }) => headers.get('x-a')),
    [null, null, '1', '2']
  )
})

t.test('the response is that of the server', async t => {
  const { time, api } = world([{ status: 404, fields: { 'x-a': '1' }, body: 'nothing here' }])
  const response = await time.run(api(URL_OF_ALL))
  t.equal(response.status, 404)
  t.equal(response.headers.get('x-a'), '1')
  t.equal(await response.text(), 'nothing here')
})

t.test('an error is that of the fetch, and the next request may go', async t => {
  let calls = 0
  const failing: typeof fetch = async () => {
    if (calls++ === 0) throw new TypeError('fetch failed')
    return new Response('served')
  }
  const api = paced(failing)
  await t.rejects(api(URL_OF_ALL), { name: 'TypeError', message: 'fetch failed' })
  t.equal((await api(URL_OF_ALL)).status, 200)
})

t.test('an address that is none is an error, as it is for fetch', async t => {
  const { api } = world([{}])
  await t.rejects(api('/relative'), { code: 'ERR_INVALID_URL' })
})

t.test('in a page addresses are relative to it', async t => {
  Object.assign(globalThis, { location: { href: 'http://api.test/page/' } })
  t.teardown(() => Reflect.deleteProperty(globalThis, 'location'))
  const { time } = world([{}])
  const sent: unknown[] = []
  const routes: string[] = []
  const browser: typeof fetch = async input => {
    sent.push(input)
    return new Response('served')
  }
  const route = ({ url }: OutgoingRequest): string => {
    routes.push(url.href)
    return url.pathname
  }
  const api = paced(browser, { timing: time, route })
  await time.run(api('items'))
  t.strictSame([sent, routes], [['items'], ['http://api.test/page/items']])
})

t.test('a refusal that is not sent again is a response like any other, with its body', async t => {
  const { time, api } = world([refused({ 'retry-after': '1' }, ['p'])], { retries: 0 })
  const response = await time.run(api(URL_OF_ALL))
  t.equal(response.status, 429)
  t.strictSame(await response.json(), { status: 429, 'violated-policies': ['p'] })
})

t.test('a body that breaks off names no policy', async t => {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.error(new Error('broken'))
    }
  })
  const reply = { status: 429, fields: { 'content-type': 'application/problem+json' }, body }
  const { time, api, refusals } = world([reply], { retries: 0 })
  const response = await time.run(api(URL_OF_ALL))
  t.strictSame(refusals[0]?.policies, [])
  await t.rejects(response.text(), { message: 'broken' })
})

t.test('a refusal without a body names no policy', async t => {
  const reply = { status: 429, fields: { 'content-type': 'application/problem+json' }, body: null }
  const { time, api, refusals } = world([reply, {}])
  t.equal((await time.run(api(URL_OF_ALL))).status, 200)
  t.strictSame(refusals[0]?.policies, [])
})

t.test('a problem document without an end is not read to it', async t => {
  let read = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        read++
        controller.enqueue(new Uint8Array(10_000).fill(32))
      }
    },
    { highWaterMark: 0 }
  )
  const reply = {
    status: 429,
    fields: { 'content-type': 'application/problem+json', 'retry-after': '1' },
    body
  }
  const { time, api, refusals } = world((_call, index) => (index === 0 ? reply : {}))
  t.equal((await time.run(api(URL_OF_ALL))).status, 200)
  t.strictSame(refusals[0]?.policies, [])
  t.ok(read < 20, `${read} chunks`)
})

t.test('what is told after a redirect to another server is not about this one', async t => {
  const { time, api, calls } = world(() => told(0, 60))
  const elsewhere: typeof fetch = async () => {
    const response = new Response('served', { headers: told(0, 60).fields! })
    return Object.defineProperties(response, {
      redirected: { value: true },
      url: { value: 'http://other.test/' }
    })
  }
  const following = paced(elsewhere, { timing: time })
  await time.run(following(URL_OF_ALL))
  await time.run(following(URL_OF_ALL))
  t.equal(time.passed, 0)
  await time.run(api(URL_OF_ALL))
  await time.run(api(URL_OF_ALL))
  t.equal(time.passed, 60_000)
  t.equal(calls.length, 2)
})

t.test('each key is applied by header fields, beside those of the request', async t => {
  const { time, api, calls } = world([{}], {
    keys: { values: ['a', 'b'], apply: key => ({ authorization: `Bearer ${key}` }) }
  })
  const send = async (): Promise<void> => {
    await api(URL_OF_ALL, { headers: { accept: 'text/plain', authorization: 'none' } })
    await api(new Request(URL_OF_ALL, { headers: { accept: 'text/html' } }))
  }
  await time.run(send())
  const fields = (call: Call | undefined): readonly unknown[] =>
    ['accept', 'authorization'].map(name => call?.headers.get(name))
  t.strictSame(calls.map(fields), [
    ['text/plain', 'Bearer a'],
    ['text/html', 'Bearer b']
  ])
})

t.test('a key that cannot be applied fails its request, and holds up no other', async t => {
  let broken = true
  const { time, api } = world([{}], {
    keys: {
      values: ['a'],
      apply: () => {
        if (broken) throw new Error('no such key')
        return {}
      }
    }
  })
  await t.rejects(time.run(api(URL_OF_ALL)), { message: 'no such key' })
  broken = false
  t.equal((await time.run(api(URL_OF_ALL))).status, 200)
})

t.test('a response that holds a place ends when it has been read', async t => {
  const large: typeof fetch = async () => new Response(new Uint8Array(200_000))
  const responses: Response[] = []
  const api = paced(large, { concurrency: 1 })
  responses.push(await api(URL_OF_ALL))
  const second = api(URL_OF_ALL).then(response => responses.push(response))
  await new Promise(resolve => setTimeout(resolve, 10))
  t.equal(responses.length, 1)
  await responses[0]?.arrayBuffer()
  await second
  t.equal(responses.length, 2)
  await responses[1]?.body?.cancel()
})

t.test('it paces the fetch of Node.js and that of undici over a network', async t => {
  let left = 3
  const server = createServer((_request, response) => {
    left = left === 0 ? 2 : left - 1
    response
      .writeHead(200, { 'RateLimit-Policy': '"p";q=3;w=1', RateLimit: `"p";r=${left};t=1` })
      .end('served')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  t.teardown(() => server.closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  for (const api of [paced(fetch), paced(undiciFetch)]) {
    left = 3
    const started = performance.now()
    for (let i = 0; i < 4; i++) t.equal(await (await api(url)).text(), 'served')
    const took = performance.now() - started
    t.ok(took >= 990, `three at once and the fourth after a second: ${took} ms`)
  }
})

t.test('the first request to a server goes alone, and then each time twice as many', async t => {
  const one = world(() => ({ ...told(9, 10), after: 100 }))
  await all(one, 5)
  t.strictSame(one.seconds(), [0, 0.1, 0.1, 0.2, 0.2])
})

t.test('a server may ask for a wait that no date can hold', async t => {
  const wait = '999999999999999'
  for (const fields of [{ 'retry-after': wait }, { ratelimit: `"p";r=0;t=${wait}` }]) {
    const { time, api, refusals } = world([refused(fields)])
    const error = { name: 'QuotaWaitError', code: 'QUOTA_WAIT', retryAt: new Date(8.64e15) }
    await t.rejects(time.run(api(URL_OF_ALL)), error)
    t.strictSame(
      refusals.map(({ until }) => until.getTime()),
      [8.64e15]
    )
    await t.rejects(time.run(api(URL_OF_ALL)), error)
  }
})
