import { Agent, request as send } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota, { redisStore } from '../../src/index.js'
import type { AlgorithmName, QuotaOptions, Store } from '../../src/index.js'
import { compilePolicy } from '../../src/policy.js'
import { NOON, members } from '../fixtures/wire.js'
import type { Member } from '../fixtures/wire.js'
import { startRedis } from '../redis/servers.js'
import type { RedisServer } from '../redis/servers.js'
import { PATIENT, clientOf, until } from '../stores/redis/kit.js'
import type { CaseId } from './ids.js'

/** Declares the test of a case; the title says what is right. */
export function fieldCase(id: CaseId, title: string, probe: (t: Test) => Promise<unknown>): void {
  t.test(`${id}: ${title}`, async t => {
    await probe(t)
  })
}

/** The server's time: it stands still until a test moves it. */
export class Clock {
  now: number = NOON
  readonly read: () => number = () => this.now

  /** Moves it to so many seconds after the start. */
  at(seconds: number): void {
    this.now = NOON + Math.round(seconds * 1000)
  }
}

/** The algorithms that count in time. */
export const ALGORITHMS: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
]

export interface Build {
  readonly fastify?: FastifyServerOptions
  /** Before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => unknown
  /** After it; default: `GET /` answers 200. */
  readonly routes?: (app: FastifyInstance) => unknown
  /** Default: one of the test's own, so that apps of one test have the same time. */
  readonly clock?: Clock
}

/** A line that was logged as a warning or worse. */
export interface Line {
  readonly level: number
  readonly msg: string
  readonly option?: string
  readonly err?: { readonly code?: string; readonly message: string }
}

export interface Served {
  readonly app: FastifyInstance
  readonly clock: Clock
  readonly log: readonly Line[]
}

export type Serve = (options: QuotaOptions | QuotaOptions['policies'], build?: Build) => Promise<Served>

/** An app with the plugin that counts in memory, ready for requests, and closed when the test ends. */
export async function serve(
  t: Test,
  options: QuotaOptions | QuotaOptions['policies'],
  build: Build = {}
): Promise<Served> {
  const clock = build.clock ?? new Clock()
  return serveWith(t, { clock: clock.read, ...asOptions(options) }, build, clock)
}

/** An app that counts in a store that has a time of its own. */
export function serveIn(
  t: Test,
  store: Store,
  options: QuotaOptions | QuotaOptions['policies'],
  build: Build = {}
): Promise<Served> {
  return serveWith(t, { ...asOptions(options), store }, build, build.clock ?? new Clock())
}

/** An app that counts on a real Redis that is told the time; its keys begin with `prefix`. */
export async function inRedis(
  t: Test,
  options: QuotaOptions | QuotaOptions['policies'],
  prefix: string,
  build: Build = {}
): Promise<Served> {
  const clock = build.clock ?? new Clock()
  const store = redisStore(clientOf(t, await redis()), { ...PATIENT, prefix, time: 'caller' })
  store.useClock(clock.read)
  const served = await serveIn(t, store, options, { ...build, clock })
  await untilAnswers(store)
  return served
}

/** Waits until Redis has answered for all of many partitions: an app starts without it where that takes long. */
export async function untilAnswers(store: Store): Promise<void> {
  const policy = compilePolicy('ready', { quota: 1, window: 1 }, [])
  const places = Array.from({ length: 50 }, (_, i) => ({ policy, partition: `ready ${i}` }))
  await until('Redis', async () => {
    const { limits, source } = await store.peek(places)
    return source === 'redis' && limits.length === places.length
  })
}

/** Runs a probe twice: counted in memory, and on a real Redis. */
export async function inBothStores(
  t: Test,
  probe: (t: Test, serve: Serve) => Promise<unknown>
): Promise<void> {
  await t.test('in memory', async t => {
    const clock = new Clock()
    await probe(t, (options, build = {}) => serve(t, options, { clock, ...build }))
  })
  await t.test('in Redis', async t => {
    const clock = new Clock()
    const prefix = newPrefix()
    await probe(t, (options, build = {}) => inRedis(t, options, prefix, { clock, ...build }))
  })
}

