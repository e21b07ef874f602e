import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { PolicyOptions, QuotaOptions } from '../../src/index.js'

/** Bytes of the policy `bytes` of these tests, unless they say otherwise. */
export const BYTES = 200_000

/** What is counted before it is charged. */
export const BATCH = 65_536

export const bytes: PolicyOptions = {
  quota: BYTES,
  window: '1h',
  unit: 'content-bytes',
  partition: 'global',
  algorithm: 'fixed-window'
}

export interface Server {
  readonly app: FastifyInstance
  readonly port: number
  readonly url: string
  /** Units charged. */
  readonly spent: (policy?: string) => Promise<number>
  readonly untilSpent: (units: number, policy?: string) => Promise<void>
  /** Requests that came to the handler of `POST /`, and the sizes of their bodies. */
  readonly handled: number[]
  /** What was logged as a warning or an error. */
  readonly logged: readonly string[]
}

export interface Build {
  readonly options?: Partial<QuotaOptions>
  readonly server?: FastifyServerOptions
  readonly before?: (app: FastifyInstance) => unknown
  readonly routes?: (app: FastifyInstance) => unknown
  /** `false`: the routes have a parser of their own. */
  readonly parsed?: boolean
}

/** A server that listens, with the policy `bytes`; `POST /` takes any body as a buffer. */
export async function listen(
  t: Test,
  { options, server, before, routes, parsed = true }: Build = {}
): Promise<Server> {
  const logged: string[] = []
  const handled: number[] = []
  const stream = {
    write: (line: string): void => {
      const { err, msg } = JSON.parse(line) as {
        readonly err?: { readonly message: string }
        readonly msg: string
      }
      logged.push(err?.message ?? msg)
    }
  }
  const app = Fastify({
    forceCloseConnections: true,
    bodyLimit: 1e9,
    ...server,
    logger: { level: 'warn', stream }
  }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await before?.(app)
  await app.register(quota, { policies: { bytes }, ...options })
  await routes?.(app)
  if (parsed) app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.get('/', async () => 'served')
  app.post('/', async ({ body }) => {
    const { length } = typeof body === 'object' && body !== null ? (body as Buffer) : Buffer.alloc(0)
    handled.push(length)
    return { length }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const spent = async (policy = 'bytes'): Promise<number> => {
    const { limits } = await app.quota.peek({ ip: '127.0.0.1' }, [policy])
    return limits[0]!.policy.quota - limits[0]!.remaining
  }
  const untilSpent = async (units: number, policy?: string): Promise<void> =>
    until(async () => (await spent(policy)) === units)
  return { app, port, url: `http://127.0.0.1:${port}/`, spent, untilSpent, handled, logged }
}

/** Waits for a condition, not for ever. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 10_000; performance.now() < end; await sleep(2))
    if (await condition()) return
  throw new Error('what was waited for has not come')
}

export interface Client {
  readonly write: (data: string | Buffer) => Promise<void>
  readonly text: () => string
  readonly received: (part: string) => Promise<void>
  readonly closed: Promise<unknown>
  readonly leave: () => void
  readonly end: () => void
}

/** A client that writes its requests by hand, and never fails. */
export function client(port: number): Client {
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  socket.on('data', data => (text += data.toString('latin1')))
  socket.on('error', () => {})
  return {
    write: data => new Promise(resolve => socket.write(data, () => resolve())),
    text: () => text,
    received: part => until(() => text.includes(part)),
    closed: new Promise(resolve => socket.once('close', resolve)),
    leave: () => socket.resetAndDestroy(),
    end: () => socket.end()
  }
}

/** The head of a request whose length is not told. */
export const CHUNKED =
  'POST / HTTP/1.1\r\nhost: test\r\ncontent-type: x/y\r\ntransfer-encoding: chunked\r\n\r\n'

export const LAST_CHUNK = '0\r\n\r\n'

export function chunk(size: number): Buffer {
  return Buffer.concat([
    Buffer.from(`${size.toString(16)}\r\n`),
    Buffer.alloc(size, 'x'),
    Buffer.from('\r\n')
  ])
}

/** Pieces of a body, one after the other. */
export function* pieces(size: number, piece = 10_000): Generator<Buffer> {
  for (let left = size; left > 0; left -= piece) yield Buffer.alloc(Math.min(piece, left), 'x')
}
