import type { Begin } from '../worker.js'
import { loopNamed } from './variants.js'
import type { Loop } from './variants.js'

/** More than this is never done at once. */
const MOST = 50_000_000

/** Batches that are not counted: functions are compiled meanwhile, and compiled again for what they meet later. */
const SETTLING = 50

/** Runs one loop for as many times as take the milliseconds of a batch, and tells the nanoseconds of one time. */
export const begin: Begin = async (task, owner) => {
  const run = await loopNamed(task.variant)(task, owner)
  let times = 100
  while (times < MOST && (await took(run, times)) < task.effort.batch * 1e6) times *= 2
  for (let batch = 0; batch < SETTLING; batch++) await run(times)
  return { begun: {}, answer: async () => ({ ns: (await took(run, times)) / times }) }
}

/** Nanoseconds of CPU: what else the machine does takes none of it. */
async function took(run: Loop, times: number): Promise<number> {
  const before = process.cpuUsage()
  await run(times)
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}
