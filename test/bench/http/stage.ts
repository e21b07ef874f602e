import type { Effort, Samples, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'
import { SERVER, Server } from './subject.js'
import type { Taken } from './subject.js'

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
    return withWorkers(hire, SERVER, tasks, 'measured', async workers => {
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
