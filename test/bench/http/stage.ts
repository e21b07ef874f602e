import type { Effort, Samples, Stage, Subject } from '../stage.js'
import { withWorkers } from '../worker.js'
import type { Worker } from '../worker.js'
import { Load } from './load.js'
import { MANY, keysOf, variantNamed } from './variants.js'

/** What all others are compared with. It is asked twice a round, and its twin once. */
export const BASE = 'bare'
const TWIN = 'bare again'

/**
 * Servers in processes of their own, all up at once, that are sent short slices of the same requests by turns: what disturbs
 * the machine disturbs all.
 */
export const http: Stage = {
  name: 'http',
  twins: [BASE, TWIN],
  metrics: [
    { name: 'cpu', unit: 'µs', better: 'lower' },
    { name: 'wall', unit: 'µs', better: 'lower' }
  ],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(hire, new URL('server.js', import.meta.url), tasks, 'measured', async workers => {
      const servers = await Promise.all(workers.map((worker, i) => Server.open(subjects[i]!, worker, effort)))
      try {
        for (const server of servers) await server.fill()
        return await rounds(servers, effort)
      } finally {
        for (const server of servers) server.close()
      }
    })
  }
}

async function rounds(servers: readonly Server[], { rounds, warmUp, slice }: Effort): Promise<Samples> {
  const base = servers.find(({ name }) => name === BASE)!
  const others = servers.filter(server => server !== base)
  const turns = [base, ...others.slice(0, others.length >> 1), base, ...others.slice(others.length >> 1)]
  for (let round = 0; round < warmUp; round++) for (const server of servers) await server.slice(slice)
  const samples = new Map(servers.map(({ name }) => [name, { cpu: [] as number[], wall: [] as number[] }]))
  for (let round = 0; round < rounds; round++) {
    const sums = new Map<string, Taken>()
    for (let turn = 0; turn < turns.length; turn++) {
      const server = turns[(turn + round) % turns.length]!
      const { cpu, wall } = await server.slice(slice)
      const before = sums.get(server.name)
      sums.set(
        server.name,
        before === undefined ? { cpu, wall } : { cpu: (before.cpu + cpu) / 2, wall: (before.wall + wall) / 2 }
      )
    }
    for (const [name, { cpu, wall }] of sums) {
      samples.get(name)!.cpu.push(cpu)
      samples.get(name)!.wall.push(wall)
    }
  }
  return samples
}

/** Microseconds for one request: of the server's CPU, and until the next one could be sent. */
interface Taken {
  readonly cpu: number
  readonly wall: number
}

class Server {
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
    const { host, status } = variantNamed(variant)
    const keys = keysOf(variant, effort)
    const load = await Load.open({ port: worker.begun['port']!, host, keys })
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

  close(): void {
    this.#load.close()
  }
}