let server: Promise<RedisServer> | undefined

/** The Redis of a test file, started when it is first needed. */
export function redis(): Promise<RedisServer> {
  return (server ??= startRedis(t))
}

let prefixes = 0

/** What the keys of a test begin with, and no others. */
export const newPrefix = (): string => `case${++prefixes}`

export interface Asked {
  readonly url?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The address that the request seems to come from. Such a request takes no socket. */
  readonly from?: string
}

/** What a client is told. */
export interface Told {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The members of `RateLimit-Policy`. */
  readonly policies: readonly Member[]
  /** The members of `RateLimit`. */
  readonly limits: readonly Member[]
  /** Seconds; not a number where none is told. */
  readonly retryAfter: number
}

/** Those of one app after the other share a connection, as those of a client do. */
const agent: Agent = new Agent({ keepAlive: true })

/** Sends a request over a socket. */
export async function ask(app: FastifyInstance, asked: string | Asked = '/'): Promise<Told> {
  const request = typeof asked === 'string' ? { url: asked } : asked
  const { status, headers, body } =
    request.from === undefined ? await overSocket(app, request) : await injected(app, request)
  return {
    status,
    headers,
    body,
    // Read when asked for: the older forms have these names, too.
    get policies() {
      return members(headers['ratelimit-policy'])
    },
    get limits() {
      return members(headers['ratelimit'])
    },
    retryAfter: Number(headers['retry-after'])
  }
}

/** Sends requests one after the other and gives their statuses. */
export async function statuses(
  app: FastifyInstance,
  ...requests: readonly (string | Asked)[]
): Promise<readonly number[]> {
  const codes: number[] = []
  for (const request of requests) codes.push((await ask(app, request)).status)
  return codes
}

/** Sends a request so many times, one after the other. */
export async function repeat(
  app: FastifyInstance,
  times: number,
  request: string | Asked = '/'
): Promise<readonly Told[]> {
  const answers: Told[] = []
  for (let i = 0; i < times; i++) answers.push(await ask(app, request))
  return answers
}

type Response = Pick<Told, 'status' | 'headers' | 'body'>

async function injected(app: FastifyInstance, { from, body, ...request }: Asked): Promise<Response> {
  const { statusCode, headers, payload } = await app.inject({
    url: '/',
    ...(request as object),
    ...(body === undefined ? {} : { payload: body }),
    remoteAddress: from!
  })
  return { status: statusCode, headers: headers as IncomingHttpHeaders, body: payload }
}

async function overSocket(
  app: FastifyInstance,
  { url = '/', method = 'GET', headers = {}, body }: Asked
): Promise<Response> {
  const port = await portOf(app)
  return new Promise((resolve, reject) => {
    const request = send({ host: '127.0.0.1', port, path: url, method, headers, agent }, response => {
      const { statusCode, headers } = response
      text(response).then(body => resolve({ status: statusCode!, headers, body }), reject)
    })
    request.on('error', reject).end(body)
  })
}

/** The port an app listens on; it begins to if it does not yet. */
export async function portOf(app: FastifyInstance): Promise<number> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

async function serveWith(t: Test, options: QuotaOptions, build: Build, clock: Clock): Promise<Served> {
  const log: Line[] = []
  const stream = { write: (line: string) => void log.push(JSON.parse(line) as Line) }
  const app = Fastify({ ...build.fastify, logger: { level: 'warn', stream } }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await build.before?.(app)
  await app.register(quota, options)
  if (build.routes === undefined) app.get('/', async () => 'served')
  else await build.routes(app)
  await app.ready()
  return { app, clock, log }
}

const asOptions = (options: QuotaOptions | QuotaOptions['policies']): QuotaOptions =>
  isOptions(options) ? options : { policies: options }

const isOptions = (options: QuotaOptions | QuotaOptions['policies']): options is QuotaOptions =>
  typeof options['policies'] === 'object' && !('quota' in options['policies'])
