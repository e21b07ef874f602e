import { Redis } from 'ioredis'
import type { RedisServer } from '../redis/servers.js'

// Watches what else may be the cause when something takes long: the machine.

/** Milliseconds. A server that takes longer to answer than that does not come to its work, and neither does a process. */
const SLOW = 60
const PAUSE = 8

/** A time. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** Sees when this process does not come to its work. */
export class Pauses {
  readonly #pauses: Span[] = []
  readonly #timer: NodeJS.Timeout
  #last = performance.now()

  constructor() {
    this.#timer = setInterval(() => this.#look(), 4)
  }

  stop(): readonly Span[] {
    this.#look()
    clearInterval(this.#timer)
    return this.#pauses
  }

  #look(): void {
    const now = performance.now()
    if (now - this.#last > PAUSE) this.#pauses.push({ from: this.#last, to: now })
    this.#last = now
  }
}

/** Asks servers all the time whether they come to their work, and what that is. */
export class Pulse {
  /** When a replica was first seen to be a master; 0: never. */
  promoted = 0
  readonly #replicas = new Set<Redis>()
  readonly #clients: readonly Redis[]
  readonly #stalls: Span[] = []
  readonly #timer: NodeJS.Timeout

  constructor(servers: readonly RedisServer[]) {
    this.#clients = servers.map(({ host, port }) => new Redis({ host, port }).on('error', () => {}))
    this.#timer = setInterval(() => this.#clients.forEach(client => this.#ask(client)), 25)
  }

  stop(): readonly Span[] {
    clearInterval(this.#timer)
    for (const client of this.#clients) client.disconnect()
    const stalls: Span[] = []
    for (const { from, to } of this.#stalls.sort((a, b) => a.from - b.from)) {
      const last = stalls.at(-1)
      if (last === undefined || from > last.to) stalls.push({ from, to })
      else stalls[stalls.length - 1] = { from: last.from, to: Math.max(last.to, to) }
    }
    return stalls
  }

  #ask(client: Redis): void {
    const from = performance.now()
    const told = (role: unknown): void => {
      const to = performance.now()
      if (to - from > SLOW) this.#stalls.push({ from, to })
      if ((role as readonly unknown[])[0] === 'slave') this.#replicas.add(client)
      else if (this.#replicas.delete(client)) this.promoted = to
    }
    client.role().then(told, () => {})
  }
}

/** How much of a time lies in some spans, which do not overlap. */
export const within = (spans: readonly Span[], start: number, end: number): number =>
  spans.reduce((total, { from, to }) => total + Math.max(0, Math.min(to, end) - Math.max(from, start)), 0)

/** Counts rejections that nobody handles. */
export class Rejections {
  #count = 0
  readonly #listen = (): void => void this.#count++

  constructor() {
    process.on('unhandledRejection', this.#listen)
  }

  stop(): number {
    process.off('unhandledRejection', this.#listen)
    return this.#count
  }
}
