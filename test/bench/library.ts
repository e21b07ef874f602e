import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import type * as address from '../../src/address.js'
import type * as fields from '../../src/fields.js'
import type * as partition from '../../src/partition.js'
import type * as library from '../../src/index.js'
import type { Owner } from '../redis/servers.js'
import type { QuotaPolicy, RedisStore } from '../../src/index.js'

/** What users of ours import. */
export type Library = typeof library

/** The build of ours in a folder of the project: of this commit, or of another one. */
export async function libraryOf(root: string): Promise<Library> {
  return (await moduleOf(root, 'index')) as Library
}

/** How addresses are read there. */
export async function addressesOf(root: string): Promise<typeof address> {
  return (await moduleOf(root, 'address')) as typeof address
}

/** How fields are written there. */
export async function fieldsOf(root: string): Promise<typeof fields> {
  return (await moduleOf(root, 'fields')) as typeof fields
}

/** How partitions are named there. */
export async function partitionsIn(root: string): Promise<typeof partition> {
  return (await moduleOf(root, 'partition')) as typeof partition
}

const moduleOf = (root: string, name: string): Promise<unknown> =>
  import(new URL(`dist/src/${name}.js`, root).href)

/** More than is ever spent. */
export const PLENTY = 2_000_000_000

/** So many policies that refuse nobody, each with another window. */
export function policies(count: number, partition: string): Record<string, object> {
  return Object.fromEntries(
    ['burst', 'daily', 'hourly', 'quarterly', 'weekly', 'monthly', 'slow', 'long']
      .slice(0, count)
      .map((name, i) => [name, { quota: PLENTY, window: WINDOWS[i], partition }])
  )
}

const WINDOWS = ['1m', '1d', '1h', '15m', '7d', '30d', '10m', '12h']

/** The policies of an app, as its store is asked about them. */
export async function policiesOf(app: FastifyInstance, subject: object): Promise<readonly QuotaPolicy[]> {
  const { limits } = await app.quota.peek(subject as Readonly<Record<string, string>>)
  return limits.map(({ policy }) => policy)
}

/** A store in the Redis of this run, whose answers are waited for however busy the machine is. */
export function inRedis(
  { redisStore }: Library,
  port: number,
  owner: Owner,
  instances: number = 1
): RedisStore {
  return redisStore(clientOf(port, owner), {
    onFailure: 'closed',
    secret: 's'.repeat(32),
    prefix: `q${process.pid}`,
    instances,
    deadline: 10
  })
}

/** A client that is disconnected in the end. */
export function clientOf(port: number, owner: Owner): Redis {
  const client = new Redis(port)
  owner.teardown(() => client.disconnect())
  return client
}

/** An app without a server, which is ready. */
export async function appWith(
  owner: Owner,
  register: (app: FastifyInstance) => unknown
): Promise<FastifyInstance> {
  const app = Fastify() as unknown as FastifyInstance
  owner.teardown(() => app.close())
  await register(app)
  await app.ready()
  return app
}
