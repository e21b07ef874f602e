import { execFile, spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { build as batches } from '../examples/redis-batches.js'
import { build as liveChange } from '../examples/redis-live-change.js'
import { build as ownClient } from '../examples/redis-own-client.js'
import { build as failureModes } from '../examples/redis-two-processes/app.js'
import { build as redis, serve } from '../examples/redis.js'
import quota, { redisStore } from '../src/index.js'
import type { QuotaOptions } from '../src/index.js'
import { startRedis } from './redis/servers.js'

t.setTimeout(120_000)

const root = new URL('../../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')
const PROGRAM = fileURLToPath(new URL('dist/examples/redis-two-processes.js', root))

const server = await startRedis(t)
const REDIS = { REDIS_PORT: String(server.port), QUOTA_SECRET: 'of 32 bytes or more, as it should' }
Object.assign(process.env, REDIS)

t.afterEach(async () => {
  if (!server.running) await server.restart()
  await server.command('FLUSHALL')
})

/** The app, closed when the test ends. */
async function opened(t: Test, app: Promise<FastifyInstance>): Promise<FastifyInstance> {
  const instance = await app
  t.teardown(() => instance.close())
  return instance
}

/** Looks again until it holds: a busy machine may miss a deadline, and then Redis has not been asked. */
async function eventually(t: Test, what: string, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000
  let held = await look()
  while (!held && performance.now() < end) {
    await sleep(10)
    held = await look()
  }
  t.ok(held, what)
}

/** Whether Redis has decided: else there are no numbers to tell. */
const decided = ({ headers }: LightMyRequestResponse): boolean => headers.ratelimit !== undefined

t.test('redis-live-change: what is changed in one process is changed in all, if it is right', async t => {
  const [one, other] = [await opened(t, liveChange()), await opened(t, liveChange())]
  for (const app of [one, other]) await app.ready()
  const quotas = (): readonly unknown[] =>
    [one, other].map(app => app.quota.routes().routes.map(({ policies }) => policies[0]?.quota)[0])
  const put = (payload: object): Promise<LightMyRequestResponse> =>
    one.inject({ method: 'PUT', url: '/quotas', payload })
  t.strictSame(quotas(), [100, 100])
  const changed = await put({ default: { quota: 5 } })
  t.match(changed.json(), [{ policy: 'default', to: { quota: 5 }, carriesOver: true }])
  await eventually(t, 'the other one has heard of it', async () => quotas()[1] === 5)
  t.match((await other.inject('/')).headers, { 'ratelimit-policy': '"default";q=5;w=60' })
  const wrong = await put({ default: { qouta: 9 } })
  t.equal(wrong.statusCode, 400)
  t.match(wrong.json(), { error: /did you mean "quota"\?/ })
  t.strictSame(quotas(), [5, 5])
  for (const text of ['no JSON', '{"policies":{"later":"5/1m"}}'])
    await one.redis.publish('quota-changes', text)
  await put({ default: { quota: 6 } })
  await eventually(t, 'what one does not understand ends no process', async () => quotas()[1] === 6)
  server.pause()
  const alone = await put({ default: { quota: 7 } })
  server.resume()
  t.match([alone.statusCode, alone.json()], [503, { error: /this process only/ }])
  one.redis.emit('error', new Error('the connection was lost'))
  t.equal((await one.inject('/')).statusCode, 200, 'what a client tells of its connection is logged')
})

t.test('redis: two apps have one quota', async t => {
  const [one, other] = [await opened(t, redis()), await opened(t, redis())]
  const local = { ip: '127.0.0.1' }
  await eventually(t, 'the quota is that of both', async () => {
    await one.quota.reset(local)
    await one.quota.consume(local, { default: 98 })
    const answers = [await one.inject('/'), await other.inject('/'), await one.inject('/')]
    const limits = ['"default";r=1;t=60', '"default";r=0;t=60', '"default";r=0;t=60']
    return (
      answers.map(({ statusCode }) => statusCode).join() === '200,200,429' &&
      answers.every(({ headers }, i) => headers.ratelimit === limits[i])
    )
  })
  const listen = t.captureFn(async () => 'http://localhost:3000')
  await serve({ listen } as unknown as FastifyInstance)
  t.match(listen.args(), [[{ port: 3000 }]])
})

t.test('redis-own-client: the boot stops without a secret', async t => {
  delete process.env['QUOTA_SECRET']
  t.teardown(() => Object.assign(process.env, REDIS))
  await t.rejects(ownClient(), { code: 'FST_QUOTA_OPTION', message: /secret is required/ })
})

t.test('redis: what its client says of an outage is logged', async t => {
  const app = await opened(t, redis())
  const warned = t.capture(app.log, 'warn')
  await server.kill()
  await eventually(t, 'logged', async () => warned.args().length > 0)
})

t.test('redis-own-client: it starts without Redis, and counts there once it is up', async t => {
  await server.kill()
  const app = await opened(t, ownClient())
  const answer = await app.inject('/')
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers['ratelimit-policy'], undefined)
  await server.restart()
  await eventually(t, 'counted in Redis', async () => decided(await app.inject('/')))
  t.match(await server.command('KEYS', 'q1:{*}'), /^q1:\{[\w-]{22}\}/)
})

