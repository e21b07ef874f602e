import rateLimit from '@fastify/rate-limit'
import type { RateLimitPluginOptions } from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import type { QuotaOptions } from '../../../src/index.js'
import type { Owner } from '../../redis/servers.js'
import { PLENTY, appWith, clientOf, inRedis, libraryOf, policies, policiesOf } from '../library.js'
import type { Task } from '../worker.js'

/** Asks about one client. */
export type Asking = (key: string) => unknown

const CLIENTS = 10_000

/** The client of a question. */
export const keyed = (asked: number): string => `k${String((asked * 7919) % CLIENTS).padStart(8, '0')}`

/** All that ask, by name. */
export const variants: Readonly<Record<string, (task: Task, owner: Owner) => Promise<Asking>>> = {
  'a script': script,
  'a script again': script,
  async 'ours, asking'({ root, effort }, owner) {
    const library = await libraryOf(root)
    const store = inRedis(library, effort.redis!, owner)
    const options = {
      policies: policies(2, 'key') as QuotaOptions['policies'],
      identify: { key: () => undefined },
      store
    }
    const app = await appWith(owner, app => app.register(library.quota, options))
    const [burst, daily] = await policiesOf(app, { key: 'k' })
    return async key => {
      const partition = `key:${key}`
      const { source } = await store.consume([
        { partition, policy: burst!, units: 1 },
        { partition, policy: daily!, units: 1 }
      ])
      if (source !== 'redis') throw new Error(`asked Redis and was answered by ${source}`)
    }
  },
  async 'rate-limit, asking'(task, owner) {
    return theirs(task, owner, 60_000)
  },
  async 'rate-limit twice, asking'(task, owner) {
    const [burst, daily] = [await theirs(task, owner, 60_000), await theirs(task, owner, 86_400_000)]
    // One after the other, as hooks are.
    return async key => {
      await burst(key)
      await daily(key)
    }
  },
  async 'rate-limiter-flexible, asking'({ effort }, owner) {
    const storeClient = clientOf(effort.redis!, owner)
    const limiter = new RateLimiterRedis({
      storeClient,
      points: PLENTY,
      duration: 60,
      keyPrefix: `f${process.pid}`
    })
    return key => limiter.consume(key)
  }
}

/** The least that a script in Redis costs. */
async function script({ effort }: Task, owner: Owner): Promise<Asking> {
  const client = clientOf(effort.redis!, owner)
  const digest = (await client.script('LOAD', 'return 1')) as string
  return key => client.evalsha(digest, 1, key)
}

async function theirs({ effort }: Task, owner: Owner, timeWindow: number): Promise<Asking> {
  const options: RateLimitPluginOptions = {
    max: PLENTY,
    timeWindow,
    redis: clientOf(effort.redis!, owner),
    nameSpace: `${process.pid}-${timeWindow}-`,
    keyGenerator: ({ headers }) => String(headers['x-key'])
  }
  const app = await appWith(owner, app => app.register(rateLimit, options))
  const check = app.createRateLimit()
  return key =>
    check({ headers: { 'x-key': key }, routeOptions: { config: {} } } as unknown as FastifyRequest)
}
