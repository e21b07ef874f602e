import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest, FastifyServerOptions } from 'fastify'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { PolicyOptions, QuotaOptions } from '../../src/index.js'

/** Places of the policy `inflight` of these tests, unless they say otherwise. */
export const PLACES = 5

export const inflight: PolicyOptions = { quota: PLACES, algorithm: 'concurrency', partition: 'global' }

export interface Server {
  readonly app: FastifyInstance
  readonly port: number
  /** Places taken now. */
  readonly held: (policy?: string) => Promise<number>
  /** Waits until so many places are taken. */
  readonly untilHeld: (places: number) => Promise<void>
  /** Errors that were logged. */
  readonly errors: readonly string[]
}

export interface Build {
  readonly options?: Partial<QuotaOptions>
  readonly server?: FastifyServerOptions
  /** Before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => unknown
  readonly routes?: (app: FastifyInstance) => unknown
}

/** A server that listens, with the policy `inflight`, closed when the test ends. */
export async function listen(t: Test, { options, server, before, routes }: Build = {}): Promise<Server> {
  const errors: string[] = []
  const stream = {
    write: (line: string): void => {
      const { err, msg } = JSON.parse(line) as {
        readonly err?: { readonly message: string }
        readonly msg: string
      }
      errors.push(err?.message ?? msg)
    }
  }
  const app = Fastify({
    forceCloseConnections: true,
    ...server,
    logger: { level: 'error', stream }
  }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await before?.(app)
  await app.register(quota, { policies: { inflight }, ...options })
  app.get('/', async () => 'served')
  await routes?.(app)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const held = async (policy = 'inflight'): Promise<number> => {
    const { limits } = await app.quota.peek({ ip: '127.0.0.1' }, [policy])
    return limits[0]!.policy.quota - limits[0]!.remaining
  }
  const untilHeld = async (places: number): Promise<void> => until(async () => (await held()) === places)
  return { app, port, held, untilHeld, errors }
}

/** Waits for a condition, not for ever. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 10_000; performance.now() < end; await sleep(2))
    if (await condition()) return
  throw new Error('what was waited for has not come')
}

export interface Client {
  readonly socket: Socket
  /** What has been received. */
  readonly text: () => string
  /** Waits until something was received. */
  readonly received: (part: string) => Promise<void>
  /** Waits until the connection is closed. */
  readonly closed: Promise<unknown>
  /** Leaves at once, with a reset. */
  readonly leave: () => void
}

/** A client that writes its requests by hand, and never fails. */
export function client(port: number, written: string): Client {
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  socket.on('data', data => (text += data.toString('latin1')))
  socket.on('error', () => {})
  socket.write(written)
  return {
    socket,
    text: () => text,
    received: part => until(() => text.includes(part)),
    closed: new Promise(resolve => socket.once('close', resolve)),
    leave: () => socket.resetAndDestroy()
  }
}

/** A request as it is written. */
export function get(path = '/', method = 'GET'): string {
  return `${method} ${path} HTTP/1.1\r\nhost: test\r\n\r\n`
}

export function post(path: string, body: string, length: number = body.length): string {
  return `POST ${path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`
}

/** A promise that a test settles, and whether it was reached. */
export class Gate {
  open: () => void = () => {}
  readonly opened: Promise<void> = new Promise(resolve => (this.open = resolve))
  reach: () => void = () => {}
  readonly reached: Promise<void> = new Promise(resolve => (this.reach = resolve))

  /** Reaches it, and waits until it is open. */
  async pass(): Promise<void> {
    this.reach()
    await this.opened
  }
}

/** Waits until the server knows that a client has gone. */
export async function gone({ raw }: FastifyRequest): Promise<void> {
  await until(() => raw.socket.destroyed)
}
