import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { fromFastifyRateLimit } from 'fastify-quota/migrate'

/** As it was written for `@fastify/rate-limit`, down to the routes. */
const options = {
  max: 5,
  timeWindow: '1 minute',
  keyGenerator: request => request.headers['x-api-key']?.toString() ?? request.ip,
  allowList: ['key-of-our-own'],
  errorResponseBuilder: (_request, { statusCode, after }) => ({
    statusCode,
    message: `Come back in ${after}.`
  })
} satisfies rateLimit.RateLimitPluginOptions

function routes(app: FastifyInstance): void {
  app.get('/items', () => ['hammer', 'nail'])
  app.get('/health', { config: { rateLimit: false } }, () => 'ok')
  app.post('/login', { config: { rateLimit: { max: 2, timeWindow: '15 minutes' } } }, () => ({ token: '…' }))
}

/** The app before. */
export async function before(): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(rateLimit, options)
  routes(app)
  return app
}

/** The app after: one line is another one. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, fromFastifyRateLimit(options))
  routes(app)

  return app
}

/** Where it is, once there is no hurry: no `rateLimit` is left, and no window admits twice its quota. */
export async function moved(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    identify: { key: request => request.headers['x-api-key']?.toString() },
    policies: {
      default: {
        quota: 5,
        window: '1m',
        partition: firstOf('key', 'ip'),
        exempt: request => request.headers['x-api-key'] === 'key-of-our-own'
      },
      login: { quota: 2, window: '15m', partition: firstOf('key', 'ip'), default: false }
    }
  })

  app.get('/items', () => ['hammer', 'nail'])
  app.get('/health', { config: { quota: false } }, () => 'ok')
  app.post('/login', { config: { quota: ['login'] } }, () => ({ token: '…' }))

  return app
}

/** What a client does who takes all there is: so many of a request at once, by key. */
const ATTACK = [
  { times: 8, method: 'GET', path: '/items', key: undefined },
  { times: 8, method: 'GET', path: '/items', key: 'key-of-somebody' },
  { times: 8, method: 'GET', path: '/items', key: 'key-of-our-own' },
  { times: 4, method: 'POST', path: '/login', key: undefined },
  { times: 8, method: 'GET', path: '/health', key: undefined }
] as const

/** Attacks an app over HTTP, and tells what was served and refused, and in which words. */
export async function attack(app: FastifyInstance): Promise<readonly string[]> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const lines: string[] = []
  for (const { times, method, path, key } of ATTACK) {
    const headers = key === undefined ? {} : { 'x-api-key': key }
    const ask = (): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
    const answers = await Promise.all(Array.from({ length: times }, ask))
    const texts = await Promise.all(answers.map(async answer => answer.text()))
    const refused = answers.findIndex(({ status }) => status !== 200)
    const served = answers.filter(({ status }) => status === 200).length
    const last = refused < 0 ? '' : `, the others ${wordsOf(answers[refused]!)} ${texts[refused]}`
    lines.push(`${method} ${path} ${key ?? 'without a key'}: ${served} of ${times} served${last}`)
  }
  await app.close()
  return lines
}

function wordsOf({ status, headers }: Response): string {
  const limit = headers.get('x-ratelimit-limit')
  return `${status}, limit ${limit}, wait ${headers.get('retry-after')} s:`
}

/* Run by itself, it shows both side by side. */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [theirs, ours] = [await attack(await before()), await attack(await build())]
  for (const [i, line] of theirs.entries()) {
    console.log(`@fastify/rate-limit  ${line}\nfastify-quota        ${ours[i]!}\n`)
  }
}
