import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import quota, { redisStore } from 'fastify-quota'
import { quotaMetrics } from 'fastify-quota/metrics'
import { Redis } from 'ioredis'
import prom from 'prom-client'
import type { FastifyInstance } from 'fastify'

/**
 * An API that Prometheus watches: the folder `metrics` beside this file has a dashboard for Grafana and alerts. Its
 * environment has `QUOTA_SECRET`, and `REDIS_PORT`, if that is not 6379.
 */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  /* c8 ignore next: tests have a server of their own */
  const port = Number(process.env['REDIS_PORT'] || 6379)

  await app.register(quota, {
    policies: {
      now: { quota: 20, window: '1s' },
      next: { quota: 10, window: '1s', mode: 'shadow' },
      rows: { quota: 1000, window: '10s', unit: 'rows', cost: 100, default: false },
      streams: { quota: 5, algorithm: 'concurrency', default: false },
      paced: { quota: 20, window: '1s', algorithm: 'leaky-bucket', maxDelay: '1s', default: false }
    },
    store: redisStore(new Redis({ host: '127.0.0.1', port, lazyConnect: true }), {
      onFailure: 'local',
      secret: process.env['QUOTA_SECRET']
    })
  })

  await app.register(quotaMetrics, { prom })

  app.get('/metrics', { config: { quota: false } }, async (_, reply) => {
    reply.type(prom.register.contentType)
    return prom.register.metrics()
  })

  app.get('/', () => ({ hello: 'world' }))

  app.get('/rows', { config: { quota: ['rows'] } }, async (request, reply) => {
    const rows = [{ row: 1 }, { row: 2 }]
    await request.quota.settle('rows', rows.length)
    return reply.send(rows)
  })

  app.get('/stream', { config: { quota: ['streams', 'paced'] } }, async () => {
    await sleep(100)
    return 'all of it'
  })

  return app
}
