import { once } from 'node:events'
import { connect } from 'node:http2'
import type { ClientHttp2Stream } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGunzip, gzipSync } from 'node:zlib'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyRequest } from 'fastify'
import { request } from 'undici'
import t from 'tap'
import { LaterStore } from '../plugin/kit.js'
import { BATCH, BYTES, CHUNKED, LAST_CHUNK, bytes, chunk, client, listen, pieces, until } from './kit.js'

const TYPE = { 'content-type': 'x/y' }

const violated = (text: string): boolean => text.includes('"violated-policies":["bytes"]')

t.test('a body of unknown length is charged to the byte', async t => {
  const { url, spent, handled } = await listen(t)
  let sum = 0
  for (const size of [0, 1, 999, BATCH - 1, BATCH, BATCH + 1]) {
    const { statusCode, headers, body } = await request(url, {
      method: 'POST',
      headers: TYPE,
      body: Readable.from(pieces(size))
    })
    t.equal(statusCode, 200)
    t.strictSame(await body.json(), { length: size })
    sum += size
    t.equal(await spent(), sum)
    t.match(headers['ratelimit'], `r=${BYTES - sum};`)
  }
  t.strictSame(handled, [0, 1, 999, BATCH - 1, BATCH, BATCH + 1])
})

t.test('it is charged as it arrives, in batches', async t => {
  const { port, spent, untilSpent, handled } = await listen(t)
  const { write, received, leave } = client(port)
  await write(CHUNKED)
  await write(chunk(BATCH - 1))
  await sleep(20)
  t.equal(await spent(), 0)
  await write(chunk(1))
  await untilSpent(BATCH)
  await write(chunk(10))
  await sleep(20)
  t.equal(await spent(), BATCH)
  t.strictSame(handled, [])
  await write(LAST_CHUNK)
  await received(`{"length":${BATCH + 10}}`)
  t.equal(await spent(), BATCH + 10)
  leave()
})

t.test('a slow upload is charged like a fast one', async t => {
  const { port, spent, received } = await slowly(t)
  await received('{"length":200}')
  t.equal(await spent(), 200)
  void port
})

async function slowly(t: Parameters<typeof listen>[0]): Promise<{
  readonly port: number
  readonly spent: () => Promise<number>
  readonly received: (part: string) => Promise<void>
}> {
  const { port, spent } = await listen(t)
  const { write, received, leave } = client(port)
  t.teardown(leave)
  await write(CHUNKED)
  for (let i = 0; i < 20; i++) {
    await write(chunk(10))
    await sleep(5)
  }
  await write(LAST_CHUNK)
  return { port, spent, received }
}

t.test(
  'what is too much is refused while it arrives: what arrived before stays charged, other policies do not',
  async t => {
    const policies = {
      calls: { quota: 10, window: '1h', partition: 'global', algorithm: 'fixed-window' },
      bytes
    } as const
    const { port, spent, handled, logged } = await listen(t, { options: { policies } })
    const { write, received, text, closed } = client(port)
    await write(CHUNKED)
    for (let i = 0; i < 3; i++) await write(chunk(BATCH))
    await until(async () => (await spent()) === 3 * BATCH)
    t.equal(await spent('calls'), 1)
    await write(chunk(BATCH))
    await received('violated-policies')
    t.match(text(), /^HTTP\/1.1 429 /)
    t.match(text(), 'connection: close')
    t.match(text(), 'content-type: application/problem+json')
    t.match(text(), `ratelimit: "bytes";r=${BYTES - 3 * BATCH};t=`)
    t.ok(violated(text()))
    t.equal(await spent('calls'), 0)
    t.equal(await spent(), 3 * BATCH)
    await write(chunk(BATCH))
    await write(LAST_CHUNK)
    await closed
    t.strictSame(handled, [])
    t.strictSame(logged, [])
    t.equal(await spent(), 3 * BATCH)
  }
)

t.test('the rest of a body may be too much', async t => {
  const { url, spent, handled } = await listen(t, {
    options: { policies: { bytes: { ...bytes, quota: 100 } } }
  })
  const send = async (size: number): Promise<number> => {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: TYPE,
      body: Readable.from(pieces(size))
    })
    await body.dump()
    return statusCode
  }
  t.equal(await send(101), 429)
  t.equal(await spent(), 0)
  t.equal(await send(100), 200)
  t.equal(await send(1), 429)
  t.strictSame(handled, [100])
})

