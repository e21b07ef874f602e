import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, InjectOptions } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { build as events, news } from '../examples/events.js'
import { build as graphql } from '../examples/graphql.js'
import { pointsOf } from '../examples/graphql/points.js'
import { build as jobs, work } from '../examples/jobs.js'
import type { Letter } from '../examples/jobs.js'
import { PROXIES, build as proxies } from '../examples/proxies.js'
import { build as sizing } from '../examples/sizing.js'
import { build as sse } from '../examples/sse.js'
import { build as websocket } from '../examples/websocket.js'

/** The app, which listens and is closed when the test ends. */
async function served(t: Test, app: Promise<FastifyInstance>): Promise<FastifyInstance & { port: number }> {
  const instance = await app
  t.teardown(() => instance.close())
  await instance.listen({ port: 0, host: '127.0.0.1' })
  return Object.assign(instance, { port: (instance.server.address() as AddressInfo).port })
}

const as = (name: string): { readonly authorization: string } => ({
  authorization: `Bearer token-of-${name}`
})

/** Waits until places are held as they should be. */
async function untilHeld(app: FastifyInstance, policy: string, places: number): Promise<void> {
  while (app.quota.held()[policy] !== places) await sleep(5)
}

interface Talk {
  readonly socket: WebSocket
  /** Sends a message and gives the answer. */
  say(message: string): Promise<string>
}

async function talk(port: number, name: string): Promise<Talk> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`, { headers: as(name) })
  await once(socket, 'open')
  return {
    socket,
    async say(message) {
      const answer = once(socket, 'message') as Promise<[Buffer]>
      socket.send(message)
      return String((await answer)[0])
    }
  }
}

/** The response to a handshake that is refused. */
async function refusal(port: number, name: string): Promise<Response> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`, { headers: as(name) })
  socket.on('error', () => {})
  const [, { statusCode, headers }] = (await once(socket, 'unexpected-response')) as [
    unknown,
    { readonly statusCode: number; readonly headers: Record<string, string> }
  ]
  socket.terminate()
  return new Response(null, { status: statusCode, headers })
}

t.test('websocket: a socket takes a place while it is open, and another one is refused in HTTP', async t => {
  const app = await served(t, websocket())
  const first = await talk(app.port, 'ann')
  const second = await talk(app.port, 'ann')
  t.strictSame(app.quota.held(), { sockets: 2 })
  const refused = await refusal(app.port, 'ann')
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('ratelimit'), '"sockets";r=0')
  const ben = await talk(app.port, 'ben')
  first.socket.close()
  await untilHeld(app, 'sockets', 2)
  const third = await talk(app.port, 'ann')
  t.equal(await third.say('hello'), 'hello')
  second.socket.terminate()
  third.socket.terminate()
  ben.socket.terminate()
  await untilHeld(app, 'sockets', 0)
})

t.test('websocket: messages cost by their length, on all sockets of a user together', async t => {
  const app = await served(t, websocket({ clock: () => 0 }))
  const [one, other] = [await talk(app.port, 'ann'), await talk(app.port, 'ann')]
  for (let i = 0; i < 4; i++) t.equal(await one.say(`${i}`), `${i}`)
  const long = 'a'.repeat(3000)
  t.equal(await other.say(long), long)
  t.strictSame(JSON.parse(await other.say(long)), { refused: 'messages', retryAfter: 10 })
  t.equal(await one.say('short'), 'short', 'the refused one cost nothing')
  t.equal((await app.quota.peek({ user: 'ann' }, ['messages'])).limits[0]!.remaining, 1)

  const ben = await talk(app.port, 'ben')
  t.equal(await ben.say('hello'), 'hello', 'who has a quota of his own')
  t.strictSame(JSON.parse(await ben.say('b'.repeat(10_000))), { refused: 'messages' }, 'it is never admitted')
  for (let i = 0; i < 2; i++) await other.say(long)
  const closed = once(other.socket, 'close')
  other.socket.send(long)
  t.equal((await closed)[0], 1008)
  one.socket.terminate()
  ben.socket.terminate()
})

t.test('websocket: what is no message closes the socket, and frees its place', async t => {
  const app = await served(t, websocket())
  const { socket } = await talk(app.port, 'ann')
  const closed = once(socket, 'close')
  socket.send('a'.repeat(70_000))
  t.equal((await closed)[0], 1009)
  await untilHeld(app, 'sockets', 0)
})

interface Stream {
  readonly response: Response
  /** What comes next. */
  next(): Promise<string>
  readonly leave: () => void
}