t.test('redis-two-processes: each policy does without Redis in its way', async t => {
  const app = await opened(t, failureModes())
  const login = { method: 'POST', url: '/login' } as const
  t.ok(decided(await app.inject('/')))
  t.ok(decided(await app.inject('/search')))
  t.ok(decided(await app.inject(login)))
  await server.kill()
  await eventually(t, 'closed', async () => (await app.inject(login)).statusCode === 503)
  const refused = await app.inject(login)
  t.match(refused.headers['retry-after'], /^[1-4]$/)
  t.match(refused.json(), { title: 'Temporary Reduced Capacity', status: 503 })
  const searches = await Promise.all(Array.from({ length: 100 }, () => app.inject('/search')))
  t.ok(
    searches.every(answer => answer.statusCode === 200 && !decided(answer)),
    'open'
  )
  const all = await Promise.all(Array.from({ length: 100 }, () => app.inject('/')))
  t.equal(all.filter(({ statusCode }) => statusCode === 200).length, 50, 'local: half of the quota')
  const last = all.at(-1)!
  t.match(last.statusCode, 429)
  t.match(last.headers, { ratelimit: /^"default";r=0;t=\d+$/, 'retry-after': /^\d+$/ })
})

t.test('redis-batches: most requests ask nobody', async t => {
  const app = await opened(t, batches())
  const post = { method: 'POST', url: '/events' } as const
  await eventually(t, 'counted in Redis', async () => decided(await app.inject(post)))
  const before = await scriptCalls()
  for (let i = 0; i < 300; i++) await app.inject(post)
  const calls = (await scriptCalls()) - before
  t.ok(calls > 0 && calls < 150, `${calls} calls`)
})

async function scriptCalls(): Promise<number> {
  const [, calls] = /cmdstat_evalsha:calls=(\d+)/.exec(await server.command('INFO', 'commandstats')) ?? []
  return Number(calls ?? 0)
}

