import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import quota from 'fastify-quota'
import type { QuotaOptions } from 'fastify-quota'
import type { Client } from './client.js'

export interface Terms {
  /** Seconds that the first refusal tells a client to wait. */
  readonly wait: number
  /** What the server says of them. */
  readonly options: Pick<QuotaOptions, 'fields' | 'legacy' | 'sdkHints'>
  /** The fields on quota that may leave the server; all if left out. */
  readonly only?: RegExp
}

/** What a server saw of one call. */
export interface Sight {
  readonly refusals: number
  /** Milliseconds from the first refusal to each time that the client was back. */
  readonly returns: readonly number[]
  /** `waiting`: it had not come back when nobody waited for it any longer. */
  readonly end: 'served' | 'gave up' | 'waiting'
}

const ON_QUOTA = /^(retry-after|(x-)?ratelimit.*)$/

/** Real servers, one for all that is told alike; each client has a quota of its own. */
export class Servers {
  readonly #patience: number
  readonly #servers = new Map<string, Promise<Server>>()

  /** @param patience milliseconds that a client is waited for after it should be back. */
  constructor(patience: number) {
    this.#patience = patience
  }

  /**
   * Has a client call a server whose quota somebody else has used up just before. Whether it comes back too early is for
   * the server to say: it is refused again.
   */
  async see(client: Client, terms: Terms): Promise<Sight> {
    const { wait, options, only } = terms
    const key = JSON.stringify([wait, options, String(only)])
    const server = this.#servers.get(key) ?? Server.open(terms, this.#patience)
    this.#servers.set(key, server)
    return (await server).see(client)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map(async server => (await server).app.close()))
  }
}

/** A call as its server sees it; times are of the process. */
interface Call {
  readonly arrivals: number[]
  readonly refusals: number[]
  readonly patience: AbortController
  timer?: NodeJS.Timeout
}

class Server {
  readonly app: FastifyInstance = Fastify({ forceCloseConnections: true })
  readonly #terms: Terms
  readonly #patience: number
  readonly #calls: Call[] = []

  private constructor(terms: Terms, patience: number) {
    this.#terms = terms
    this.#patience = patience
  }

  static async open(terms: Terms, patience: number): Promise<Server> {
    const server = new Server(terms, patience)
    await server.#listen()
    return server
  }

  async #listen(): Promise<void> {
    const { wait, options, only } = this.#terms
    await this.app.register(quota, {
      ...options,
      identify: { caller: callerOf },
      // It gives a unit back a tenth of a second before the whole second that is told.
      policies: {
        bucket: { algorithm: 'token-bucket', quota: 10, window: wait * 10 - 1, burst: 1, partition: 'caller' }
      },
      onRefused: (_decision, request) => this.#refused(this.#callOf(request))
    })
    this.app.addHook('onRequest', async request => {
      const first = this.#callOf(request).arrivals.push(performance.now()) === 1
      if (first) await this.app.quota.consume(request, { bucket: 1 })
    })
    if (only !== undefined) {
      this.app.addHook('onSend', async (_request, reply) => {
        const names = Object.keys(reply.getHeaders()).filter(name => ON_QUOTA.test(name))
        for (const name of names.filter(name => !only.test(name))) reply.removeHeader(name)
      })
    }
    this.app.all('/*', () => ({}))
    await this.app.listen({ host: '127.0.0.1', port: 0 })
  }

  async see(client: Client): Promise<Sight> {
    const call: Call = { arrivals: [], refusals: [], patience: new AbortController() }
    const caller = this.#calls.push(call) - 1
    const { port } = this.app.server.address() as AddressInfo
    const { signal } = call.patience
    const end = await client.call(`http://127.0.0.1:${port}/${caller}`, signal).then(
      () => 'served' as const,
      () => (signal.aborted ? 'waiting' : 'gave up')
    )
    clearTimeout(call.timer)
    const { arrivals, refusals } = call
    const [refused = NaN] = refusals
    return { refusals: refusals.length, returns: arrivals.slice(1).map(at => at - refused), end }
  }

  #refused(call: Call): void {
    const count = call.refusals.push(performance.now())
    if (count > 1) return
    call.timer = setTimeout(() => call.patience.abort(), this.#terms.wait * 1000 + this.#patience)
  }

  #callOf(request: FastifyRequest): Call {
    return this.#calls[Number(callerOf(request))]!
  }
}

/** The first segment of the path. */
function callerOf({ url }: FastifyRequest): string {
  return url.split('/')[1]!
}
