import Fastify from 'fastify'
import { audit } from '../../src/audit/index.js'
import type { AuditOptions, AuditResult } from '../../src/audit/index.js'
import quota from '../../src/index.js'
import type { PolicyOptions } from '../../src/index.js'

/** What an audit finds at an app with one policy, on a clock that nobody waits for. */
export async function sample(policy: PolicyOptions, options: AuditOptions = {}): Promise<AuditResult> {
  const clock = { now: 1_753_900_000_000 }
  const app = Fastify()
  await app.register(quota, { clock: () => clock.now, policies: { sample: policy } })
  app.get('/', async () => 'served')
  try {
    return await audit({ app }, { clock, ...options })
  } finally {
    await app.close()
  }
}
