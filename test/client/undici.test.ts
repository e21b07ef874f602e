import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import t from 'tap'
import { Agent, Client, Pool, fetch as undiciFetch, interceptors, request } from 'undici'
import type { Dispatcher } from 'undici'
import { pacedInterceptor } from '../../src/client/index.js'
import type { PacedOptions, Timing } from '../../src/client/index.js'

/** Real sockets and a real clock, but nobody waits: a timer fires at once, and the time jumps to it. */
class Hurry implements Timing {
  #now = 1e12
  readonly waits: number[] = []
  readonly now = (): number => this.#now
  readonly random = (): number => 0

  readonly after = (ms: number, work: () => void): (() => void) => {
    const at = this.#now + ms
    const timer = setTimeout(() => {
      this.waits.push(ms)
      this.#now = Math.max(this.#now, at)
      work()
    }, 1)
    return () => clearTimeout(timer)
  }
}

type Answer = (request: IncomingMessage, response: ServerResponse, index: number) => void

interface World {
  readonly url: string
  readonly requests: readonly IncomingMessage[]
  readonly timing: Hurry
  readonly agent: Dispatcher
}

async function serve(t: Test, answer: Answer, options: PacedOptions = {}): Promise<World> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    request.resume().on('end', () => answer(request, response, requests.length - 1))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const timing = new Hurry()
  const agent = new Agent().compose(pacedInterceptor({ timing, ...options }))
  t.teardown(async () => {
    await agent.destroy()
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, timing, agent }
}

const problem = (policies: readonly string[]): string => JSON.stringify({ 'violated-policies': policies })

const refusal: Answer = (_request, response) => {
  const fields = { 'content-type': 'application/problem+json', 'retry-after': '7' }
  response.writeHead(429, fields).end(problem(['p']))
}

const served: Answer = (_request, response) => void response.writeHead(200, { 'x-a': '1' }).end('served')

const refusedFirst: Answer = (request, response, index) =>
  (index === 0 ? refusal : served)(request, response, index)

t.test('a request that is refused is sent again, and its caller sees the last response alone', async t => {
  const { url, agent, requests, timing } = await serve(t, refusedFirst)
  const { statusCode, headers, body } = await request(`${url}/items?page=2`, { dispatcher: agent })
  t.match({ statusCode, headers }, { statusCode: 200, headers: { 'x-a': '1' } })
  t.equal(await body.text(), 'served')
  t.strictSame(
    requests.map(({ url }) => url),
    ['/items?page=2', '/items?page=2']
  )
  t.strictSame(timing.waits, [7000])
})

t.test('it drives the fetch of undici and that of Node.js', async t => {
  for (const send of [undiciFetch, fetch as unknown as typeof undiciFetch]) {
    const { url, agent, requests } = await serve(t, refusedFirst)
    const response = await send(url, { dispatcher: agent })
    t.equal(response.status, 200)
    t.equal(await response.text(), 'served')
    t.equal(requests.length, 2)
  }
})

t.test('it paces before it is refused', async t => {
  const answer: Answer = (_request, response, index) => {
    response.writeHead(200, { RateLimit: `"p";r=${1 - (index % 2)};t=9` }).end('served')
  }
  const { url, agent, timing } = await serve(t, answer)
  for (let i = 0; i < 4; i++) await (await request(url, { dispatcher: agent })).body.text()
  t.strictSame(timing.waits, [9000])
})

t.test('a field in several lines is one field', async t => {
  const answer: Answer = (_request, response, index) => {
    const lines = [`"a";r=9;t=9`, `"b";r=${1 - (index % 2)};t=5`]
    response.writeHead(200, { RateLimit: lines }).end('served')
  }
  const { url, agent, timing } = await serve(t, answer)
  for (let i = 0; i < 3; i++) await (await request(url, { dispatcher: agent })).body.text()
  t.strictSame(timing.waits, [5000])
})

t.test('a refusal that is not sent again is passed on, head and body', async t => {
  const { url, agent } = await serve(t, refusal, { retries: 0 })
  const { statusCode, headers, body } = await request(url, { dispatcher: agent })
  t.match({ statusCode, headers }, { statusCode: 429, headers: { 'retry-after': '7' } })
  t.strictSame(await body.json(), { 'violated-policies': ['p'] })
})

t.test('a refusal without a problem document is judged by its head', async t => {
  const plain: Answer = (_request, response) =>
    void response.writeHead(429, { 'retry-after': '3' }).end('slow down')
  const { url, agent } = await serve(t, plain, { retries: 0 })
  const { statusCode, body } = await request(url, { dispatcher: agent })
  t.equal(statusCode, 429)
  t.equal(await body.text(), 'slow down')
  const again = await serve(t, (...all) => (all[2] === 0 ? plain : served)(...all))
  t.equal((await request(again.url, { dispatcher: again.agent })).statusCode, 200)
  t.strictSame(again.timing.waits, [3000])
})

