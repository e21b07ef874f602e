import type { Begin } from '../worker.js'
import { settle, took } from './settling.js'
import { loopNamed } from './variants.js'

/** Runs of a loop that are not counted. */
const SETTLING = 50

/** Runs one loop for as many times as take the milliseconds of a batch, and tells the nanoseconds of one time. */
export const begin: Begin = async (task, owner) => {
  const { batch } = task.effort
  const run = await loopNamed(task.variant)(task, owner)
  const times = await settle(run, batch * 1e6, SETTLING)
  return { begun: {}, answer: async () => ({ ns: (await took(run, times)) / times }) }
}