async function listen(port: number, name: string, last?: string, path = '/events'): Promise<Stream> {
  const left = new AbortController()
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: {
      ...as(name),
      accept: 'text/event-stream',
      ...(last === undefined ? {} : { 'last-event-id': last })
    },
    signal: left.signal
  })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const next = async (): Promise<string> => String((await reader.read()).value)
  return { response, next, leave: () => left.abort() }
}

t.test('events: a stream takes a place until its client has left, and goes on where it was', async t => {
  const app = await served(t, events())
  const first = await listen(app.port, 'ann')
  const second = await listen(app.port, 'ann', '41')
  t.match(first.response.headers.get('content-type'), 'text/event-stream')
  t.equal(first.response.headers.get('ratelimit'), '"streams";r=1, "default";r=29;t=60')
  t.strictSame([await first.next(), await second.next()], ['retry: 5000\n\n', 'retry: 5000\n\n'])
  while (news.listenerCount('item') < 2) await sleep(5)
  news.emit('item', 'hello')
  t.equal(await first.next(), 'id: 1\ndata: hello\n\n')
  t.equal(await second.next(), 'id: 42\ndata: hello\n\n')

  const third = await listen(app.port, 'ann')
  t.equal(third.response.status, 429)
  t.equal(third.response.headers.get('ratelimit'), '"streams";r=0')
  t.equal((await listen(app.port, 'ben')).response.status, 200)
  await untilHeld(app, 'streams', 3)
  first.leave()
  await untilHeld(app, 'streams', 2)
  second.leave()
  await untilHeld(app, 'streams', 1)
  while (news.listenerCount('item') > 1) await sleep(5)
  t.equal((await listen(app.port, 'ann')).response.status, 200)
})

t.test('sse: streams of @fastify/sse have the fields, and take a place each until they are left', async t => {
  const app = await served(t, sse(20))
  const stream = async (): Promise<Stream> => listen(app.port, 'ann', undefined, '/prices')
  const [first, second] = [await stream(), await stream()]
  t.match(first.response.headers.get('content-type'), 'text/event-stream')
  t.equal(
    first.response.headers.get('ratelimit-policy'),
    '"default";q=30;w=60, "streams";q=2;qu="concurrent-requests"'
  )
  t.equal(first.response.headers.get('ratelimit'), '"streams";r=1, "default";r=29;t=60')
  t.match(await first.next(), /^id: 1\nevent: price\ndata: {"cents":101}\n\n/)
  t.match(await second.next(), /^id: 1\n/)
  const third = await stream()
  t.equal(third.response.status, 429)
  t.match(await third.next(), 'violated-policies')
  first.leave()
  await untilHeld(app, 'streams', 1)
  const fourth = await stream()
  t.equal(fourth.response.status, 200)
  for (const { leave } of [second, fourth]) leave()
  await untilHeld(app, 'streams', 0)
})

t.test('graphql: a query costs what it may resolve, whichever way it is sent', async t => {
  const app = await served(t, graphql())
  const url = `http://127.0.0.1:${app.port}/graphql`
  const left = async (): Promise<number> =>
    (await app.quota.peek({ user: 'ann' }, ['points'])).limits[0]!.remaining
  const query = '{ authors(first: 10) { name books(first: 3) { title } } }'
  const send = (body: unknown): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: { ...as('ann'), 'content-type': 'application/json' },
      body: JSON.stringify(body)
    })
  const served10 = await send({ query })
  t.match(await served10.json(), { data: { authors: [{ name: 'Le Guin', books: { length: 3 } }] } })
  // authors, and ten times name, books and three titles.
  t.equal(served10.headers.get('ratelimit'), '"points";r=949;t=60, "default";r=59;t=60')

  t.match(await (await send([{ query }, { query }])).json(), [{ data: {} }, { data: {} }])
  t.equal(await left(), 949 - 2 * 51)
  await fetch(`${url}?query=${encodeURIComponent(query)}`, { headers: as('ann') })
  t.equal(await left(), 949 - 3 * 51)
  for (const wrong of [{ query: '{' }, [null]]) t.equal((await send(wrong)).status, 400)
  t.equal(await left(), 949 - 3 * 51 - 2)

  const dear = await send({ query: query.replace('10', '200') })
  t.equal(dear.status, 429)
  t.equal(dear.headers.get('retry-after'), null, 'it is more than the whole quota')
  t.match(await dear.json(), { 'violated-policies': ['points'] })
  const batch = await send(Array.from({ length: 20 }, () => ({ query })))
  t.equal(batch.status, 429)
  t.equal(await left(), 949 - 3 * 51 - 2, 'what is refused costs nothing')
})

