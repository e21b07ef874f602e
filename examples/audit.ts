import Fastify from 'fastify'
import quota from 'fastify-quota'
import { audit } from 'fastify-quota/audit'
import type { FastifyInstance } from 'fastify'
import type { QuotaOptions } from 'fastify-quota'
import type { AuditResult } from 'fastify-quota/audit'

/** An API that tests can audit: they hand it a clock and policies to compare, everybody else leaves them out. */
export async function build(
  options: Partial<Pick<QuotaOptions, 'clock' | 'policies'>> = {}
): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, { policies: { default: '100/1m' }, ...options })

  app.get('/items', () => ['hammer', 'nail'])

  return app
}

/** Audits an app on a clock that the audit moves: half an hour of attacks in seconds. */
export async function rehearsed(policies: QuotaOptions['policies']): Promise<AuditResult> {
  const clock = { now: Date.now() }
  const app = await build({ clock: () => clock.now, policies })
  const result = await audit({ app }, { path: '/items', clock })
  await app.close()
  return result
}

/** Audits a server in real time, as the command does. */
export function measured(url: string): Promise<AuditResult> {
  return audit({ url }, { attacks: ['drained', 'edge-burst'] })
}
