import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { FST_QUOTA_OPTION } from '../errors.js'
import { asObject, knownKeys, refuser, show } from '../options.js'
import type { Refuse } from '../options.js'
import { collect } from './collecting.js'
import type { Prom } from './series.js'

export interface QuotaMetricsOptions {
  /** The module `prom-client` of your application. */
  readonly prom: Prom
  /** Where the metrics are registered; default: the register of `prom`. */
  readonly register?: Registry | undefined
}

/** What a module has to have. */
const CLASSES = ['Counter', 'Gauge', 'Histogram'] as const satisfies readonly (keyof Prom)[]

/** What a register has to have. */
const METHODS = ['registerMetric', 'removeSingleMetric'] as const satisfies readonly (keyof Registry)[]

/**
 * Counts for Prometheus what the quota of an app decides and what happens to its store, until the app closes. Registered
 * in several apps with one register, it counts for all of them together. A Fastify plugin, for an app that has
 * fastify-quota already.
 * @throws FST_QUOTA_OPTION for a wrong option, and for an app without quota.
 */
export async function quotaMetrics(app: FastifyInstance, options: QuotaMetricsOptions): Promise<void> {
  const { prom, register } = readOptions(refuser(FST_QUOTA_OPTION, 'quotaMetrics'), app, options)
  const end = collect(prom, register, app.quota)
  app.addHook('onClose', async () => end())
}

function readOptions(
  refuse: Refuse,
  app: FastifyInstance,
  options: QuotaMetricsOptions
): Required<Omit<QuotaMetricsOptions, 'register'>> & { readonly register: Registry } {
  const known = asObject(refuse, 'options', options)
  knownKeys(refuse, known, ['prom', 'register'], {
    client: 'prom',
    registry: 'register',
    registers: 'register'
  })
  const prom = known['prom'] as Prom | undefined
  if (lacking(prom, CLASSES).length > 0)
    refuse(
      `prom must be the module prom-client, as \`import prom from 'prom-client'\` gives it, got ${show(prom)}`
    )
  const register = (known['register'] ?? prom!.register) as Registry | undefined
  if (lacking(register, METHODS).length > 0)
    refuse(`register must be a Registry of prom-client, got ${show(register)}`)
  if (!app.hasDecorator('quota'))
    refuse('this app has no quota: write `await app.register(quota, …)` before it')
  return { prom: prom!, register: register! }
}

/** The names of functions that a value should have and has not. */
function lacking(value: unknown, names: readonly string[]): readonly string[] {
  const functions = (value ?? {}) as Readonly<Record<string, unknown>>
  return names.filter(name => typeof functions[name] !== 'function')
}
