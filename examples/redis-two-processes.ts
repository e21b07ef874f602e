import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

/*
 * Starts the API of redis-two-processes/app.ts in two processes and shows that they have one quota together, in a Redis on
 * the port in `REDIS_PORT`, by default 6379. `--watch` goes on until Ctrl-C and shows what clients see: stop Redis meanwhile,
 * and start it again.
 */

interface Api {
  readonly name: string
  readonly child: ChildProcess
  readonly origin: string
}

/** What a process tells of itself. */
interface Told {
  readonly origin?: string
  readonly state?: string
  readonly code?: string
}

/** What `--watch` sends. */
const REQUESTS = [
  ['GET', '/'],
  ['POST', '/login'],
  ['GET', '/search']
] as const

const { values: options } = parseArgs({ options: { watch: { type: 'boolean', default: false } } })
/* c8 ignore next: tests have a server of their own */
const port = Number(process.env['REDIS_PORT'] || 6379)
const stop = new AbortController()
const stopped = once(stop.signal, 'abort')
process.once('SIGINT', () => stop.abort())
process.once('SIGTERM', () => stop.abort())

if (Buffer.byteLength(process.env['QUOTA_SECRET'] ?? '') < 32) {
  console.error(
    'Set QUOTA_SECRET to 32 bytes or more, such as: export QUOTA_SECRET=$(openssl rand -base64 32)'
  )
  process.exitCode = 1
} else if (!(await isListening(port))) {
  console.error(`Nobody listens on port ${port}: start redis-server, or set REDIS_PORT.`)
  process.exitCode = 1
} else {
  await show()
}

async function show(): Promise<void> {
  const apis = await Promise.all([start('process 1'), start('process 2')])
  try {
    await Promise.race([stopped, drive(apis)])
  } finally {
    for (const { child } of apis) if (child.connected) child.disconnect()
  }
}

async function drive(apis: readonly Api[]): Promise<void> {
  await share(apis)
  if (options.watch) await watch(apis)
}

/** Starts a process with the API, and waits until it serves. */
async function start(name: string): Promise<Api> {
  const child = fork(new URL('redis-two-processes/server.js', import.meta.url))
  const [{ origin = '' }] = (await once(child, 'message')) as [Told]
  child.on('message', ({ state, code }: Told) =>
    console.log(`  ${name} says that Redis is ${state}: ${code}`)
  )
  return { name, child, origin }
}

/** Sends requests to all by turns, and counts what they answer. */
async function share(apis: readonly Api[]): Promise<void> {
  console.log('100 requests in any minute, whichever process they reach. 120 requests, by turns:\n')
  const served = new Map(apis.map(api => [api, 0]))
  const last = new Map<Api, string>()
  for (let i = 0; i < 120; i++) {
    const api = apis[i % apis.length]!
    const { ok, status, headers } = await ask(api, 'GET', '/')
    if (ok) served.set(api, served.get(api)! + 1)
    last.set(api, `${status}, ${headers.get('ratelimit')}`)
  }
  for (const api of apis) {
    console.log(
      `  ${api.name} has served ${served.get(api)} and refused ${60 - served.get(api)!}; its last answer: ${last.get(api)}`
    )
  }
}

/** Sends requests until it is stopped, and prints when their answers are of another kind than before. */
async function watch(apis: readonly Api[]): Promise<void> {
  console.log(`\nStop Redis (redis-cli -p ${port} shutdown) and start it again. Ctrl-C ends it.\n`)
  const seen = new Map<Api, string>()
  for (;;) {
    for (const api of apis) {
      const answers = await Promise.all(REQUESTS.map(([method, path]) => ask(api, method, path)))
      const kinds = answers.map((answer, i) => `${REQUESTS[i]!.join(' ')} ${kind(answer)}`).join('   ')
      if (kinds !== seen.get(api)) console.log(`  ${api.name}: ${kinds}`)
      seen.set(api, kinds)
    }
    await sleep(200, undefined, { signal: stop.signal })
  }
}

function kind({ status, headers }: Response): string {
  return `${status}${headers.has('ratelimit') ? '' : ', no fields'}`
}

async function ask({ origin }: Api, method: string, path: string): Promise<Response> {
  const response = await fetch(new URL(path, origin), { method, signal: stop.signal })
  await response.arrayBuffer()
  return response
}

function isListening(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
