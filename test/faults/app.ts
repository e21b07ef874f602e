import { subscribe } from 'node:diagnostics_channel'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { LogController } from 'fastify'
import quota, { redisStore } from '../../src/index.js'
import type { Duration, FailureMode, PolicyOptions, RedisStoreOptions, StoreChange } from '../../src/index.js'
import { CountedRedis } from './counted-redis.js'

/*
 * The app of the fault bench, a process of its own: nothing that makes load or faults disturbs it. Its options are its
 * argument. Its parent gets the port in the first message, an answer for each word it sends, and ends it by `close`.
 */

export interface AppOptions {
  /** Of Redis. */
  readonly port: number
  /** Each has a policy of its name, and a route that has this policy. */
  readonly modes: readonly FailureMode[]
  /** Of each policy, in a day. */
  readonly quota: number
  readonly instances: number
  readonly deadline: Duration
  readonly connection: NonNullable<RedisStoreOptions['connection']>
}

/** What the app is asked, and what it answers. */
export interface Answers {
  /** Ends a phase, tells of it, and begins the next one. */
  readonly phase: Phase
  /** Forgets what was counted, told and logged, as if the app had just started. */
  readonly renew: null
  readonly books: Books
  /** Closes the app; the process has to end by itself then. Tells milliseconds. */
  readonly close: number
}

/** Milliseconds. */
export interface Spread {
  readonly p99: number
  readonly max: number
}

export interface Phase {
  /** What decisions added to requests that were decided in this phase, by mode. */
  readonly waits: Readonly<Partial<Record<FailureMode, Spread & { readonly overdue: number }>>>
  /** How late the event loop was. */
  readonly loop: Spread
}

export interface Line {
  readonly level: number
  readonly msg: string
  readonly code?: string
}

export interface Books {
  /** Units that Redis has counted, by mode; `undefined`: it could not be asked. */
  readonly charged: Readonly<Partial<Record<FailureMode, number>>>
  /** What the store told of itself. */
  readonly changes: readonly Pick<StoreChange, 'state' | 'code'>[]
  /** What was logged, but for the address that is listened to. */
  readonly lines: readonly Line[]
  /** Connections to Redis that the store has made. */
  readonly connections: number
  /** Codes or names of process warnings. */
  readonly warnings: readonly string[]
  /** Uncaught exceptions, unhandled rejections, and errors that reached the error handler. */
  readonly problems: readonly string[]
}

const {
  port,
  modes,
  quota: units,
  instances,
  deadline,
  connection
} = JSON.parse(process.argv[2]!) as AppOptions
const millisecondsOf = (duration: Duration): number => Number.parseInt(String(duration), 10)

/** Milliseconds. */
const PATIENCE = 10_000

const begun = new WeakMap<object, number>()
const waits = new Map<FailureMode, number[]>()
let changes: Books['changes'][number][] = []
/** What is logged when an app starts, whatever becomes of Redis. */
const AT_BOOT = /^Server listening|^fastify-quota: \d+ routes? with quota/

let lines: Line[] = []
let warnings: string[] = []
let problems: string[] = []
let closing = false

process.on('uncaughtException', (error, origin) => problems.push(`${origin}: ${error.stack}`))
process.once('disconnect', () => closing || process.exit(1)) // the bench is gone
process.on('warning', warning => warnings.push((warning as NodeJS.ErrnoException).code ?? String(warning)))
subscribe('fastify-quota:store', message => {
  const { state, code } = message as StoreChange
  changes.push({ state, code })
})

const loop = monitorEventLoopDelay({ resolution: 1 })
const client = new CountedRedis({
  host: '127.0.0.1',
  port,
  lazyConnect: true,
  // One that is shared is ended here. By itself it would hold the process for 2 s.
  ...(connection === 'shared' && { disconnectTimeout: 100 })
})
const app = Fastify({
  forceCloseConnections: true,
  logController: new LogController({ disableRequestLogging: true }),
  logger: { level: 'info', stream: { write: text => keep(JSON.parse(text) as Line) } }
})

app.addHook('onRequest', async request => void begun.set(request, performance.now()))
app.addHook('onError', async (_request, _reply, error) => void problems.push(`onError: ${error.stack}`))
app.addHook('onSend', async (request, reply) => void reply.header('x-source', request.quota.source))
await app.register(quota, {
  policies: Object.fromEntries(modes.map(mode => [mode, policy(mode)])),
  store: redisStore(client, { onFailure: 'open', secret: 's'.repeat(32), instances, deadline, connection }),
  logRefusals: false, // the lines that are looked at are those about the store
  onRefused: (_decision, request) => decided(request)
})
app.addHook('preHandler', async request => decided(request))
for (const mode of modes) app.get(`/${mode}`, { config: { quota: [mode] } }, async () => 'served')
if (connection === 'shared') app.addHook('onClose', async () => client.disconnect())

await app.listen({ host: '127.0.0.1', port: 0 })
loop.enable()
process.on('message', word => void answer(word as keyof Answers))
process.send!((app.server.address() as AddressInfo).port)

function policy(mode: FailureMode): PolicyOptions {
  return { quota: units, window: '59m', partition: 'global', onStoreFailure: mode, default: false }
}

function keep({ level, msg, code }: Line): void {
  if (!AT_BOOT.test(msg)) lines.push({ level, msg, ...(code === undefined ? {} : { code }) })
}

/** Keeps what the decision about a request took. */
function decided(request: { readonly routeOptions: { readonly url?: string | undefined } }): void {
  const mode = request.routeOptions.url?.slice(1) as FailureMode
  const known = waits.get(mode)
  const wait = performance.now() - begun.get(request)!
  if (known === undefined) waits.set(mode, [wait])
  else known.push(wait)
}

async function answer(word: keyof Answers): Promise<void> {
  const answers: { readonly [Word in keyof Answers]: () => Answers[Word] | Promise<Answers[Word]> } = {
    phase,
    renew,
    books,
    close
  }
  const known = await answers[word]()
  process.send!(known, () => word === 'close' && process.disconnect())
}

function phase(): Phase {
  const ms = (nanoseconds: number): number => nanoseconds / 1e6
  const done = {
    waits: Object.fromEntries([...waits].map(([mode, times]) => [mode, spread(times)])),
    loop: { p99: ms(loop.percentile(99)), max: ms(loop.max) }
  }
  waits.clear()
  loop.reset()
  return done
}

function spread(times: readonly number[]): Spread & { readonly overdue: number } {
  const sorted = times.toSorted((a, b) => a - b)
  return {
    p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
    max: sorted.at(-1) ?? 0,
    overdue: times.filter(time => time >= millisecondsOf(deadline)).length
  }
}

async function renew(): Promise<null> {
  await app.quota.reset({}, modes)
  changes = []
  lines = []
  warnings = []
  problems = []
  client.connections = 0
  phase()
  return null
}

async function books(): Promise<Books> {
  const charged: Partial<Record<FailureMode, number>> = {}
  const end = performance.now() + PATIENCE
  for (const mode of modes) {
    while (charged[mode] === undefined && performance.now() < end) {
      const { source, limits } = await app.quota.peek({}, [mode])
      if (source === 'redis') charged[mode] = units - limits[0]!.remaining
      else await sleep(50)
    }
  }
  return { charged, changes, lines, connections: client.connections, warnings, problems }
}

async function close(): Promise<number> {
  closing = true
  const start = performance.now()
  await app.close()
  return performance.now() - start
}
