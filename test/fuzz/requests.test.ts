import assert from 'node:assert/strict'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { text as whole } from 'node:stream/consumers'
import Fastify from 'fastify'
import type { FastifyInstance, InjectOptions } from 'fastify'
import fc from 'fast-check'
import { parseItem, parseList } from 'structured-headers'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { fieldValue, huge, sized, text } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 30 * runs)

const FORMS: readonly Omit<QuotaOptions, 'policies'>[] = [
  {},
  { legacy: { style: 'x-ratelimit', reset: 'delta' }, sdkHints: true },
  { legacy: { style: 'x-ratelimit', reset: 'epoch' }, select: 'closest' },
  { legacy: 'draft-6', jitter: '2s' },
  { legacy: 'draft-7', fields: false },
  { legacy: 'llm', problem: false },
  { partitionKey: 'hash', cap: 1 },
  { partitionKey: request => request.headers['x-label'] as string }
]

async function started(t: Test, options: Omit<QuotaOptions, 'policies'>): Promise<FastifyInstance> {
  const app = Fastify({ trustProxy: '127.0.0.1', bodyLimit: 1000 }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, {
    ...options,
    identify: { user: request => request.headers['x-user'] as string },
    policies: {
      address: { quota: 10, window: '1s' },
      user: { quota: 3, window: '10s', partition: 'user', status: 503 },
      bytes: { quota: 500, window: '1m', unit: 'content-bytes', partition: 'user', default: false },
      places: { quota: 2, algorithm: 'concurrency', partition: 'user', default: false }
    }
  })
  // Handlers repeat what they were sent: what plugins beside this one do with fields is not up to it.
  app.get('/', (request, reply) => {
    const cache = request.headers['x-cache']
    return cache === undefined ? 'served' : reply.header('cache-control', cache).send('served')
  })
  app.get('/:id', { config: { quota: { also: ['places'] } } }, () => 'served')
  app.post('/', { config: { quota: { also: ['bytes'] } } }, () => 'served')
  return app
}

/** What we send, and what is in it. */
const TOKEN_LIST = /^[\x20-\x7e]*$/
const OURS: Readonly<Record<string, RegExp>> = {
  'ratelimit-policy': TOKEN_LIST,
  ratelimit: TOKEN_LIST,
  'retry-after': /^[1-9]\d{0,6}$/,
  'x-should-retry': /^false$/,
  'x-ratelimit-limit': /^\d+$/,
  'x-ratelimit-remaining': /^\d+$/,
  'x-ratelimit-reset': /^\d+$/,
  'ratelimit-limit': /^[\x20-\x7e]+$/,
  'ratelimit-remaining': /^\d+$/,
  'ratelimit-reset': /^\d+$/
}

/** Of the framework, and of the application, for these requests. */
const SERVED: readonly number[] = [200, 400, 404, 405, 408, 411, 413, 414, 415, 417, 431, 501, 505]

function check(
  status: number,
  fields: Readonly<Record<string, string | number | readonly string[] | undefined>>,
  body: string,
  options: object
): void {
  assert.ok([...SERVED, 429, 503].includes(status), `${status} ${body}`)
  for (const [name, value] of Object.entries(fields)) {
    const expected = OURS[name] ?? (name.startsWith('x-ratelimit-') ? /^[\x20-\x7e]+$/ : undefined)
    if (expected !== undefined) assert.match(String(value), expected, name)
  }
  if (!('fields' in options)) {
    for (const name of ['ratelimit', 'ratelimit-policy']) {
      for (const [value, parameters] of parseList(String(fields[name] ?? ''))) {
        assert.equal(typeof value, 'string')
        assert.ok(['address', 'user', 'bytes', 'places'].includes(value as string), String(value))
        for (const key of ['r', 't', 'q', 'w']) assert.ok(Number.isInteger(parameters.get(key) ?? 0))
      }
    }
  }
  if (status !== 429 && status !== 503) return
  const refusal = JSON.parse(body) as Readonly<Record<string, unknown>>
  assert.equal(refusal['status'] ?? refusal['statusCode'], status)
  assert.match(body, /^[\x20-\x7e]+$/)
  assert.equal(fields['cache-control'], 'no-store')
  if (fields['retry-after'] !== undefined) parseItem(String(fields['retry-after']))
}

/** Where there is no body to look at. */
const bodyless = (status: number): string => JSON.stringify({ status })

const value = fc.oneof(
  { weight: 9, arbitrary: fieldValue },
  { weight: 1, arbitrary: huge(fc.constantFrom('a', ',', ' ', '"', '1.', 'public,'), 4000) }
)
const NAMES = [
  'x-user',
  'x-label',
  'x-cache',
  'x-forwarded-for',
  'forwarded',
  'origin',
  'access-control-request-method',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
  'cache-control',
  'accept',
  'host',
  'authorization',
  'cookie',
  'via',
  'te',
  '__proto__',
  'constructor',
  'x-http-method-override',
  'if-none-match',
  'range',
  'expect-ct',
  'date'
] as const
const headers = fc.dictionary(fc.constantFrom(...NAMES), value, { maxKeys: 5 })
/** A URL has no lone surrogates. */
const wellFormed = (text: string): string => text.replaceAll(/[\ud800-\udfff]/gu, '')

