import { request as send } from 'node:http'
import { request } from 'undici'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { BYTES, bytes, client, listen, until } from './kit.js'

t.test('a body of known length is charged before it is read', async t => {
  const { port, spent, handled } = await listen(t)
  const { write, received, leave } = client(port)
  await write('POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: 1000\r\n\r\n')
  await until(async () => (await spent()) === 1000)
  t.strictSame(handled, [])
  await write(Buffer.alloc(1000))
  await received('{"length":1000}')
  t.equal(await spent(), 1000)
  leave()
})

t.test('a body that is too much is refused before it is sent, and never read', async t => {
  let read = false
  const { port, spent, handled } = await listen(t, {
    routes: app => {
      app.addHook('preValidation', async () => (read = true))
    }
  })
  const { write, received, text, leave } = client(port)
  await write(`POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: ${BYTES + 1}\r\n\r\n`)
  await received('violated-policies')
  t.match(text(), /^HTTP\/1.1 429 /)
  t.match(text(), `ratelimit: "bytes";r=${BYTES}`)
  t.equal(await spent(), 0)
  t.strictSame([read, handled], [false, []])
  leave()
})

t.test('what is left is told, with its unit', async t => {
  const { app } = await listen(t)
  const { headers } = await app.inject({
    method: 'POST',
    url: '/',
    payload: 'x'.repeat(1000),
    headers: { 'content-type': 'x/y' }
  })
  t.equal(headers['ratelimit-policy'], `"bytes";q=${BYTES};qu="content-bytes";w=3600`)
  t.match(headers['ratelimit'], `"bytes";r=${BYTES - 1000}`)
})

t.test('requests without a body cost nothing, and pass when nothing is left', async t => {
  const { app, spent } = await listen(t)
  const post = { method: 'POST', url: '/', headers: { 'content-type': 'x/y' } } as const
  for (const method of ['GET', 'HEAD', 'POST'] as const)
    t.equal((await app.inject({ method, url: '/' })).statusCode, 200)
  t.equal(await spent(), 0)
  t.equal((await app.inject({ ...post, payload: 'x'.repeat(BYTES) })).statusCode, 200)
  t.equal((await app.inject({ ...post, payload: 'x' })).statusCode, 429)
  t.equal((await app.inject('/')).statusCode, 200)
})

t.test('the length is that of the body as it is sent', async t => {
  const { app, spent } = await listen(t)
  const payload = '{"name":"Grüße 🍋"}'
  await app.inject({ method: 'POST', url: '/', payload, headers: { 'content-type': 'application/json' } })
  t.equal(await spent(), Buffer.byteLength(payload))
})

t.test('a length that is no number never gets in', async t => {
  const { port, spent, handled } = await listen(t)
  for (const length of ['abc', '-1', '1e3', '1.5', '0x10', '', '18446744073709551616', '10, 10']) {
    const { write, closed, text } = client(port)
    await write(
      `POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: ${length}\r\n\r\n1234567890`
    )
    await closed
    t.match(text(), /^HTTP\/1.1 400 /, length)
  }
  const { write, closed, text } = client(port)
  await write(
    'POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: 10\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'
  )
  await closed
  t.match(text(), /^HTTP\/1.1 400 /, 'two ways to tell a length')
  const largest = client(port)
  await largest.write(
    'POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: 18446744073709551615\r\n\r\n'
  )
  await largest.received('HTTP/1.1 429 ')
  largest.leave()
  t.equal(await spent(), 0)
  t.strictSame(handled, [])
})

t.test('an injected length that is no number costs nothing', async t => {
  const { app, spent } = await listen(t)
  const headers = { 'content-type': 'x/y', 'content-length': 'many' }
  const { statusCode } = await app.inject({ method: 'POST', url: '/', payload: 'xyz', headers })
  t.equal(statusCode, 200)
  t.equal(await spent(), 3)
})

t.test(
  'a body that is longer than it said is the next request for Node.js, and closes the connection',
  async t => {
    const { port, spent } = await listen(t)
    const { write, closed, text } = client(port)
    await write('POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: 5\r\n\r\n1234567890')
    await closed
    t.match(text(), 'HTTP/1.1 400 ')
    t.equal(await spent(), 5)
  }
)

t.test('a body that stops short keeps its charge', async t => {
  const { port, untilSpent, spent, handled } = await listen(t)
  const { write, leave, closed } = client(port)
  await write('POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ncontent-length: 5000\r\n\r\n1234567890')
  await untilSpent(5000)
  leave()
  await closed
  await sleep(20)
  t.equal(await spent(), 5000)
  t.strictSame(handled, [])
})

t.test('a client that asks before it sends is told to go on, or is refused', async t => {
  const { port, spent } = await listen(t)
  const ask = (length: number): Promise<readonly unknown[]> =>
    new Promise((resolve, reject) => {
      let continued = false
      const req = send(
        {
          port,
          host: '127.0.0.1',
          method: 'POST',
          headers: { 'content-type': 'x/y', expect: '100-continue', 'content-length': length }
        },
        res => {
          res.resume()
          resolve([res.statusCode, continued])
          req.destroy()
        }
      )
      req.on('error', reject)
      req.once('continue', () => {
        continued = true
        if (length <= BYTES) req.end(Buffer.alloc(length))
      })
      req.flushHeaders()
    })
  t.strictSame(await ask(100), [200, true])
  t.strictSame(await ask(BYTES + 1), [429, true], 'Node.js says go on before anybody is asked')
  t.equal(await spent(), 100)
})

t.test('a body limit is not charged twice: the length is, and the body is not read', async t => {
  const { url, spent } = await listen(t, { server: { bodyLimit: 1000 } })
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'x/y' },
    body: Buffer.alloc(1001)
  })
  await body.dump()
  t.equal(statusCode, 413)
  t.equal(await spent(), 1001)
})

t.test('a policy that counts bytes may have a cost of its own', async t => {
  const { app, spent } = await listen(t, {
    options: {
      policies: { bytes: { ...bytes, cost: ({ headers }) => 2 * Number(headers['content-length']) } }
    }
  })
  await app.inject({ method: 'POST', url: '/', payload: 'xyz', headers: { 'content-type': 'x/y' } })
  t.equal(await spent(), 6)
})
