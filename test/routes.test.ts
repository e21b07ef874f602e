import t from 'tap'
import { FST_QUOTA_ROUTE } from '../src/errors.js'
import { refuser } from '../src/options.js'
import { compilePlan } from '../src/plan.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import { report } from '../src/routes.js'

t.test('a route without quota has no policies', async t => {
  t.strictSame(report('GET /', undefined), { route: 'GET /', policies: [] })
})

t.test('a route tells its policies in the order they are decided in', async t => {
  const scope = new Scope(new Registry())
  scope.add({
    late: { quota: 9, window: '1s', hook: 'preHandler', unit: 'tokens', cost: 3, mode: 'shadow' },
    plan: { quota: () => 5, window: '1m', cost: 2, unit: 'jobs' },
    slots: { quota: 5, algorithm: 'concurrency', hook: 'onRequest' },
    bytes: { quota: 1000, window: '1m', unit: 'content-bytes', precision: 'exact' },
    early: { quota: 5, window: '1m', partition: 'global', algorithm: 'token-bucket', burst: 2 }
  })
  const refuse = refuser(FST_QUOTA_ROUTE, 'route GET /')
  t.strictSame(report('GET /', compilePlan(refuse, scope, readRouteQuota(refuse, { cost: 4 }))), {
    route: 'GET /',
    policies: [
      {
        name: 'slots',
        quota: 5,
        window: undefined,
        unit: 'concurrent-requests',
        algorithm: 'concurrency',
        mode: 'enforce',
        partition: 'ip',
        hook: 'onRequest',
        cost: 1
      },
      {
        name: 'plan',
        quota: 'by request',
        window: 60_000,
        unit: 'jobs',
        algorithm: 'sliding-window',
        mode: 'enforce',
        partition: 'ip',
        hook: 'preParsing',
        cost: 2
      },
      {
        name: 'bytes',
        quota: 1000,
        window: 60_000,
        unit: 'content-bytes',
        algorithm: 'sliding-window-log',
        mode: 'enforce',
        partition: 'ip',
        hook: 'preParsing',
        cost: 'body length'
      },
      {
        name: 'early',
        quota: 5,
        window: 60_000,
        unit: 'requests',
        algorithm: 'token-bucket',
        mode: 'enforce',
        partition: 'global',
        hook: 'preParsing',
        cost: 4
      },
      {
        name: 'late',
        quota: 9,
        window: 1000,
        unit: 'tokens',
        algorithm: 'sliding-window',
        mode: 'shadow',
        partition: 'ip',
        hook: 'preHandler',
        cost: 3
      }
    ]
  })
})