t.test('the policies that refused are read from the body, however long it takes to come', async t => {
  const slow: Answer = (_request, response) => {
    response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '3' })
    response.write(problem(['slow', 'é']).slice(0, 12))
    setTimeout(() => response.end(problem(['slow', 'é']).slice(12)), 5)
  }
  const policies: unknown[] = []
  const { url, agent } = await serve(t, (...all) => (all[2] === 0 ? slow : served)(...all), {
    onRefused: event => policies.push(event.policies)
  })
  t.equal((await request(url, { dispatcher: agent })).statusCode, 200)
  t.strictSame(policies, [['slow', 'é']])
})

t.test('a problem document that is too long is not kept', async t => {
  const long: Answer = (_request, response) => {
    response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '3' })
    response.end(Buffer.alloc(200_000, ' '))
  }
  const { url, agent } = await serve(t, long, { retries: 0 })
  const { statusCode, body } = await request(url, { dispatcher: agent })
  t.equal(statusCode, 429)
  t.equal((await body.arrayBuffer()).byteLength, 200_000)
  const again = await serve(t, (...all) => (all[2] === 0 ? long : served)(...all))
  t.equal(await (await request(again.url, { dispatcher: again.agent })).body.text(), 'served')
})

t.test('text and bytes are sent again, and a stream is not', async t => {
  const status = async (body: string | Uint8Array | Readable): Promise<number> => {
    const { url, agent } = await serve(t, refusedFirst)
    return (await request(url, { dispatcher: agent, method: 'PUT', body })).statusCode
  }
  t.equal(await status('abc'), 200)
  t.equal(await status(Buffer.from('abc')), 200)
  t.equal(await status(Readable.from(['abc'])), 429)
})

t.test('keys are applied beside the fields of the request, in whatever form they come', async t => {
  const keys = { values: ['k'], apply: (key: string) => ({ Authorization: `Bearer ${key}` }) }
  const { url, agent, requests } = await serve(t, served, { keys })
  for (const headers of [
    { accept: 'a/b', authorization: 'none' },
    ['accept', 'a/b', 'authorization', 'none'],
    null
  ]) {
    await (await request(url, { dispatcher: agent, headers })).body.text()
  }
  t.strictSame(
    requests.map(({ headers }) => [headers.accept, headers.authorization]),
    [
      ['a/b', 'Bearer k'],
      ['a/b', 'Bearer k'],
      [undefined, 'Bearer k']
    ]
  )
})

t.test('a request that is aborted while it waits leaves the queue', async t => {
  const timing = { now: () => 1e12, random: () => 0, after: () => () => {} }
  for (const send of [
    (url: string, agent: Dispatcher, signal: AbortSignal): Promise<unknown> =>
      request(url, { dispatcher: agent, signal }),
    (url: string, agent: Dispatcher, signal: AbortSignal): Promise<unknown> =>
      undiciFetch(url, { dispatcher: agent, signal })
  ]) {
    const { url, agent, requests } = await serve(t, refusal, { timing })
    const controller = new AbortController()
    const response = send(url, agent, controller.signal)
    while (requests.length === 0) await new Promise(resolve => setTimeout(resolve, 1))
    await new Promise(resolve => setTimeout(resolve, 20))
    controller.abort()
    await t.rejects(response, { name: 'AbortError' })
    t.equal(requests.length, 1)
  }
})

t.test('a request whose signal is aborted already is not sent', async t => {
  const { url, agent, requests } = await serve(t, served)
  await t.rejects(request(url, { dispatcher: agent, signal: AbortSignal.abort() }), { name: 'AbortError' })
  t.equal(requests.length, 0)
})

t.test('a request that is aborted on its way holds up no other', async t => {
  const answer: Answer = (...all) => {
    if (all[2] > 0) served(...all)
  }
  const { url, agent, requests } = await serve(t, answer)
  const controller = new AbortController()
  const response = request(url, { dispatcher: agent, signal: controller.signal })
  while (requests.length === 0) await new Promise(resolve => setTimeout(resolve, 1))
  controller.abort()
  await t.rejects(response, { name: 'AbortError' })
  t.equal((await request(url, { dispatcher: agent })).statusCode, 200)
})

t.test('a connection that fails is the error of its request, and holds up no other', async t => {
  const answer: Answer = (...all) => (all[2] === 0 ? void all[1].destroy() : served(...all))
  const { url, agent } = await serve(t, answer)
  await t.rejects(request(url, { dispatcher: agent }), { code: 'UND_ERR_SOCKET' })
  t.equal((await request(url, { dispatcher: agent })).statusCode, 200)
})

