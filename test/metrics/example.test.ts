import t from 'tap'
import { build } from '../../examples/metrics.js'
import { eventually, needsRedis } from '../faults/kit.js'
import { startRedis } from '../redis/servers.js'

t.setTimeout(120_000)

t.test('the example answers Prometheus with what it has decided', needsRedis, async t => {
  const { port } = await startRedis(t)
  Object.assign(process.env, { REDIS_PORT: String(port), QUOTA_SECRET: 's'.repeat(32) })
  const app = await build()
  t.teardown(() => app.close())
  await eventually('Redis to decide', async () => (await app.inject('/')).headers.ratelimit !== undefined)
  for (const url of ['/rows', '/stream']) t.equal((await app.inject(url)).statusCode, 200, url)
  const { headers, payload } = await app.inject('/metrics')
  t.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  t.match(payload, /^fastify_quota_decisions_total\{outcome="allowed",source="redis"\} \d+$/m)
  t.match(payload, /^fastify_quota_corrected_units_total\{policy="rows",direction="returned"\} 98$/m)
  t.match(payload, /^fastify_quota_leases\{policy="streams"\} 0$/m)
  t.match(payload, /^fastify_quota_store_up 1$/m)
})
