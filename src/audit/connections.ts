import type { Socket } from 'node:net'
import { buildConnector } from 'undici'

/**
 * Opens connections before there is a request for them, so that a burst does not wait for handshakes. It is a connector
 * of undici, which takes them from here.
 */
export class Connections {
  readonly #open = buildConnector({})
  readonly #ready: Socket[] = []
  readonly #to: buildConnector.Options

  constructor(origin: string) {
    const { protocol, host, hostname, port } = new URL(origin)
    this.#to = { protocol, host, hostname: hostname.replace(/^\[(.*)\]$/, '$1'), port }
  }

  readonly connect: buildConnector.connector = (options, callback) => {
    const socket = this.#take()
    if (socket === undefined) this.#open(options, callback)
    else queueMicrotask(() => callback(null, socket))
  }

  /** Opens as many as are missing; one that cannot be opened will fail again when it is needed. */
  async warm(count: number): Promise<void> {
    const missing = Math.max(0, count - this.#ready.length)
    await Promise.all(Array.from({ length: missing }, () => this.#openOne()))
  }

  close(): void {
    for (const socket of this.#ready.splice(0)) socket.destroy()
  }

  #openOne(): Promise<void> {
    return new Promise(resolve => {
      this.#open(this.#to, (error: Error | null, socket: Socket | null) => {
        // With an error there is no second parameter.
        if (error === null) this.#ready.push(socket!)
        resolve()
      })
    })
  }

  /** One that the server has not closed meanwhile. */
  #take(): Socket | undefined {
    const socket = this.#ready.pop()
    return socket === undefined || (!socket.destroyed && socket.writable) ? socket : this.#take()
  }
}