const user = fc.constantFrom('', 'a', 'b', 'c', '__proto__', 'é')
const method = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH')
const url = fc
  .oneof(
    fc.constantFrom(
      '/',
      '/',
      '/x',
      '/%00',
      '/..%2f',
      '//',
      '/?',
      '/%',
      '/%ff',
      '/*',
      '/:id',
      '/__proto__',
      '/\\',
      '/a;b=c'
    ),
    text.map(text => `/${encodeURIComponent(wellFormed(text))}`),
    huge(fc.constantFrom('a', '/', '%41', '..'), 3000).map(text => `/${encodeURI(wellFormed(text))}`)
  )
  // Others no client can send but with a socket of its own, as below.
  .filter(url => URL.canParse(url, 'http://localhost'))
const body = fc.oneof(
  fc.constant(undefined),
  fc.constantFrom('{', '{}', 'null', '"x"', '{"__proto__":1}'),
  fc.string({ maxLength: 1500 })
)

for (const options of FORMS) {
  t.test(
    `answers to anything are well-formed: ${JSON.stringify(options, (_key, value: unknown) => (typeof value === 'function' ? 'function' : value))}`,
    async t => {
      const app = await started(t, options)
      const seen = new Map<number, number>()
      await fc.assert(
        fc.asyncProperty(method, url, headers, user, body, async (method, url, headers, user, body) => {
          const payload = method === 'GET' || method === 'HEAD' || body === undefined ? {} : { body }
          const request = {
            method,
            url,
            headers: { 'x-user': user, ...headers },
            ...payload
          } as InjectOptions
          const { statusCode, headers: fields, body: answered } = await app.inject(request)
          check(statusCode, fields, method === 'HEAD' ? bodyless(statusCode) : answered, options)
          seen.set(statusCode, (seen.get(statusCode) ?? 0) + 1)
        }),
        { numRuns: sized(8) }
      )
      t.comment([...seen].map(([status, count]) => `${count} × ${status}`).join(', '))
      t.ok(seen.has(200) && (seen.has(429) || seen.has(503)), 'some were served, and some refused')
    }
  )
}

/** Sends bytes and reads what comes until the connection is closed. */
async function exchange(port: number, bytes: Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.setTimeout(20_000, () => socket.destroy(new Error('no end of an answer')))
  socket.end(bytes)
  try {
    return await whole(socket)
  } catch (error) {
    // A server that has said why it hangs up may do so before all is sent.
    if ((error as NodeJS.ErrnoException).code === 'ECONNRESET') return ''
    throw error
  }
}

const raw = fc
  .record({
    method: fc.oneof(method, fc.constantFrom('FOO', 'get', '', 'CONNECT', 'M-SEARCH')),
    url: fc.oneof(url, text),
    lines: fc.array(fc.tuple(fc.oneof(fc.constantFrom<string>(...NAMES), text), fc.oneof(value, text)), {
      maxLength: 5
    }),
    twice: fc.boolean(),
    body: fc.oneof(fc.constant(''), text)
  })
  .map(({ method, url, lines, twice, body }) => {
    const fields = [...lines, ...(twice ? lines : [])]
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')
    return Buffer.from(
      `${method} ${url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${fields}\r\n${body}`,
      'utf8'
    )
  })

t.test('bytes on a socket that are hardly HTTP are answered as well as others', async t => {
  const app = await started(t, {})
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  let answers = 0
  await fc.assert(
    fc.asyncProperty(raw, async bytes => {
      const answer = await exchange(port, bytes)
      if (answer === '') return
      answers++
      const [head = ''] = answer.split('\r\n\r\n', 1)
      const [first = '', ...lines] = head.split('\r\n')
      const [, status = '0'] = /^HTTP\/1\.1 (\d{3}) /.exec(first) ?? []
      const fields = Object.fromEntries(
        lines.map(line => [line.split(':', 1)[0]!.toLowerCase(), line.slice(line.indexOf(':') + 2)])
      )
      // What follows the answer to HEAD is the answer to what follows that.
      const refused = (status === '429' || status === '503') && !bytes.toString('latin1').startsWith('HEAD ')
      const length = Number(fields['content-length'] ?? 0)
      const body = answer.slice(head.length + 4)
      check(
        Number(status),
        fields,
        refused && length > 0 && body !== '' ? body.slice(0, length) : bodyless(Number(status)),
        {}
      )
    }),
    { numRuns: sized(8) }
  )
  t.ok(answers > 0, `${answers} answers`)
})