t.test('several policies count the same body, and a shadow one refuses nobody', async t => {
  const policies = {
    bytes,
    hour: { ...bytes, quota: 10 * BYTES },
    shadow: { ...bytes, quota: 10, mode: 'shadow' }
  } as const
  const { url, spent } = await listen(t, { options: { policies } })
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: TYPE,
    body: Readable.from(pieces(100_000))
  })
  await body.dump()
  t.equal(statusCode, 200)
  t.strictSame([await spent(), await spent('hour')], [100_000, 100_000])
})

t.test('a handler may settle what a body was charged', async t => {
  const { url, spent } = await listen(t, {
    routes: app => {
      app.post('/settled', async ({ quota }) => quota.settle('bytes', 10))
    }
  })
  const { body } = await request(`${url}settled`, {
    method: 'POST',
    headers: TYPE,
    body: Readable.from(pieces(150_000))
  })
  await body.dump()
  t.equal(await spent(), 10)
})

t.test('an upload that is aborted keeps what arrived', async t => {
  const { port, untilSpent, spent, handled, logged } = await listen(t)
  const { write, leave, closed } = client(port)
  await write(CHUNKED)
  await write(chunk(BATCH))
  await untilSpent(BATCH)
  await write(chunk(1234))
  await sleep(20)
  leave()
  await closed
  await untilSpent(BATCH + 1234)
  await sleep(20)
  t.equal(await spent(), BATCH + 1234)
  t.strictSame(handled, [])
  t.strictSame(logged, [])
})

t.test('an upload that is aborted when too much has arrived is refused to nobody', async t => {
  const { port, spent, logged } = await listen(t, {
    options: { policies: { bytes: { ...bytes, quota: 100 } } }
  })
  const { write, leave, closed } = client(port)
  await write(CHUNKED)
  await write(chunk(1234))
  await sleep(20)
  leave()
  await closed
  await sleep(20)
  t.equal(await spent(), 0)
  t.strictSame(logged, [])
})

t.test('an upload that nobody reads may be aborted', async t => {
  const { port, app, spent, logged } = await listen(t, {
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
      app.post('/hook', { preParsing: async () => new Promise(() => {}) }, async () => 'unreached')
    }
  })
  for (const head of [CHUNKED.replace('POST /', 'GET /slow'), CHUNKED.replace('POST /', 'POST /hook')]) {
    const { write, leave, closed } = client(port)
    await write(head)
    await write(chunk(100))
    await sleep(20)
    leave()
    await closed
  }
  await sleep(20)
  t.equal((await app.inject('/')).statusCode, 200)
  t.equal(await spent(), 0, 'what nobody reads costs nothing')
  t.strictSame(logged, [])
})

t.test('a body that nobody reads is dropped by Node.js, and the connection is kept', async t => {
  const { port, spent } = await listen(t)
  const { write, received, text, leave } = client(port)
  await write(CHUNKED.replace('POST', 'GET'))
  for (let i = 0; i < 10; i++) await write(chunk(BATCH))
  await write(LAST_CHUNK)
  await received('served')
  t.equal(await spent(), 0)
  await write('GET /nowhere HTTP/1.1\r\nhost: test\r\n\r\n')
  await received('404')
  t.notMatch(text(), 'connection: close')
  leave()
})

t.test('a body that is larger than the body limit is charged as far as it was read', async t => {
  const { port, spent, handled } = await listen(t, { server: { bodyLimit: 100_000 } })
  const { write, received, leave } = client(port)
  await write(CHUNKED)
  await write(chunk(BATCH))
  await write(chunk(BATCH))
  await received('413')
  // The second batch may not have been whole when it passed the limit.
  t.ok([BATCH, 2 * BATCH].includes(await spent()))
  t.strictSame(handled, [])
  leave()
})

t.test('JSON in chunks is counted and parsed', async t => {
  const { url, spent } = await listen(t, {
    routes: app => {
      app.post('/json', async ({ body }) => body)
    }
  })
  const json = JSON.stringify({ text: 'Grüße '.repeat(20_000) })
  const headers = { 'content-type': 'application/json' }
  const { body } = await request(`${url}json`, {
    method: 'POST',
    headers,
    body: Readable.from(bits(Buffer.from(json)))
  })
  t.equal(await body.text(), json)
  t.equal(await spent(), Buffer.byteLength(json))
  const broken = await request(`${url}json`, {
    method: 'POST',
    headers,
    body: Readable.from([Buffer.from('{')])
  })
  await broken.body.dump()
  t.equal(broken.statusCode, 400)
  t.equal(await spent(), Buffer.byteLength(json) + 1)
})

/** In pieces that split characters. */
function* bits(text: Buffer): Generator<Buffer> {
  for (let i = 0; i < text.length; i += 777) yield text.subarray(i, i + 777)
}

