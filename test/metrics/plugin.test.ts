import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import prom from 'prom-client'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import { quotaMetrics } from '../../src/metrics/index.js'
import type { QuotaMetricsOptions } from '../../src/metrics/index.js'

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')

const withQuota = async (t: Test): Promise<FastifyInstance> => {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close().catch(() => {}))
  await app.register(quota, { policies: { any: '9/1m' } })
  return app
}

t.test('wrong options stop the boot, and say what was expected', async t => {
  const wrong: readonly (readonly [unknown, string])[] = [
    [
      {},
      "quotaMetrics: prom must be the module prom-client, as `import prom from 'prom-client'` gives it, got undefined"
    ],
    [
      { prom: prom.register },
      "quotaMetrics: prom must be the module prom-client, as `import prom from 'prom-client'` gives it, got an instance of Registry"
    ],
    [{ prom, register: {} }, 'quotaMetrics: register must be a Registry of prom-client, got {}'],
    [
      { prom, registry: 1 },
      'quotaMetrics: unknown option "registry" with the value 1; did you mean "register"?'
    ]
  ]
  for (const [options, message] of wrong) {
    const app = await withQuota(t)
    await t.rejects(async () => app.register(quotaMetrics, options as QuotaMetricsOptions), {
      code: 'FST_QUOTA_OPTION',
      message
    })
  }
})

t.test('the README lists the options, and no other', async t => {
  const app = await withQuota(t)
  const [, table = ''] = /<!-- options of quotaMetrics -->\n\n((?:\|.*\n)+)/.exec(readme) ?? []
  const listed = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  await t.rejects(async () => app.register(quotaMetrics, { strange: 1 } as never), {
    message: `quotaMetrics: unknown option "strange" with the value 1; expected ${listed.join(', ')}`
  })
})

t.test('an app without quota has nothing to count', async t => {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close().catch(() => {}))
  await t.rejects(async () => app.register(quotaMetrics, { prom }), {
    code: 'FST_QUOTA_OPTION',
    message: 'quotaMetrics: this app has no quota: write `await app.register(quota, …)` before it'
  })
})

t.test('by default the metrics are in the register of the module, however it is imported', async t => {
  for (const module of [prom, await import('prom-client')]) {
    const app = await withQuota(t)
    await app.register(quotaMetrics, { prom: module, register: undefined })
    t.not(prom.register.getSingleMetric('fastify_quota_decisions_total'), undefined)
    await app.close()
    t.equal(prom.register.getSingleMetric('fastify_quota_decisions_total'), undefined)
  }
})
