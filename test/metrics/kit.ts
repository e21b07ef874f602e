import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import prom from 'prom-client'
import type { Registry } from 'prom-client'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { quotaMetrics } from '../../src/metrics/index.js'
import { Clock } from '../plugin/kit.js'

/** What a register says, by series as it is written: `name{label="value"}`. */
export type Samples = Readonly<Record<string, number>>

export interface Metered {
  readonly app: FastifyInstance
  readonly clock: Clock
  readonly register: Registry
  /** What the register says of decisions and stores, without the buckets of histograms and without zeros. */
  readonly samples: (like?: RegExp) => Promise<Samples>
}

/** An app with quota and its metrics, on a clock that stands still. */
export async function metered(
  t: Test,
  options: QuotaOptions,
  register: Registry = new prom.Registry()
): Promise<Metered> {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  const clock = new Clock()
  await app.register(quota, options.store === undefined ? { clock: clock.read, ...options } : options)
  await app.register(quotaMetrics, { prom, register })
  app.get('/', () => 'served')
  app.post('/', () => 'served')
  const samples: Metered['samples'] = async (like = /./) =>
    chosen(await scraped(register), name => like.test(name) && !/_bucket\{/.test(name))
  return { app, clock, register, samples }
}

/** All samples of a register, as Prometheus gets them. */
export async function scraped(register: Registry): Promise<Samples> {
  const lines = (await register.metrics()).split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    lines.map(line => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at).replace(/^fastify_quota_/, ''), Number(line.slice(at))]
    })
  )
}

const chosen = (samples: Samples, wanted: (name: string) => boolean): Samples =>
  Object.fromEntries(Object.entries(samples).filter(([name, value]) => value !== 0 && wanted(name)))
