import type { Effort, Subject } from '../stage.js'
import type { Numbers, Worker } from '../worker.js'
import { Load } from './load.js'
import { MANY, keysOf, variantNamed } from './variants.js'

/** What the process of a server begins with. */
export const SERVER: URL = new URL('server.js', import.meta.url)

/** Microseconds for one request: of the server's CPU, and until the next one could be sent. */
export interface Taken {
  readonly cpu: number
  readonly wall: number
}

/** A server of the bench, and the requests that are sent to it. */
export class Server {
  readonly name: string
  readonly #worker: Worker
  readonly #load: Load
  readonly #keys: number
  readonly #status: number

  private constructor(name: string, worker: Worker, load: Load, keys: number, status: number) {
    this.name = name
    this.#worker = worker
    this.#load = load
    this.#keys = keys
    this.#status = status
  }

  static async open({ name, variant }: Subject, worker: Worker, effort: Effort): Promise<Server> {
    const { host, status, awake } = variantNamed(variant)
    const keys = keysOf(variant, effort)
    const load = await Load.open({ port: worker.begun['port']!, host, keys, awake })
    return new Server(name, worker, load, keys, status)
  }

  /** Lets all clients come once, unless they are so many that the server has seen to that. */
  async fill(): Promise<void> {
    if (this.#keys <= MANY) await this.#load.send(this.#keys)
  }

  async slice(count: number): Promise<Taken> {
    const before = await this.#worker.ask('cpu')
    const wall = await this.#load.send(count, this.#status)
    const after = await this.#worker.ask('cpu')
    return { cpu: (after['cpu']! - before['cpu']!) / count, wall: (wall * 1000) / count }
  }

  /** From now on, it is seen where the time goes. */
  async beginProfile(): Promise<void> {
    await this.#worker.ask('profile')
  }

  /** Where it went: microseconds, by place. */
  endProfile(): Promise<Numbers> {
    return this.#worker.ask('profiled')
  }

  close(): void {
    this.#load.close()
  }
}