t.test('graphql: no way of writing a query makes it cheaper', async t => {
  const nested = (first: string): string => `{ authors(first: ${first}) { name } }`
  const of = (query: string, variables?: unknown): number => pointsOf({ query, variables })
  t.equal(of(nested('5')), 6)
  t.equal(of(`query ($n: Int!) ${nested('$n')}`, { n: 5 }), 6, 'variables')
  t.equal(of(`query ($n: Int!) ${nested('$n')}`, '{ "n": 5 }'), 6, 'variables in a URL')
  t.equal(of(`query ($n: Int! = 5) ${nested('$n')}`), 6, 'defaults')
  t.equal(of(`query A ($n: Int! = 5) ${nested('$n')} query B ($n: Int! = 2) ${nested('$n')}`), 6, 'several')
  t.equal(of(`{ a: authors(first: 5) { name } b: authors(first: 5) { name } }`), 12, 'aliases')
  t.equal(of(`{ ... on Query ${nested('5')} }`), 6, 'inline fragments')
  t.equal(of(`{ ...all } fragment all on Query ${nested('5')}`), 6, 'fragments')
  t.equal(of(`{ ...a } fragment a on Query { ...a ...gone }`), 1, 'fragments of themselves')
  const bomb = Array.from({ length: 60 }, (_, i) => `fragment f${i} on Query { ...f${i + 1} ...f${i + 1} }`)
  t.equal(of(`{ ...f0 } ${bomb.join(' ')} fragment f60 on Query ${nested('5')}`), 1_000_000_000)
  t.equal(of(nested('999999999999')), 1_000_000_000)
  t.equal(of(nested('-5')), 1)
  t.equal(of(`query ($n: Int!) ${nested('$n')}`, '{'), 1, 'which GraphQL refuses')
  t.equal(of('{ authors { name } }'), 2, 'and this')
  t.equal(pointsOf({}), 1)
})

t.test('jobs: a worker keeps to the quota of each tenant, which requests spend too', async t => {
  const app = await served(t, jobs())
  const started = performance.now()
  const request: InjectOptions = { method: 'POST', url: '/letters', headers: { 'x-tenant': 'acme' } }
  t.equal((await app.inject(request)).statusCode, 200)
  const sent: string[] = []
  const queue = Array.from({ length: 11 }, (_, i) => ({ tenant: i === 5 ? 'globex' : 'acme', to: `${i}` }))
  const send = async ({ to }: Letter): Promise<void> => void sent.push(to)
  await work(app, queue, send, new AbortController().signal)
  t.strictSame(
    sent,
    queue.map(({ to }) => to)
  )
  // Eleven letters of one tenant, five in any second.
  t.ok(performance.now() - started >= 1999)
  t.equal((await app.quota.peek({ tenant: 'globex' }, ['letters'])).outcome, 'allowed')
})

t.test('jobs: a worker that waits can be ended', async t => {
  const app = await served(t, jobs())
  await app.quota.consume({ tenant: 'acme' }, { letters: 5 })
  const stop = new AbortController()
  const working = work(
    app,
    [{ tenant: 'acme', to: 'ann' }],
    async () => void t.fail('it was not admitted'),
    stop.signal
  )
  setImmediate(() => stop.abort())
  await t.rejects(working, { name: 'AbortError' })
})

t.test('proxies: each chain tells the address of the client, whatever the client adds to it', async t => {
  const chains = {
    local: { from: '127.0.0.1', chain: '203.0.113.9' },
    alb: { from: '10.0.4.20', chain: '203.0.113.9' },
    cloudflare: { from: '127.0.0.1', chain: '203.0.113.9, 173.245.48.7' }
  }
  for (const [name, { from, chain }] of Object.entries(chains)) {
    const app = await proxies(PROXIES[name as keyof typeof PROXIES])
    t.teardown(() => app.close())
    const ask = (forged: string): InjectOptions => ({
      url: '/',
      remoteAddress: from,
      headers: { 'x-forwarded-for': `${forged}${chain}` }
    })
    t.strictSame((await app.inject(ask(''))).json(), { you: '203.0.113.9' }, name)
    t.equal((await app.inject(ask('198.51.100.1, '))).statusCode, 429, name)
    const stranger = await app.inject({ ...ask('198.51.100.2, '), remoteAddress: '192.0.2.1' })
    t.strictSame(stranger.json(), { you: '192.0.2.1' }, `${name}: who is no proxy is not believed`)
  }
})

t.test('sizing: a client has its bursts, and all together what the service bears', async t => {
  const app = await served(t, sizing())
  const first = await app.inject('/')
  t.equal(first.headers['ratelimit-policy'], '"service";q=300;w=1, "page";q=50;w=10, "hourly";q=3000;w=3600')
  const statuses = await Promise.all(
    Array.from({ length: 50 }, async () => (await app.inject('/')).statusCode)
  )
  t.equal(statuses.filter(status => status === 429).length, 1)
})