t.test('the permissions that the README lists are those that a store needs', async t => {
  const [, permissions = ''] = /`(~q1:\* [^`]+)`/.exec(readme) ?? []
  await server.command('ACL', 'SETUSER', 'quota', 'on', '>password', ...permissions.split(' '))
  await server.command('ACL', 'LOG', 'RESET')
  const app = await opened(t, permitted())
  const subject = { ip: '203.0.113.9' }
  const place = await app.quota.reserve(subject, 'places', 1)
  await place.release()
  const spent = await app.quota.consume(subject, { requests: 1, rows: 1 })
  const left = await app.quota.peek(subject)
  t.strictSame([place.source, spent.source, left.source], ['redis', 'redis', 'redis'])
  // One decision in a hundred looks for what policies have left behind that are in use no more.
  const later = await opened(t, permitted({ other: '1000/1m' }))
  await Promise.all(Array.from({ length: 200 }, () => later.quota.consume(subject, { other: 1 })))
  await app.quota.reset(subject)
  const denied = [...(await server.command('ACL', 'LOG')).matchAll(/^object\n(.*)$/gm)].map(
    ([, what]) => what
  )
  // Later servers than 7.0 are told the client's version by ioredis, if they want to know.
  t.strictSame(
    denied.filter(what => what !== 'client|setinfo'),
    []
  )
})

/** An app whose user may do nothing but what the README says. */
async function permitted(
  policies: QuotaOptions['policies'] = {
    requests: { quota: 1000, window: '1m' },
    places: { quota: 2, algorithm: 'concurrency' },
    rows: { quota: 100, window: '1m', algorithm: 'token-bucket', unit: 'rows' }
  }
): Promise<FastifyInstance> {
  const { host, port } = server
  const client = new Redis({ host, port, username: 'quota', password: 'password', lazyConnect: true })
  const { QUOTA_SECRET: secret } = REDIS
  const app = Fastify()
  await app.register(quota, {
    policies,
    store: redisStore(client, { onFailure: 'closed', deadline: '10s', secret })
  })
  return app
}

t.test('redis-two-processes, the program', async t => {
  t.test('--watch shows that Redis goes and comes, and what clients see then', async t => {
    const program = start('--watch')
    t.teardown(() => program.kill('SIGKILL'))
    const output = new Output(program.stdout)
    const promised = /^\$ node dist\/examples\/redis-two-processes\.js\n([^]*?)^```$/m.exec(readme)?.[1] ?? ''
    t.equal(anytime(await output.has(/process 2 has served.*\n/)), anytime(promised), 'what the README shows')
    await output.has(/process [12]: GET \/ 429 {3}POST \/login \d+ {3}GET \/search \d+$/m)
    await server.kill()
    await output.has(/process 1 says that Redis is down/)
    await output.has(
      /process 2: GET \/ \d+(, no fields)? {3}POST \/login 503, no fields {3}GET \/search 200, no fields/
    )
    await server.restart()
    await output.has(/process 1 says that Redis is up: OK/)
    await output.has(/process 2: GET \/ 200 {3}POST \/login \d+ {3}GET \/search \d+$/m)
    program.kill('SIGTERM')
    t.strictSame(await once(program, 'exit'), [0, null])
  })

  t.test('says what it lacks', async t => {
    const said = await Promise.all([failure({ QUOTA_SECRET: undefined }), failure({ REDIS_PORT: '1' })])
    t.match(said[0], /^Set QUOTA_SECRET to 32 bytes or more/)
    t.match(said[1], /^Nobody listens on port 1: start redis-server/)
  })
})

/** A wait is shorter on a machine that has had to wait. */
const anytime = (text: string): string => text.replaceAll(/;t=\d+/g, ';t=60')

/** Without the test runner's loaders and coverage. */
const environment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  ...process.env,
  ...REDIS,
  NODE_OPTIONS: '',
  NODE_V8_COVERAGE: '',
  ...env
})

function start(...parameters: readonly string[]): ChildProcessByStdio<null, Readable, null> {
  return spawn(process.execPath, [PROGRAM, ...parameters], {
    env: environment({}),
    stdio: ['ignore', 'pipe', 'ignore']
  })
}

/** What the program says on its way out with 1. */
function failure(env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise(resolve => {
    execFile(process.execPath, [PROGRAM], { env: environment(env) }, (error, _stdout, stderr) => {
      resolve(error?.code === 1 ? stderr : `ended with ${error?.code}: ${stderr}`)
    })
  })
}

/** What a program prints, read on from where it was found last. */
class Output {
  readonly #chunks: AsyncIterator<string>
  #text = ''

  constructor(stream: Readable) {
    this.#chunks = stream.setEncoding('utf8')[Symbol.asyncIterator]() as AsyncIterator<string>
  }

  /** What was printed up to the end of a pattern. */
  async has(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.#text)
      if (found !== null) {
        const end = found.index + found[0].length
        const before = this.#text.slice(0, end)
        this.#text = this.#text.slice(end)
        return before
      }
      const { value, done } = await this.#chunks.next()
      if (done === true) throw new Error(`${pattern} has not been printed: ${this.#text}`)
      this.#text += value
    }
  }
}
