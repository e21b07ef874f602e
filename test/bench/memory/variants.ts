import rateLimit from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { QuotaOptions } from '../../../src/index.js'
import type { Owner } from '../../redis/servers.js'
import { PLENTY, appWith, libraryOf, policies } from '../library.js'
import { partitionsOf } from '../stage.js'
import type { Task } from '../worker.js'

/** Counts one request of a client. */
export type Visit = (key: string) => Promise<unknown>

/** Partitions that come before the first look, so that all code has been compiled by then. */
export const FIRST = 1000

/** All ways to keep partitions, by name. */
export const variants: Readonly<Record<string, (task: Task, owner: Owner) => Promise<Visit>>> = {
  'ours, held': (task, owner) => ours(task, owner, 2),
  'ours, held for 1 policy': (task, owner) => ours(task, owner, 1),
  async 'rate-limit, held'({ effort }, owner) {
    const cache = 2 * partitionsOf(1_000_000, effort) + FIRST
    const keyGenerator = ({ headers }: FastifyRequest): string => String(headers['x-key'])
    const app = await appWith(owner, app =>
      app.register(rateLimit, { max: PLENTY, timeWindow: 86_400_000, cache, keyGenerator })
    )
    const check = app.createRateLimit()
    return key =>
      check({ headers: { 'x-key': key }, routeOptions: { config: {} } } as unknown as FastifyRequest)
  },
  async 'rate-limiter-flexible, held'() {
    const limiter = new RateLimiterMemory({ points: PLENTY, duration: 86_400 })
    return key => limiter.consume(key)
  }
}

async function ours({ root, effort }: Task, owner: Owner, count: number): Promise<Visit> {
  const { quota, memoryStore } = await libraryOf(root)
  const store = memoryStore({ maxPartitions: partitionsOf(1_000_000, effort) + FIRST })
  const given = policies(count, 'key')
  const options = {
    policies: given as QuotaOptions['policies'],
    identify: { key: () => undefined },
    store
  }
  const app = await appWith(owner, app => app.register(quota, options))
  const charges = Object.fromEntries(Object.keys(given).map(name => [name, 1]))
  return key => app.quota.consume({ key }, charges)
}
