import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { Client, RetryAgent, Agent, request } from 'undici'
import quota from '../../src/index.js'
import { NOON, start } from '../fixtures/wire.js'

const policies = { burst: '2/10s' } as const

/** What a server has said on a socket so far, and a wait for more. */
class Line {
  readonly socket: Socket
  text = ''

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1').setEncoding('latin1')
    this.socket.on('data', (chunk: string) => (this.text += chunk))
  }

  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) await once(this.socket, 'data')
    return this.text
  }
}

async function listening(app: { listen(options: object): Promise<string> }): Promise<number> {
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}

t.test(
  'pipelined requests are answered in order, each with its own numbers, and refusals end where they say',
  async t => {
    const { app } = await start(t, { policies })
    const line = new Line(await listening(app))
    const one = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n'
    line.socket.write(one.repeat(5) + one.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'))
    await once(line.socket, 'close')
    const answers: { status: string; limit: string; wait: string | undefined; body: string }[] = []
    for (let rest = line.text; rest !== '';) {
      const end = rest.indexOf('\r\n\r\n')
      const head = rest.slice(0, end)
      const length = Number(/^content-length: (\d+)$/m.exec(head)?.[1])
      answers.push({
        status: head.slice(9, 12),
        limit: String(/^ratelimit: (.*)$/m.exec(head)?.[1]),
        wait: /^retry-after: (.*)$/m.exec(head)?.[1],
        body: rest.slice(end + 4, end + 4 + length)
      })
      rest = rest.slice(end + 4 + length)
    }
    t.strictSame(
      answers.map(({ status, limit, wait }) => [status, limit, wait]),
      [
        ['200', '"burst";r=1;t=10', undefined],
        ['200', '"burst";r=0;t=10', undefined],
        ['429', '"burst";r=0;t=10', '10'],
        ['429', '"burst";r=0;t=10', '10'],
        ['429', '"burst";r=0;t=10', '10'],
        ['429', '"burst";r=0;t=10', '10']
      ]
    )
    for (const { body } of answers.slice(2))
      t.match(JSON.parse(body), { status: 429, 'violated-policies': ['burst'] })
  }
)

t.test('a refused upload leaves its connection usable', async t => {
  const { app, clock } = await start(
    t,
    { policies: { burst: '1/10s' } },
    {
      routes: app =>
        app.post('/', { bodyLimit: 2 ** 24 }, async request => String((request.body as string).length))
    }
  )
  const client = new Client(`http://127.0.0.1:${await listening(app)}`)
  t.teardown(() => client.destroy())
  let connections = 0
  client.on('connect', () => (connections += 1))
  const upload = async (size: number): Promise<readonly [number, string]> => {
    const { statusCode, body } = await client.request({
      method: 'POST',
      path: '/',
      headers: { 'content-type': 'text/plain' },
      body: 'x'.repeat(size)
    })
    return [statusCode, await body.text()]
  }
  t.strictSame(await upload(10), [200, '10'])
  for (const size of [10, 100_000, 3_000_000]) {
    const [status, body] = await upload(size)
    t.equal(status, 429)
    t.equal(JSON.parse(body).title, 'Quota Exceeded')
  }
  clock.now += 10_000
  t.strictSame(await upload(1_000_000), [200, '1000000'])
  t.equal(connections, 1)
})

t.test('an upload is refused before its body has come, and the next request is read after it', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '1/10s' } },
    { routes: app => app.post('/', async () => 'served') }
  )
  const line = new Line(await listening(app))
  const head = 'POST / HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\n'
  line.socket.write(`${head}first`)
  await line.until(/served$/)
  line.socket.write(`${head}se`)
  await line.until(/"violated-policies":\["burst"\]\}$/)
  line.text = ''
  line.socket.write('cndHEAD /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
  await once(line.socket, 'close')
  t.match(line.text, /^HTTP\/1\.1 429 [^]*content-length: \d+\r\n[^]*\r\n\r\n$/, 'and a HEAD has no body')
})

t.test('over HTTP/2 a refusal is the same', async t => {
  const app = Fastify({ http2: true })
  t.teardown(() => app.close())
  await app.register(quota, { policies: { burst: '1/10s' }, clock: () => NOON })
  app.get('/', async () => 'served')
  const client = connectHttp2(`http://127.0.0.1:${await listening(app)}`)
  t.teardown(() => client.destroy())
  const get = async (method: string): Promise<readonly [NodeJS.Dict<unknown>, string]> => {
    const stream = client.request({ ':path': '/', ':method': method }).setEncoding('utf8')
    let text = ''
    let headers: NodeJS.Dict<unknown> = {}
    stream.on('response', received => (headers = received))
    for await (const chunk of stream) text += String(chunk)
    return [headers, text]
  }
  t.match(await get('GET'), [{ ':status': 200, ratelimit: '"burst";r=0;t=10' }, 'served'])
  const [headers, text] = await get('GET')
  t.match(headers, {
    ':status': 429,
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': String(text.length),
    'cache-control': 'no-store',
    ratelimit: '"burst";r=0;t=10',
    'ratelimit-policy': '"burst";q=1;w=10',
    'retry-after': '10'
  })
  t.match(JSON.parse(text), { status: 429, 'violated-policies': ['burst'] })
  const [ofHead, nothing] = await get('HEAD')
  t.match(ofHead, { ':status': 429, 'content-length': String(text.length), 'retry-after': '10' })
  t.equal(nothing, '')
})

t.test('a client that retries once is served at its first retry', async t => {
  const { app, clock } = await start(t, { policies: { burst: '1/3s' } })
  const waits: number[] = []
  const agent = new Agent()
  const dispatcher = new RetryAgent(agent, {
    maxRetries: 1,
    retry(error, _context, again) {
      const { headers } = error as Error & { headers?: NodeJS.Dict<string> }
      const wait = Number(headers?.['retry-after'])
      waits.push(wait)
      clock.now += wait * 1000
      again()
      return null
    }
  })
  t.teardown(() => agent.destroy())
  const url = `http://127.0.0.1:${await listening(app)}/`
  for (let i = 0; i < 2; i++) {
    const { statusCode, body } = await request(url, { dispatcher })
    t.equal(statusCode, 200)
    t.equal(await body.text(), 'served')
    clock.now += 1100
  }
  t.strictSame(waits, [2])
})
