import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { libraryOf } from '../library.js'
import { Profiler } from '../profiler.js'
import type { Begin, Numbers } from '../worker.js'
import { MANY, keysOf, variantNamed } from './variants.js'

const schema = { response: { 200: { type: 'object', properties: { hello: { type: 'string' } } } } }

export const begin: Begin = async ({ variant, root, effort }, owner) => {
  const { limit, host } = variantNamed(variant)
  const keys = keysOf(variant, effort)
  const app = Fastify() as unknown as FastifyInstance
  owner.teardown(() => app.close())
  const library = await libraryOf(root)
  await limit({ app, library, partitions: keys, redis: effort.redis, owner })
  app.get('/', { schema }, (_request, reply) => void reply.send({ hello: 'world' }))
  await app.listen({ port: 0, host })
  if (keys > MANY) await fill(app, keys)
  const { port } = app.server.address() as AddressInfo
  const profiler = new Profiler()
  const answers: Readonly<Record<string, () => Numbers | Promise<Numbers>>> = {
    cpu,
    profile: () => profiler.begin(),
    profiled: () => profiler.end()
  }
  return { begun: { port }, answer: question => answers[question]!() }
}

/** Microseconds of CPU that this process has had. */
function cpu(): Numbers {
  const { user, system } = process.cpuUsage()
  return { cpu: user + system }
}

/** Lets all clients have come once, by the same keys as requests. */
async function fill(app: FastifyInstance, keys: number): Promise<void> {
  const charges = { burst: 1, daily: 1 }
  for (let key = 0; key < keys; key++) await app.quota.consume({ key: String(key).padStart(8, '0') }, charges)
}
