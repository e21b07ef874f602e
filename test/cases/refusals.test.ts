import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import cors from '@fastify/cors'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import quota, { exposedHeaders } from '../../src/index.js'
import type { Hook, QuotaOptions } from '../../src/index.js'
import { Clock, ask, fieldCase, portOf, repeat, serve } from './kit.js'
import type { Asked, Told } from './kit.js'

const origin = 'https://app.example.com'

const withCors = (app: FastifyInstance): unknown => app.register(cors, { origin, exposedHeaders })

const answer = (app: FastifyInstance): unknown => app.get('/', async () => 'served')

/** CORS in front of the plugin, and behind it. */
const orders = {
  'CORS first': { before: withCors, routes: answer },
  'CORS second': {
    routes: async (app: FastifyInstance) => {
      await withCors(app)
      answer(app)
    }
  }
} as const

const preflight: Asked = {
  method: 'OPTIONS',
  headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'x-any' }
}

fieldCase('C126', 'a page of another origin can read a refusal, whichever was registered first', async t => {
  for (const [order, build] of Object.entries(orders)) {
    for (const hook of ['onRequest', 'preParsing', 'preHandler'] as readonly Hook[]) {
      const { app } = await serve(t, { one: { quota: 1, window: 60, hook } }, build)
      const answers = await repeat(app, 2, { headers: { origin } })
      t.strictSame(
        answers.map(({ status }) => status),
        [200, 429]
      )
      // The manual asks for CORS in front of policies that are decided in the first hook.
      const readable = hook !== 'onRequest' || order === 'CORS first'
      const { headers } = answers[1]!
      t.equal(headers['access-control-allow-origin'], readable ? origin : undefined, `${order}, ${hook}`)
      const exposed = String(headers['access-control-expose-headers']).toLowerCase()
      for (const name of readable ? ['ratelimit', 'ratelimit-policy', 'retry-after'] : [])
        t.ok(exposed.split(/, ?/).includes(name), name)
    }
  }
})

fieldCase('C127', 'preflights cost nothing and are never refused, and any other OPTIONS counts', async t => {
  for (const [order, build] of Object.entries(orders)) {
    for (const hook of ['onRequest', 'preParsing', 'preHandler'] as readonly Hook[]) {
      const { app, clock } = await serve(t, { two: { quota: 2, window: 60, hook } }, build)
      const about = `${order}, ${hook}`
      const gets: number[] = []
      for (let i = 0; i < 3; i++) {
        t.match(await ask(app, preflight), { status: 204, limits: [], policies: [] }, about)
        gets.push((await ask(app, { headers: { origin } })).status)
      }
      t.strictSame(gets, [200, 200, 429], about)
      for (const { status, headers, limits } of await repeat(app, 50, preflight))
        t.strictSame([status, headers['access-control-allow-origin'], limits], [204, origin, []])
      clock.at(60)
      await repeat(app, 50, preflight)
      t.match(await ask(app, { headers: { origin } }), { status: 200, limits: [{ r: 1 }] }, about)
    }
  }
  const { app } = await serve(t, { two: '2/60s' }, { routes: app => app.options('/', async () => 'options') })
  t.match(await ask(app, preflight), { status: 200, limits: [] })
  t.match(await repeat(app, 3, { method: 'OPTIONS' }), [
    { status: 200, limits: [{ r: 1 }] },
    { status: 200, limits: [{ r: 0 }] },
    { status: 429, limits: [{ r: 0 }] }
  ])
  t.match(await ask(app, preflight), { status: 200 })
})

fieldCase(
  'C129',
  'a refusal is not kept by caches, whatever the application says of its resources',
  async t => {
    const ofTheApp = {
      'cache-control': 'public, max-age=300',
      etag: '"of the resource"',
      'last-modified': 'Mon, 30 Nov 2026 08:00:00 GMT',
      expires: 'Mon, 30 Nov 2026 20:00:00 GMT',
      'cdn-cache-control': 'max-age=600',
      'surrogate-control': 'max-age=600'
    }
    const set = (app: FastifyInstance): void => {
      app.addHook('onRequest', async (_request, reply) => void reply.headers(ofTheApp))
    }
    for (const hook of ['onRequest', 'preParsing', 'preHandler'] as readonly Hook[]) {
      const { app } = await serve(t, { one: { quota: 1, window: 60, hook } }, { before: set })
      const [served, refused] = await repeat(app, 2)
      t.match(served, { status: 200, headers: ofTheApp }, hook)
      t.equal(refused!.status, 429)
      t.equal(refused!.headers['cache-control'], 'no-store')
      for (const name of Object.keys(ofTheApp).slice(1)) t.equal(refused!.headers[name], undefined, name)
    }
  }
)

type Answer = Pick<Told, 'status' | 'headers' | 'body' | 'retryAfter'>

/** A refusal as a client of HTTP/2 sees it. */
async function overHttp2(
  t: Test,
  options: QuotaOptions,
  headers: Readonly<Record<string, string>>
): Promise<Answer> {
  const app = Fastify({ http2: true })
  t.teardown(() => app.close())
  await app.register(quota, { ...options, clock: new Clock().read })
  app.get('/', async () => 'served')
  const client = connect(`http://127.0.0.1:${await portOf(app as unknown as FastifyInstance)}`)
  t.teardown(() => client.destroy())
  const send = async (method: string): Promise<Answer> => {
    const stream = client.request({ ':path': '/', ':method': method, ...headers })
    const head = new Promise<Told['headers']>(resolve => stream.once('response', resolve as never))
    const body = await text(stream)
    const { ':status': status, ...fields } = (await head) as Told['headers'] & { readonly ':status': number }
    return {
      status,
      headers: fields,
      body,
      retryAfter: Number(fields['retry-after'])
    }
  }
  await send('GET')
  return send('GET')
}

fieldCase('C131', 'a refusal is the same problem document, however it is asked for', async t => {
  const policies = { first: '1/60s', second: { quota: 1, window: '90s', partition: 'caller' } } as const
  const options: QuotaOptions = { identify: { caller: () => 'secret-caller' }, policies }
  const { app } = await serve(t, options)
  await ask(app)
  const html = { accept: 'text/html,*/*;q=0.1' }
  const usual = await ask(app)
  const answers: Readonly<Record<string, Answer>> = {
    usual,
    html: await ask(app, { headers: html }),
    unmatched: await ask(app, '/nowhere'),
    'HTTP/2': await overHttp2(t, options, html)
  }
  for (const [how, { status, headers, body, retryAfter }] of Object.entries(answers)) {
    t.equal(status, 429, how)
    t.equal(headers['content-type'], 'application/problem+json; charset=utf-8', how)
    t.equal(headers['content-length'], String(Buffer.byteLength(body)), how)
    const document = JSON.parse(body) as Readonly<Record<string, unknown>>
    t.match(document, {
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      status: 429,
      title: 'Quota Exceeded',
      'violated-policies': ['second', 'first']
    })
    t.match(
      document['detail'],
      new RegExp(`\\b${retryAfter} seconds`),
      'the body tells the wait of the field'
    )
    t.equal(retryAfter, 90)
    t.match(headers['ratelimit'], /^"second";.*, "first";/, 'in the order of the field')
    t.notMatch(body, /127\.0\.0\.1|secret-caller/)
  }
  const head = await ask(app, { method: 'HEAD' })
  t.strictSame([head.status, head.body], [429, ''])
  for (const name of Object.keys(usual.headers).filter(name => name !== 'date'))
    t.strictSame(head.headers[name], usual.headers[name], `HEAD has the same ${name}`)
})