for (const order of ['after', 'before'] as const) {
  t.test(`compressed content is counted as it is sent, if a hook ${order} the plugin decodes it`, async t => {
    const content = Buffer.alloc(500_000, 'x')
    const sent = gzipSync(content)
    const decode = async (
      _request: FastifyRequest,
      _reply: unknown,
      payload: NodeJS.ReadableStream
    ): Promise<Readable> => {
      const gunzip: Readable & { receivedEncodedLength?: number } = createGunzip()
      gunzip.receivedEncodedLength = 0
      payload.on('data', (data: Buffer) => (gunzip.receivedEncodedLength! += data.length))
      payload.pipe(gunzip as unknown as NodeJS.WritableStream)
      return gunzip
    }
    const { url, spent, handled } = await listen(t, {
      [order === 'before' ? 'before' : 'routes']: (
        app: Parameters<NonNullable<Parameters<typeof listen>[1]>['routes'] & {}>[0]
      ) => {
        app.addHook('preParsing', decode as never)
      }
    })
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: { ...TYPE, 'content-encoding': 'gzip' },
      body: Readable.from([sent.subarray(0, 10), sent.subarray(10)])
    })
    await body.dump()
    t.equal(statusCode, 200)
    t.strictSame(handled, [content.length])
    t.equal(await spent(), sent.length)
  })
}

t.test('a parser that reads the body itself is counted, and sees it break off', async t => {
  const seen: string[] = []
  const { port, spent } = await listen(t, {
    parsed: false,
    routes: app => {
      app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
      app.post('/stream', async ({ body }) => {
        try {
          await pipeline(
            body as Readable,
            new Transform({ transform: (_data, _encoding, next) => next() }).resume()
          )
          seen.push('end')
        } catch (error) {
          seen.push((error as NodeJS.ErrnoException).code!)
          throw error
        }
        return 'read'
      })
    }
  })
  const head = CHUNKED.replace('POST /', 'POST /stream')
  const whole = client(port)
  await whole.write(head)
  await whole.write(chunk(100_000))
  await whole.write(LAST_CHUNK)
  await whole.received('read')
  t.equal(await spent(), 100_000)
  whole.leave()
  const refused = client(port)
  await refused.write(head)
  await refused.write(chunk(100_001))
  await refused.received('violated-policies')
  await until(() => seen.length === 2)
  t.strictSame(seen, ['end', 'ERR_STREAM_PREMATURE_CLOSE'])
  t.equal(await spent(), 100_000)
  refused.leave()
})

t.test('a response that has begun is not disturbed by a refusal; then the connection ends', async t => {
  const { port, spent, logged } = await listen(t, {
    options: { policies: { bytes: { ...bytes, quota: BATCH } } },
    parsed: false,
    routes: app => {
      app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
      app.post('/echo', async ({ body }, reply) => {
        const size = new Readable({ read: () => {} })
        size.push('begun\n')
        ;(body as Readable).on('close', () => {
          size.push('broken off\n')
          size.push(null)
        })
        ;(body as Readable).resume()
        return reply.send(size)
      })
    }
  })
  const { write, received, text, closed } = client(port)
  await write(CHUNKED.replace('POST /', 'POST /echo'))
  await received('begun')
  await write(chunk(BATCH))
  await write(chunk(BATCH))
  await received('broken off')
  t.match(text(), /^HTTP\/1.1 200 /)
  t.notMatch(text(), '429')
  await write(LAST_CHUNK)
  await closed
  t.equal(await spent(), BATCH)
  t.strictSame(logged, [])
})

t.test('who reads the request itself is charged, and refused', async t => {
  const { port, spent, untilSpent } = await listen(t, {
    parsed: false,
    routes: app => {
      app.addContentTypeParser('*', (_request, _payload, done) => done(null))
      app.post('/pipe', async ({ raw }) => {
        await pipeline(raw, new Transform({ transform: (_data, _encoding, next) => next() }).resume())
        return 'read'
      })
      app.post('/iterate', async ({ raw }) => {
        let length = 0
        for await (const data of raw) length += (data as Buffer).length
        return { length }
      })
    }
  })
  let sum = 0
  for (const path of ['pipe', 'iterate']) {
    const { write, received, leave } = client(port)
    await write(CHUNKED.replace('POST /', `POST /${path}`))
    await write(chunk(90_000))
    await write(LAST_CHUNK)
    await received(path === 'pipe' ? 'read' : '{"length":90000}')
    sum += 90_000
    await untilSpent(sum)
    leave()
  }
  const { write, received, text, closed, end } = client(port)
  await write(CHUNKED.replace('POST /', 'POST /pipe'))
  for (let i = 0; i < 4; i++) await write(chunk(BATCH))
  await received('violated-policies')
  t.match(text(), 'connection: close')
  t.equal(await spent(), sum)
  end()
  await closed
  const aborted = client(port)
  await aborted.write(CHUNKED.replace('POST /', 'POST /pipe'))
  await aborted.write(chunk(100))
  await sleep(20)
  aborted.leave()
  await untilSpent(sum + 100)
})

