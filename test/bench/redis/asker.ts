import type { Begin, Numbers } from '../worker.js'
import { keyed, variants } from './variants.js'

/** Questions that are not answered yet, at any time. */
const OUTSTANDING = 50

export const begin: Begin = async (task, owner) => {
  const ask = await variants[task.variant]!(task, owner)
  let asked = 0
  const next = (): unknown => ask(keyed(asked++))
  return { begun: {}, answer: () => slice(next, task.effort.slice) }
}

/** Microseconds for one question: of CPU, and until the next one could be asked. */
async function slice(next: () => unknown, count: number): Promise<Numbers> {
  const cpu = process.cpuUsage()
  const start = performance.now()
  let left = count
  const line = async (): Promise<void> => {
    while (left-- > 0) await next()
  }
  await Promise.all(Array.from({ length: OUTSTANDING }, line))
  const wall = performance.now() - start
  const { user, system } = process.cpuUsage(cpu)
  return { cpu: (user + system) / count, wall: (wall * 1000) / count }
}
