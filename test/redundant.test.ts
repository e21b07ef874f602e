import t from 'tap'
import { compilePlan } from '../src/plan.js'
import { redundant } from '../src/redundant.js'
import { Registry, Scope } from '../src/registry.js'
import { readRouteQuota } from '../src/route-quota.js'
import { serve, ready, watchWarnings } from './plugin/kit.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

/** The policies of a route that never refuse, each with the one before which it has no chance to. */
function found(policies: object, quota?: unknown): readonly string[] {
  const scope = new Scope(new Registry())
  scope.add(policies)
  const plan = compilePlan(refuse, scope, readRouteQuota(refuse, quota))!
  return redundant(plan).map(({ policy, behind }) => `${policy} behind ${behind}`)
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
    { quota: 5 },
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

t.test('an app warns of it once', async t => {
  const { heard } = watchWarnings(t)
  const { app } = await serve(t, { small: '5/1m', large: '9/1m' })
  await ready(app)
  t.match(await heard(), [
    { code: 'FST_QUOTA_REDUNDANT', message: 'policy "large" never refuses on GET /: ' }
  ])
})
