import Fastify from 'fastify'
import { Redis } from 'ioredis'
import quota, { redisStore } from '../../src/index.js'
import { PATIENT } from '../stores/redis/kit.js'
import { watched } from './bench.js'
import type { Policies } from './bench.js'

/* One of several processes that share quotas in a Redis, whose policies are changed while it serves. */

const [port, policies] = process.argv.slice(2)
const app = Fastify()
const client = new Redis({ port: Number(port), lazyConnect: true })
await app.register(quota, { policies: JSON.parse(policies!) as never, store: redisStore(client, PATIENT) })
const told = watched(app)
const origin = await app.listen({ host: '127.0.0.1', port: 0 })

process.on('message', ({ update }: { readonly update?: Policies }) =>
  process.send!(update === undefined ? told() : app.quota.update({ policies: update }))
)
process.once('disconnect', () => void app.close())
process.send!({ origin })
