import Fastify from 'fastify'
import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifyServerOptions,
  InjectOptions,
  LightMyRequestResponse
} from 'fastify'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { QuotaOptions, Store } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory.js'

/** A time that moves when a test says so, in milliseconds. */
export class Clock {
  now: number = Date.UTC(2026, 10, 30)
  readonly read: () => number = () => this.now

  pass(ms: number): void {
    this.now += ms
  }
}

export interface Line {
  readonly level: number
  readonly msg: string
  readonly option?: string
  readonly err?: { readonly code?: string; readonly message: string }
}

export interface Server {
  readonly app: FastifyInstance
  readonly clock: Clock
  /** What was logged as an error. */
  readonly errors: readonly Line[]
  /** Sends one request after the other and gives their statuses. */
  readonly statuses: (...requests: readonly Sent[]) => Promise<readonly number[]>
}

type Sent = string | InjectOptions

/** An app whose errors are read by the test, without the plugin. */
export function bare(t: Test, options: FastifyServerOptions = {}): Server {
  const errors: Line[] = []
  const stream = { write: (line: string) => void errors.push(JSON.parse(line) as Line) }
  const app = Fastify({ ...options, logger: { level: 'error', stream } }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  const statuses = async (...requests: readonly Sent[]): Promise<readonly number[]> => {
    const codes: number[] = []
    for (const request of requests) codes.push((await app.inject(request)).statusCode)
    return codes
  }
  return { app, clock: new Clock(), errors, statuses }
}

/** An app with the plugin, loaded; its clock stands still. Two routes wait for requests: `GET /` and `POST /`. */
export async function serve(
  t: Test,
  options: QuotaOptions | QuotaOptions['policies'],
  fastify?: FastifyServerOptions
): Promise<Server> {
  const server = bare(t, fastify)
  const { app, clock } = server
  await app.register(quota, { clock: clock.read, ...(isOptions(options) ? options : { policies: options }) })
  app.get('/', async () => 'served')
  app.post('/', async () => 'served')
  return server
}

export interface LaterServer extends Server {
  readonly store: LaterStore
}

/** As {@link serve}, with a store that answers later. */
export async function serveLater(
  t: Test,
  options: QuotaOptions | QuotaOptions['policies']
): Promise<LaterServer> {
  const server = bare(t)
  const { app, clock } = server
  const store = new LaterStore(clock.read)
  await app.register(quota, { ...(isOptions(options) ? options : { policies: options }), store })
  app.get('/', async () => 'served')
  app.post('/', async () => 'served')
  return { ...server, store }
}

/** An app with the plugin for each kind of store; what is true of one is true of the other. */
export const stores: Readonly<Record<string, typeof serve | typeof serveLater>> = {
  'a store that answers at once': serve,
  'a store that answers later': serveLater
}

export type Act = (request: FastifyRequest, reply: FastifyReply) => unknown

/** A route, `GET /act`, whose handler does what a test says at the time. */
export function acting(
  app: FastifyInstance,
  quota?: FastifyContextConfig['quota']
): (act: Act, request?: InjectOptions) => Promise<LightMyRequestResponse> {
  let now: Act
  const config = quota === undefined ? {} : { quota }
  app.get('/act', { config }, async (request, reply) => (await now(request, reply)) ?? 'done')
  return (act, request = {}) => {
    now = act
    return app.inject({ url: '/act', ...request })
  }
}

const isOptions = (options: QuotaOptions | QuotaOptions['policies']): options is QuotaOptions =>
  typeof options['policies'] === 'object' && !('quota' in options['policies'])

/** Starts an app; a promise, which the one of Fastify is not quite. */
export async function ready(app: FastifyInstance): Promise<void> {
  await app.ready()
}

/** The units left by policy, in the order of the `RateLimit` field. */
export function left({ headers }: LightMyRequestResponse): Readonly<Record<string, number>> {
  const items = String(headers['ratelimit'] ?? '').matchAll(/"([^"]+)";r=(\d+)/g)
  return Object.fromEntries([...items].map(([, name, units]) => [name, Number(units)]))
}

/** The names in `RateLimit-Policy`. */
export function listed({ headers }: LightMyRequestResponse): readonly string[] {
  return [...String(headers['ratelimit-policy'] ?? '').matchAll(/"([^"]+)";q=/g)].map(([, name]) => name!)
}

/** The names of the policies that refused. */
export const violated = (response: LightMyRequestResponse): unknown =>
  response.json<{ 'violated-policies': unknown }>()['violated-policies']

/** What `app.quota.peek` finds left for an address, by policy. */
export async function leftOf(
  app: FastifyInstance,
  policies: readonly string[],
  subject: Readonly<Record<string, string>> = { ip: '127.0.0.1' }
): Promise<Readonly<Record<string, number>>> {
  const { limits } = await app.quota.peek(subject, policies)
  return Object.fromEntries(limits.map(({ policy, remaining }) => [policy.name, remaining]))
}

export interface Warning {
  readonly code: string
  readonly message: string
}

/** The warnings of the plugin, from now to the end of the test. */
export function watchWarnings(t: Test): { readonly heard: () => Promise<readonly Warning[]> } {
  const warnings: Warning[] = []
  const listen = (warning: Error & { code?: string }): void => {
    if (warning.name === 'FastifyQuotaWarning')
      warnings.push({ code: String(warning.code), message: warning.message })
  }
  process.on('warning', listen)
  t.teardown(() => process.off('warning', listen))
  return { heard: () => new Promise(resolve => setImmediate(() => resolve(warnings))) }
}

/** Moves the time of logs and other reports, which is not the time quota is counted in. */
export function stopProcessTime(t: Test): Clock {
  const clock = new Clock()
  Object.defineProperty(performance, 'now', { value: clock.read, configurable: true })
  t.teardown(() => Reflect.deleteProperty(performance, 'now'))
  return clock
}

/** A memory store that answers later, as one does that has to ask somebody. */
export class LaterStore implements Store {
  readonly calls: string[] = []
  readonly #store: ReturnType<typeof memoryStore> = memoryStore()

  constructor(clock: () => number) {
    this.#store.useClock(clock)
  }

  consume(charges: Parameters<Store['consume']>[0]): Promise<Awaited<ReturnType<Store['consume']>>> {
    return this.#later('consume', () => this.#store.consume(charges))
  }

  settle(settlements: Parameters<Store['settle']>[0]): Promise<Awaited<ReturnType<Store['settle']>>> {
    return this.#later('settle', () => this.#store.settle(settlements))
  }

  renew(leases: Parameters<Store['renew']>[0]): Promise<Awaited<ReturnType<Store['renew']>>> {
    return this.#later('renew', () => this.#store.renew(leases))
  }

  peek(charges: Parameters<Store['peek']>[0]): Promise<Awaited<ReturnType<Store['peek']>>> {
    return this.#later('peek', () => this.#store.peek(charges))
  }

  reset(charges: Parameters<Store['reset']>[0]): Promise<void> {
    return this.#later('reset', () => this.#store.reset(charges))
  }

  close(): Promise<void> {
    return this.#later('close', () => this.#store.close())
  }

  #later<T>(call: string, answer: () => T): Promise<T> {
    return new Promise(resolve => {
      setImmediate(() => {
        this.calls.push(call)
        resolve(answer())
      })
    })
  }
}
