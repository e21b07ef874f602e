import t from 'tap'
import { compilePlan } from '../src/plan.js'
import { redundant } from '../src/redundant.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import { serve, ready, watchWarnings } from './plugin/kit.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

/** The policies that never refuse on routes, each with the one before which it has no chance to. */
function found(policies: object, ...quotas: readonly unknown[]): readonly string[] {
  const scope = new Scope(new Registry())
  scope.add(policies)
  const routes = quotas.length === 0 ? [undefined] : quotas
  const plans = routes.map(quota => compilePlan(refuse, scope, readRouteQuota(refuse, quota))!)
  return redundant(plans).map(({ policy, behind }) => `${policy} behind ${behind}`)
}

const small = { quota: 5, window: '1m' }

t.test('a larger quota of the same count is found', async t => {
  t.strictSame(found({ small, large: { quota: 9, window: 60 } }), ['large behind small'])
  t.strictSame(found({ large: '9/1m', small }), ['large behind small'])
  const bucket = { ...small, algorithm: 'token-bucket' }
  t.strictSame(found({ small: bucket, large: { ...bucket, quota: 9 } }), ['large behind small'])
  t.strictSame(found({ small: { ...bucket, burst: 9 }, large: { ...bucket, quota: 9 } }), [
    'large behind small'
  ])
  const slots = { quota: 5, algorithm: 'concurrency' }
  t.strictSame(found({ small: slots, large: { ...slots, quota: 9 } }), ['large behind small'])
})

t.test('whatever is counted in another way is not', async t => {
  const others: readonly object[] = [
    { window: '2m' },
    { algorithm: 'fixed-window' },
    { precision: 100 },
    { unit: 'rows' },
    { cost: 2 },
    { cost: () => 1 },
    { partition: 'global' },
    { hook: 'preHandler' },
    { mode: 'shadow' },
    { quota: () => 9 },
    { exempt: () => false },
    { refund: () => false },
    { onStoreFailure: 'closed' }
  ]
  for (const other of others) {
    t.strictSame(found({ small, other: { ...small, quota: 9, ...other } }), [], JSON.stringify(other))
  }
  const bucket = { ...small, algorithm: 'token-bucket' }
  t.strictSame(found({ small: { ...bucket, burst: 20 }, large: { ...bucket, quota: 9 } }), [])
  t.strictSame(found({ small, large: '9/1m' }, { cost: { small: 2 } }), [])
  t.strictSame(
    found({
      bytes: { ...small, unit: 'content-bytes', cost: 0 },
      large: { ...small, quota: 9, unit: 'content-bytes' }
    }),
    []
  )
})

t.test('of two that have the same, the second is idle', async t => {
  t.strictSame(found({ small, twin: small }), ['twin behind small'])
  t.strictSame(found({ small, twin: small, third: small }), ['twin behind small', 'third behind small'])
})

t.test('what counts somewhere alone may refuse elsewhere because of that', async t => {
  const policies = { all: '100/1m', login: { quota: 5, window: '1m', default: false } }
  const login = { policies: ['all', 'login'] }
  t.strictSame(found(policies, undefined, login), [])
  t.strictSame(found(policies, login), [], 'and unmatched requests have the defaults')
  const named = { all: { quota: 100, window: '1m', default: false }, login: policies.login }
  t.strictSame(found(named, login), ['all behind login'])
  t.strictSame(found(named, login, ['all']), [])
  t.strictSame(found(named, login, ['login']), ['all behind login'])
  const three = { ...named, other: policies.login }
  t.strictSame(found(three, login, ['all', 'other']), [], 'nor is it enough that each route has one')
})

t.test('an app warns of it once', async t => {
  const { heard } = watchWarnings(t)
  const { app } = await serve(t, { small: '5/1m', large: '9/1m' })
  await ready(app)
  t.match(await heard(), [
    { code: 'FST_QUOTA_REDUNDANT', message: 'policy "large" never refuses: "small" counts the same' }
  ])
})
