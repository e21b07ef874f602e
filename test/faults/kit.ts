import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import quota, { redisStore } from '../../src/index.js'
import type { QuotaOptions, RedisStoreOptions, Source } from '../../src/index.js'
import { hasRedis } from '../redis/servers.js'

/** Options of a test that needs a server. */
export const needsRedis: { readonly skip: string | false } = {
  skip: hasRedis() ? false : 'redis-server, redis-sentinel and redis-cli are not installed'
}

export type Connection = NonNullable<RedisStoreOptions['connection']>

/** A connection of the store's own, and the application's, with everything as ioredis does it by itself. */
export const connections: readonly Connection[] = ['dedicated', 'shared']

export type Policies = QuotaOptions['policies']

const PATIENCE = 30_000

/** An app that counts on the Redis of a port, started and ready. */
export async function serveRedis(
  t: Test,
  port: number,
  policies: Policies,
  store: Partial<RedisStoreOptions> = {}
): Promise<FastifyInstance> {
  const app = Fastify() as unknown as FastifyInstance
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: store.connection !== 'shared' })
  // The store listens while it is open. Before and after that it is up to the application.
  client.on('error', () => {})
  t.teardown(async () => {
    await app.close()
    client.disconnect()
  })
  await app.register(quota, {
    policies,
    store: redisStore(client, { onFailure: 'open', secret: 's'.repeat(32), ...store })
  })
  return app
}

/** Units of a policy that nobody has spent of the quota all share. */
export async function leftOf(app: FastifyInstance, policy: string): Promise<number> {
  return eventually(`what is left of ${policy}`, async () => {
    const { source, limits } = await app.quota.peek({}, [policy])
    return source === 'redis' ? limits[0]!.remaining : undefined
  })
}

/** Waits until Redis decides again. */
export async function redisDecides(app: FastifyInstance, policy: string): Promise<void> {
  await leftOf(app, policy)
}

/** Spends a unit so many times at once, and tells who decided. */
export function spend(app: FastifyInstance, policy: string, times: number): Promise<readonly Source[]> {
  return Promise.all(
    Array.from({ length: times }, async () => (await app.quota.consume({}, { [policy]: 1 })).source)
  )
}

/** Waits for a value other than `undefined` and `false`, not for ever. */
export async function eventually<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>
): Promise<T> {
  for (const end = performance.now() + PATIENCE; performance.now() < end; await sleep(10)) {
    const value = await look()
    if (value !== undefined && value !== false) return value
  }
  throw new Error(`waited in vain for ${what}`)
}
