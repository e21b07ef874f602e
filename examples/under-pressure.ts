import underPressure from '@fastify/under-pressure'
import type { FastifyUnderPressureOptions } from '@fastify/under-pressure'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { QuotaReduction } from 'fastify-quota'

/** An API that asks less of itself while its event loop is late, or by whatever else it is to be measured. */
export async function build(
  limits: FastifyUnderPressureOptions = { maxEventLoopDelay: 200 }
): Promise<FastifyInstance> {
  const app = Fastify()

  let relief: QuotaReduction | undefined

  await app.register(underPressure, {
    ...limits,
    pressureHandler: () => {
      if (relief?.active !== true) {
        relief = app.quota.reduce({ factor: 0.5, for: '10s', reason: 'the service is busy' })
      }
    }
  })

  await app.register(quota, { policies: { default: { quota: 4, window: '1m', status: 503 } } })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
