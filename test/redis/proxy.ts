import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Owner } from './servers.js'

export interface ProxyOptions {
  /** See {@link Proxy.delay}. */
  readonly delay?: number
}

interface Target {
  readonly port: number
}

const HOST = '127.0.0.1'

/** Starts a proxy on a port of its own, to a server on this machine. */
export async function startProxy(
  owner: Owner,
  target: Target,
  { delay = 0 }: ProxyOptions = {}
): Promise<Proxy> {
  const proxy = new Proxy(target)
  proxy.delay = delay
  owner.teardown(() => proxy.close())
  await proxy.listen()
  return proxy
}

/** Stands between clients and a server, and does what networks do. */
export class Proxy {
  readonly host: '127.0.0.1' = HOST
  readonly #target: Target
  readonly #server: Server
  readonly #links = new Set<Link>()
  readonly #conditions = new Conditions()
  #port = 0
  #refuses = false

  constructor(target: Target) {
    this.#target = target
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, client => this.#accept(client))
  }

  async listen(): Promise<void> {
    await once(this.#server.listen(0, HOST), 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  get port(): number {
    return this.#port
  }

  /** Clients that are connected. */
  get connections(): number {
    return [...this.#links].filter(({ isConnected }) => isConnected).length
  }

  /** Milliseconds that each piece takes, to and fro. Pieces keep their order, and do not wait for each other. */
  get delay(): number {
    return this.#conditions.delay
  }

  set delay(ms: number) {
    this.#conditions.delay = ms
  }

  /**
   * Throws away what the server answers. A connection that has lost an answer gets no later one either, because a
   * stream has no holes; when this is turned off, the others go on, and new ones work.
   */
  dropReplies(on: boolean): void {
    this.#conditions.drops = on
  }

  /** Passes nothing on, not even the end of a connection. What came meanwhile follows when this is turned off. */
  freeze(on: boolean): void {
    this.#conditions.freeze(on)
  }

  /** Closes new connections at once; those of now stay. */
  refuse(on: boolean): void {
    this.#refuses = on
  }

  /** Destroys all connections of now, on both sides. */
  cut(): void {
    for (const link of this.#links) link.destroy()
  }

  /** Cuts all connections and takes no more. */
  async close(): Promise<void> {
    this.cut()
    if (this.#server.listening) await new Promise(resolve => this.#server.close(resolve))
  }

  #accept(client: Socket): void {
    if (this.#refuses) {
      client.on('error', () => {}).destroy()
      return
    }
    const server = connect({ port: this.#target.port, host: HOST, allowHalfOpen: true, noDelay: true })
    const link = new Link(client, server, this.#conditions)
    this.#links.add(link)
    void link.closed.then(() => this.#links.delete(link))
  }
}

/** What holds for all connections of a proxy. */
class Conditions {
  delay = 0
  drops = false
  #thawed: Promise<void> | undefined
  #thaw = (): void => {}

  freeze(on: boolean): void {
    if (on === (this.#thawed !== undefined)) return
    this.#thaw()
    this.#thawed = on ? new Promise(resolve => (this.#thaw = resolve)) : undefined
  }

  /** Waits as long as nothing passes. */
  async passage(): Promise<void> {
    while (this.#thawed !== undefined) await this.#thawed
  }
}

/** A client's connection, and the one to the server that belongs to it. */
class Link {
  /** Both connections are. */
  readonly closed: Promise<unknown>
  readonly #client: Socket
  readonly #server: Socket
  readonly #conditions: Conditions
  /** An answer was lost. */
  #mute = false

  constructor(client: Socket, server: Socket, conditions: Conditions) {
    this.#client = client
    this.#server = server
    this.#conditions = conditions
    const ends = [client, server].map(socket => new Promise(resolve => socket.once('close', resolve)))
    this.closed = Promise.all(ends)
    this.#join(client, server)
    this.#join(server, client)
  }

  get isConnected(): boolean {
    return !this.#client.destroyed
  }

  destroy(): void {
    this.#client.destroy()
    this.#server.destroy()
  }

  #join(from: Socket, to: Socket): void {
    let last: Promise<unknown> = Promise.resolve()
    const follow = (act: () => void): void => {
      const { delay } = this.#conditions
      const arrival = delay === 0 ? undefined : sleep(delay)
      last = last
        .then(() => arrival)
        .then(() => this.#conditions.passage())
        .then(act)
    }
    from.on('data', piece => follow(() => this.#pass(piece, to)))
    from.on('end', () => follow(() => void to.end()))
    // The close follows.
    from.on('error', () => {})
    from.on('close', () => follow(() => to.destroySoon()))
  }

  #pass(piece: Buffer, to: Socket): void {
    const isReply = to === this.#client
    if (isReply && this.#conditions.drops) this.#mute = true
    if (to.writable && !(isReply && this.#mute)) to.write(piece)
  }
}
