import type { Owner } from '../redis/servers.js'
import type { Begin, Hire } from './worker.js'

/** Lets all workers share this process: it takes a moment, and says nothing of speed. */
export const here: Hire = async (module, task) => {
  const { begin } = (await import(module.href)) as { readonly begin: Begin }
  const endings: (() => unknown)[] = []
  const owner: Owner = { teardown: work => endings.push(work) }
  const { begun, answer } = await begin(task, owner)
  return {
    begun,
    ask: async question => answer(question),
    async end() {
      for (const end of endings.toReversed()) await end()
    }
  }
}
