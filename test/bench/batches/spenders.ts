import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { mostInAnyWindow } from '../../../src/audit/index.js'
import type { StoreCall } from '../../../src/index.js'
import { CALL_CHANNEL } from '../../../src/store.js'
import type { Owner } from '../../redis/servers.js'
import { appWith, inRedis, libraryOf } from '../library.js'
import type { Begin, Numbers, Task } from '../worker.js'

/** Processes that spend the same quota, each an app of its own here. */
const PROCESSES = 4
const BATCH = 50

/** Milliseconds, and units in them. */
const WINDOW = 2000
const QUOTA = 2000

/** Requests to one unit of quota: a busy time first, and then one in which too many come. */
const LOADS = [0.9, 3]

/** Milliseconds between two looks at how many requests are due. */
const TICK = 5

/** What was admitted, and when, in milliseconds. */
interface Book {
  readonly calls: () => number
  readonly admitted: readonly number[]
  readonly spend: (process: number) => Promise<void>
}

export const begin: Begin = async (task, owner) => ({ begun: {}, answer: () => watched(task, owner) })

/** The same requests, to a policy with batches and to one without. */
async function watched(task: Task, owner: Owner): Promise<Numbers> {
  const [batched, exact] = [await open(task, owner, 'batched'), await open(task, owner, 'exact')]
  let requests = 0
  const spending: Promise<void>[] = []
  for (const load of LOADS) {
    const start = performance.now()
    for (let sent = 0, passed = 0; passed < task.effort.watch; passed = performance.now() - start) {
      for (; sent < (load * QUOTA * passed) / WINDOW; sent++) {
        spending.push(...[batched, exact].map(book => book.spend(requests % PROCESSES)))
        requests++
      }
      await sleep(TICK)
    }
  }
  await Promise.all(spending)
  const over = Math.max(0, mostInAnyWindow(batched.admitted, WINDOW) - QUOTA)
  return {
    requests,
    calls: batched.calls(),
    admitted: batched.admitted.length,
    exactly: exact.admitted.length,
    over,
    batches: PROCESSES * BATCH
  }
}

async function open({ root, effort }: Task, owner: Owner, name: 'batched' | 'exact'): Promise<Book> {
  const apps = await Promise.all(
    Array.from({ length: PROCESSES }, () => appIn(root, owner, effort.redis!, name))
  )
  const admitted: number[] = []
  let calls = 0
  const listen = (told: unknown): void => {
    const { store, operation } = told as StoreCall
    if (operation !== 'probe' && apps.some(app => app.quota.store === store)) calls++
  }
  subscribe(CALL_CHANNEL, listen)
  owner.teardown(() => unsubscribe(CALL_CHANNEL, listen))
  return {
    calls: () => calls,
    admitted,
    async spend(process) {
      const { outcome, source } = await apps[process]!.quota.consume({}, { [name]: 1 })
      if (source !== 'redis') throw new Error(`asked Redis and was answered by ${source}`)
      if (outcome === 'allowed') admitted.push(performance.now())
    }
  }
}

async function appIn(
  root: string,
  owner: Owner,
  port: number,
  name: 'batched' | 'exact'
): Promise<FastifyInstance> {
  const library = await libraryOf(root)
  const batch = name === 'batched' ? { batch: { max: BATCH } } : {}
  const store = inRedis(library, port, owner, PROCESSES)
  const policies = { [name]: { quota: QUOTA, window: `${WINDOW}ms` as const, partition: 'global', ...batch } }
  return appWith(owner, app => app.register(library.quota, { policies, store }))
}
