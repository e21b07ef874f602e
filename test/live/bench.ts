import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { Client } from 'undici'
import type { UpdateOptions } from '../../src/index.js'
import type { Owner } from '../redis/servers.js'

export type Policies = UpdateOptions['policies']

/** What a process has told in `RateLimit-Policy`, of each request: in the order in which they came, and were answered. */
export interface Told {
  readonly arrived: readonly string[]
  readonly answered: readonly string[]
  readonly handled: number
}

/** A process under load. */
export interface Served {
  readonly origin: string
  update(policies: Policies): Promise<void>
  told(): Promise<Told>
}

/** Adds the routes that are asked under load, and returns what was told: `/now` answers at once, `/later` after a while. */
export function watched(app: FastifyInstance): () => Told {
  const arrived: string[] = []
  const answered: string[] = []
  let [came, handled] = [0, 0]
  const places = new WeakMap<object, number>()
  app.addHook('onRequest', async request => void places.set(request, came++))
  app.addHook('onSend', async (request, reply) => {
    const field = String(reply.getHeader('ratelimit-policy'))
    arrived[places.get(request)!] = field
    answered.push(field)
  })
  app.get('/now', () => {
    handled++
    return 'done'
  })
  app.get('/later', async () => {
    handled++
    await new Promise(resolve => setImmediate(resolve))
    return 'done'
  })
  return () => ({ arrived, answered, handled })
}

/** Starts an app in a process of its own, whose count is in a Redis. */
export async function start(owner: Owner, port: number, policies: Policies): Promise<Served> {
  const program = fileURLToPath(new URL('instance.js', import.meta.url))
  const child = fork(program, [String(port), JSON.stringify(policies)], {
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  })
  owner.teardown(() => child.kill('SIGKILL'))
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`the process has ended with ${String(code)}`)
  })
  gone.catch(() => {})
  const next = async <T>(): Promise<T> => ((await Promise.race([once(child, 'message'), gone])) as [T])[0]
  const { origin } = await next<{ readonly origin: string }>()
  const ask = async <T>(question: object): Promise<T> => {
    const answer = next<T>()
    child.send(question)
    return answer
  }
  return { origin, update: changes => ask({ update: changes }), told: () => ask({}) }
}

/** A change that is made when so many requests were answered. */
export interface Change {
  readonly after: number
  readonly make: () => Promise<void>
}

/** Sends requests to all origins, on several connections of each at the same time, and makes changes meanwhile. */
export async function load(
  owner: Owner,
  origins: readonly string[],
  {
    path,
    connections,
    requests
  }: { readonly path: string; readonly connections: number; readonly requests: number },
  changes: readonly Change[]
): Promise<readonly number[]> {
  const made: Promise<void>[] = []
  const statuses: number[] = []
  const connect = async (origin: string): Promise<void> => {
    const client = new Client(origin, { pipelining: 1 })
    owner.teardown(() => client.destroy())
    for (let i = 0; i < requests; i++) {
      const { statusCode, body } = await client.request({ method: 'GET', path })
      await body.dump()
      statuses.push(statusCode)
      for (const { after, make } of changes) if (after === statuses.length) made.push(make())
    }
  }
  await Promise.all(origins.flatMap(origin => Array.from({ length: connections }, () => connect(origin))))
  await Promise.all(made)
  return statuses
}

/** The fields, each once, in their order; one that comes back is there again. */
export const switches = (fields: readonly string[]): readonly string[] =>
  fields.filter((field, i) => field !== fields[i - 1])

/** The places of the first of each. */
export const switchedAt = (fields: readonly string[]): readonly number[] =>
  fields.flatMap((field, i) => (i > 0 && field !== fields[i - 1] ? [i + 1] : []))