t.test('HTTP/2 bodies are counted as they arrive, and refused by themselves', async t => {
  const { port, spent, handled, logged } = await listen(t, { server: { http2: true } as object })
  const warned: string[] = []
  const warn = ({ message }: Error): void => void warned.push(message)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const post = (headers: object = {}): ClientHttp2Stream =>
    session.request({ ':path': '/', ':method': 'POST', ...TYPE, ...headers })
  const answer = async (stream: ClientHttp2Stream): Promise<readonly [number, string]> => {
    let text = ''
    let status = 0
    stream.on('response', headers => (status = Number(headers[':status'])))
    stream.on('data', data => (text += data))
    stream.on('error', () => {})
    await once(stream, 'end')
    return [status, text]
  }
  t.strictSame(await answer(session.request({ ':path': '/' })), [200, 'served'])
  t.equal(await spent(), 0)
  const known = post({ 'content-length': 1000 })
  known.end(Buffer.alloc(1000))
  t.strictSame(await answer(known), [200, '{"length":1000}'])
  t.equal(await spent(), 1000)
  const unknown = post()
  Readable.from(pieces(100_000)).pipe(unknown)
  t.strictSame(await answer(unknown), [200, '{"length":100000}'])
  t.equal(await spent(), 101_000)
  const tooMuch = post()
  const endless = setInterval(() => tooMuch.writable && tooMuch.write(Buffer.alloc(50_000)), 1)
  const [status, text] = await answer(tooMuch)
  clearInterval(endless)
  t.equal(status, 429)
  t.ok(violated(text))
  await until(() => tooMuch.closed)
  t.equal(tooMuch.rstCode, 0, 'it is no error')
  tooMuch.destroy()
  t.equal(session.destroyed, false)
  const aborted = post()
  aborted.on('error', () => {})
  aborted.write(Buffer.alloc(500))
  await sleep(50)
  const before = await spent()
  aborted.close(8)
  await until(async () => (await spent()) === before + 500)
  t.strictSame(handled.slice(0, 2), [1000, 100_000]) // to Node.js, a stream that is cancelled is a body that ends
  t.strictSame(await answer(session.request({ ':path': '/' })), [200, 'served'])
  t.strictSame(warned, [])
  t.strictSame(logged, [])
})

t.test('an injected body of unknown length is counted, too', async t => {
  const { app, spent } = await listen(t)
  const send = async (size: number): Promise<number> =>
    (
      await app.inject({
        method: 'POST',
        url: '/',
        headers: { ...TYPE, 'transfer-encoding': 'chunked' },
        payload: Readable.from(pieces(size))
      })
    ).statusCode
  t.equal(await send(150_000), 200)
  t.equal(await spent(), 150_000)
  t.equal(await send(150_000), 429)
})

t.test('a store that answers later charges the same, and slows nobody but the body', async t => {
  const { url, port, spent, untilSpent, handled, logged } = await listen(t, {
    options: {
      policies: { calls: { quota: 100, window: '1h', partition: 'global' }, bytes },
      store: new LaterStore(() => Math.floor(performance.now()))
    }
  })
  const send = async (size: number): Promise<number> => {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: TYPE,
      body: Readable.from(pieces(size))
    })
    await body.dump()
    return statusCode
  }
  t.equal(await send(150_000), 200)
  t.equal(await spent(), 150_000)
  t.equal(await send(150_000), 429)
  t.equal(await spent('calls'), 1)
  t.strictSame(handled, [150_000])
  const before = await spent()
  const { write, leave } = client(port)
  await write(CHUNKED)
  await write(chunk(300))
  await sleep(50)
  leave()
  await untilSpent(before + 300)
  t.strictSame(logged, [])
})

for (const how of ['throws', 'rejects'] as const) {
  t.test(`a store that ${how} in the midst of a body is an error of the server`, async t => {
    const store = new LaterStore(() => Math.floor(performance.now()))
    const { port, app } = await listen(t, { options: { store } })
    const { write, received, leave } = client(port)
    await write(CHUNKED)
    await write(chunk(100))
    await sleep(50)
    store.consume = () => {
      if (how === 'throws') throw new Error('out of order')
      return Promise.reject(new Error('out of order'))
    }
    await write(LAST_CHUNK)
    await received('HTTP/1.1 500 ')
    leave()
    void app
  })
}
