import { partitionsOf } from '../stage.js'
import type { Begin } from '../worker.js'
import { FIRST, variants } from './variants.js'
import type { Visit } from './variants.js'

/** Times that each client comes. */
const VISITS = 2

export const begin: Begin = async (task, owner) => {
  const count = partitionsOf(1_000_000, task.effort)
  const visit = await variants[task.variant]!(task, owner)
  return { begun: {}, answer: async () => ({ bytes: await bytesOfOne(visit, count) }) }
}

async function bytesOfOne(visit: Visit, count: number): Promise<number> {
  await come(visit, 'first', FIRST)
  const before = await held()
  await come(visit, 'k', count)
  return ((await held()) - before) / count
}

async function come(visit: Visit, name: string, count: number): Promise<void> {
  for (let time = 0; time < VISITS; time++) {
    // Written anew each time, as it would be for a request.
    for (let i = 0; i < count; i++)
      await visit(Buffer.from(name + String(i).padStart(8, '0')).toString('latin1'))
  }
}

/** Bytes of the heap, and of what lies beside it. */
async function held(): Promise<number> {
  for (let i = 0; i < 4; i++) {
    globalThis.gc!()
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
