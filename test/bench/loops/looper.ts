import { work } from '../worker.js'
import { loopNamed } from './variants.js'
import type { Loop } from './variants.js'

/** More than this is never done at once. */
const MOST = 50_000_000

/** Runs one loop for as many times as take the milliseconds of a batch, and tells the nanoseconds of one time. */
await work(async task => {
  const run = await loopNamed(task.variant)(task)
  let times = 100
  while (times < MOST && (await took(run, times)) < task.effort.batch * 1e6) times *= 2
  return [{}, async () => ({ ns: (await took(run, times)) / times })]
})

/** Nanoseconds of CPU: what else the machine does takes none of it. */
async function took(run: Loop, times: number): Promise<number> {
  const before = process.cpuUsage()
  await run(times)
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}
