import type { QuotaOptions } from '../../../src/index.js'
import type { Owner } from '../../redis/servers.js'
import { appWith, libraryOf, policies } from '../library.js'
import { partitionsOf } from '../stage.js'
import { quantile } from '../statistics.js'
import type { Begin, Task } from '../worker.js'

/** Counts one request of a client. */
type Visit = (key: string) => unknown

/** Clients that come in one turn of the event loop. */
const AT_ONCE = 20

const NEW = 1_000_000
const ROOM = 10_000

const CHARGES = { burst: 1, daily: 1 }

export const begin: Begin = async (task, owner) => {
  const visit = await visitOf(task, owner)
  const clients = partitionsOf(NEW, task.effort)
  const pauses: number[] = []
  let come = 0
  return {
    begun: {},
    async answer(part) {
      for (const end = come + Number(part) * clients; come < end; come += AT_ONCE) {
        pauses.push(await turn(visit, come))
      }
      return { p999: quantile(pauses, 0.999), longest: quantile(pauses, 1) }
    }
  }
}

/** Lets some clients come, and tells the milliseconds until the event loop is free again. */
async function turn(visit: Visit, first: number): Promise<number> {
  const start = performance.now()
  for (let i = 0; i < AT_ONCE; i++) await visit(`flood-${first + i}`)
  await new Promise(resolve => setImmediate(resolve))
  return performance.now() - start
}

async function visitOf({ variant, root, effort }: Task, owner: Owner): Promise<Visit> {
  if (variant === 'no limiter') return async key => key.length
  const { quota, memoryStore } = await libraryOf(root)
  const options = {
    policies: policies(2, 'key') as QuotaOptions['policies'],
    identify: { key: () => undefined },
    store: memoryStore({ maxPartitions: partitionsOf(variant === 'ours, flooded' ? ROOM : NEW, effort) })
  }
  const app = await appWith(owner, app => app.register(quota, options))
  return key => app.quota.consume({ key }, CHARGES)
}