t.test('a refusal that breaks off is sent again, and if it is held back it is an error', async t => {
  const broken =
    (type: string): Answer =>
    (_request, response) => {
      response
        .writeHead(429, { 'content-type': type, 'content-length': '100', 'retry-after': '1' })
        .flushHeaders()
      response.write('{')
      setTimeout(() => response.destroy(), 5)
    }
  const dropped = await serve(t, (...all) => (all[2] === 0 ? broken('text/plain') : served)(...all))
  t.equal((await request(dropped.url, { dispatcher: dropped.agent })).statusCode, 200)
  const held = await serve(t, broken('application/problem+json'))
  await t.rejects(request(held.url, { dispatcher: held.agent }), { code: 'UND_ERR_SOCKET' })
})

t.test('a response that breaks off is over, and one that is passed on breaks off as it is', async t => {
  const broken =
    (status: number): Answer =>
    (_request, response) => {
      response.writeHead(status, { 'content-length': '100' }).write('begun')
      setTimeout(() => response.destroy(), 5)
    }
  const { url, agent } = await serve(t, broken(200), { concurrency: 1 })
  for (let i = 0; i < 2; i++) {
    const { body } = await request(url, { dispatcher: agent })
    await t.rejects(body.text())
  }
  const refused = await serve(t, broken(429), { retries: 0 })
  await t.rejects((await request(refused.url, { dispatcher: refused.agent })).body.text())
})

t.test('no more requests run at once than concurrency says, until their responses are over', async t => {
  let running = 0
  let most = 0
  const answer: Answer = (_request, response) => {
    most = Math.max(most, ++running)
    response.write('begun')
    setTimeout(() => {
      running--
      response.end()
    }, 5)
  }
  const { url, agent } = await serve(t, answer, { concurrency: 2 })
  await Promise.all(
    Array.from({ length: 8 }, async () => (await request(url, { dispatcher: agent })).body.text())
  )
  t.equal(most, 2)
})

t.test('a request for which the quota has no room within maxWait is an error', async t => {
  const answer: Answer = (_request, response) =>
    void response.writeHead(200, { RateLimit: '"daily";r=0;t=3600' }).end('served')
  const { url, agent, requests } = await serve(t, answer)
  await (await request(url, { dispatcher: agent })).body.text()
  await t.rejects(request(url, { dispatcher: agent }), { code: 'QUOTA_WAIT', policies: ['daily'] })
  t.equal(requests.length, 1)
})

t.test('an option that fails is the error of the request', async t => {
  const keys = {
    values: ['k'],
    apply: () => {
      throw new Error('no such key')
    }
  }
  const { url, agent } = await serve(t, served, { keys })
  await t.rejects(request(url, { dispatcher: agent }), { message: 'no such key' })
})

t.test('it is composed with other interceptors, which see what it passes on', async t => {
  const redirected: Answer = (...all) => {
    if (all[0].url === '/old') all[1].writeHead(302, { location: '/new' }).end()
    else served(...all)
  }
  const { url } = await serve(t, redirected)
  const timing = new Hurry()
  const inside = new Agent().compose(
    pacedInterceptor({ timing }),
    interceptors.redirect({ maxRedirections: 1 })
  )
  const outside = new Agent().compose(
    interceptors.redirect({ maxRedirections: 1 }),
    pacedInterceptor({ timing })
  )
  for (const dispatcher of [inside, outside]) {
    const { statusCode, context, body } = await request(`${url}/old`, { dispatcher })
    t.equal(statusCode, 200)
    t.equal(await body.text(), 'served')
    t.match(context, { history: { length: 2 } })
    await dispatcher.close()
  }
})

t.test('a pool and a client of one server do not say which it is', async t => {
  const { url } = await serve(t, refusedFirst)
  for (const dispatcher of [new Pool(url), new Client(url)]) {
    const timing = new Hurry()
    const composed = dispatcher.compose(pacedInterceptor({ timing }))
    const { statusCode, body } = await composed.request({ path: '/', method: 'GET' })
    t.equal(statusCode, 200)
    await body.text()
    await dispatcher.close()
  }
})

t.test('an upgrade is passed on', async t => {
  const { url, agent } = await serve(t, served)
  const server = createServer().on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  const { headers, socket } = await agent.upgrade({
    origin: `http://127.0.0.1:${port}`,
    path: '/',
    protocol: 'test'
  } as Dispatcher.UpgradeOptions)
  t.equal(headers['upgrade'], 'test')
  socket.destroy()
  t.equal((await request(url, { dispatcher: agent })).statusCode, 200)
})

t.test('interim responses are passed on, and are not the answer', async t => {
  const hinting: Answer = (...all) => {
    all[1].writeEarlyHints({ link: '</a.css>; rel=preload' })
    served(...all)
  }
  const { url, agent } = await serve(t, hinting)
  const hints: number[] = []
  const { statusCode } = await request(url, {
    dispatcher: agent,
    onInfo: ({ statusCode }) => hints.push(statusCode)
  })
  t.equal(statusCode, 200)
  t.strictSame(hints, [103])
})

t.test('it is an interceptor of undici', async t => {
  const interceptor: Dispatcher.DispatcherComposeInterceptor = pacedInterceptor()
  t.type(interceptor, 'function')
})
