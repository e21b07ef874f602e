import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { PolicyOptions, Quota, ReduceOptions, UpdateOptions } from '../../src/index.js'
import { howToRepeat, runs, seed } from '../algorithms/kit.js'
import { ready, serve } from '../plugin/kit.js'
import type { Server } from '../plugin/kit.js'

t.setTimeout(120_000)

t.comment(howToRepeat)

const POLICIES = {
  any: { quota: 3, window: '10s' },
  bucket: { quota: 6, window: '1m', algorithm: 'token-bucket', burst: 4 },
  sent: { quota: 100, window: '1m', unit: 'content-bytes', cost: 1 }
} as const satisfies Readonly<Record<string, PolicyOptions>>

type Name = keyof typeof POLICIES

/** What each policy may become. */
const RIGHT: readonly Readonly<Partial<Record<Name, Partial<PolicyOptions>>>>[] = [
  { any: { quota: 5 } },
  { any: { quota: 1, window: '30s' } },
  { any: { algorithm: 'fixed-window' } },
  { any: { mode: 'shadow' } },
  { any: { mode: 'enforce' } },
  { bucket: { quota: 9 } },
  { bucket: { burst: 1 } },
  { bucket: { partition: 'global' } },
  { sent: { quota: 2 } },
  { sent: { quota: () => 4 } },
  {}
]

/** What none may: by its options, by the store, by a route, or by its name. */
const WRONG: readonly object[] = [
  { any: { quota: -1 } },
  { any: { quota: '5' } },
  { any: { window: 'soon' } },
  { any: { burst: 5 } },
  { any: { unit: 'rows' } },
  { any: { default: false } },
  { any: { batch: { max: 5 } } },
  { any: null },
  { bucket: { burst: 0 } },
  { bucket: { algorithm: 'leaky' } },
  { bucket: { maxDelay: '5s' } },
  { sent: { cost: undefined } },
  { sent: { qouta: 5 } },
  { other: { quota: 5, window: '1m' } }
]

const WRONG_REDUCTIONS: readonly object[] = [
  { factor: 0, for: '10s', reason: 'busy' },
  { factor: 0.5, for: 'ever', reason: 'busy' },
  { factor: 0.5, for: '10s', reason: '' },
  { factor: 0.5, for: '10s', reason: 'busy', policies: ['other'] }
]

type Step =
  | { readonly kind: 'request'; readonly after: number }
  | { readonly kind: 'update'; readonly policies: UpdateOptions['policies'] }
  | { readonly kind: 'wrong'; readonly call: (quota: Quota) => unknown }

/** A right change beside a wrong one, before it or behind it, so that half of it could be made. */
const halfRight = fc
  .tuple(fc.constantFrom(...RIGHT), fc.constantFrom(...WRONG), fc.boolean())
  .map(([right, wrong, first]) => (first ? { ...right, ...wrong } : { ...wrong, ...right, ...wrong }))

const steps = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom(0, 0, 1, 5000, 30_000).map((after): Step => ({ kind: 'request', after }))
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(...RIGHT)
        .map((policies): Step => ({ kind: 'update', policies: { sent: {}, ...policies } }))
    },
    {
      weight: 3,
      arbitrary: halfRight.map((policies): Step => ({
        kind: 'wrong',
        call: quota => quota.update({ policies })
      }))
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(...WRONG_REDUCTIONS)
        .map((options): Step => ({ kind: 'wrong', call: quota => quota.reduce(options as ReduceOptions) }))
    }
  ),
  { minLength: 5, maxLength: 30 }
)

async function opened(t: Test): Promise<Server> {
  const server = await serve(t, POLICIES)
  // A body is counted before it is read: where it would cost its length, this route cannot have the policy.
  server.app.get('/late', { config: { quota: { hook: 'preHandler' } } }, async () => 'served')
  server.app.get('/left', { config: { quota: false } }, async request => {
    const { limits } = await server.app.quota.peek(request, Object.keys(POLICIES))
    return limits.map(({ policy, ...limit }) => ({ ...limit, quota: policy.quota }))
  })
  await ready(server.app)
  return server
}

interface Noticed {
  readonly statusCode: number
  readonly [more: string]: unknown
}

/** What anybody may notice of an app: an answer, what is left, and what is told about its routes. */
async function noticed({ app, clock }: Server, after: number): Promise<Noticed> {
  clock.pass(after)
  const { statusCode, headers, payload } = await app.inject('/late')
  const left = (await app.inject('/left')).json<object>()
  const { routes } = app.quota.routes()
  return { statusCode, payload, headers: { ...headers, date: undefined }, left, routes }
}

t.test(
  'whatever is wrong about an update or a reduction, an app goes on as if nobody had tried it',
  async t => {
    const seen = { served: 0, refused: 0, wrong: 0, updates: 0 }
    t.capture(process, 'emitWarning')
    await fc.assert(
      fc.asyncProperty(steps, async steps => {
        const [tried, spared] = [await opened(t), await opened(t)]
        for (const step of steps) {
          if (step.kind === 'request') {
            const expected = await noticed(spared, step.after)
            t.strictSame(await noticed(tried, step.after), expected)
            seen[expected.statusCode === 200 ? 'served' : 'refused']++
          } else if (step.kind === 'update') {
            t.strictSame(
              tried.app.quota.update({ policies: step.policies }),
              spared.app.quota.update({ policies: step.policies })
            )
            seen.updates++
          } else {
            t.throws(() => step.call(tried.app.quota), { code: /^FST_QUOTA_(?:OPTION|POLICY|ROUTE)$/ })
            seen.wrong++
          }
        }
        await Promise.all([tried.app.close(), spared.app.close()])
      }),
      { numRuns: Math.ceil(runs / 20), seed }
    )
    t.comment(JSON.stringify(seen))
    for (const [what, times] of Object.entries(seen)) t.ok(times > 0, what)
  }
)
