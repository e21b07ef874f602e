import fc from 'fast-check'
import t from 'tap'
import type { LightMyRequestResponse } from 'fastify'
import type { Hook, PolicyOptions } from '../src/index.js'
import { compilePolicy } from '../src/policy.js'
import type { Answer } from '../src/store.js'
import { memoryStore } from '../src/stores/memory.js'
import { howToRepeat, runs, seed } from './algorithms/kit.js'
import { Clock, serve } from './plugin/kit.js'
import { ALGORITHMS } from './algorithms/names.js'

t.setTimeout(120_000)

t.comment(howToRepeat)

const HOOKS: readonly Hook[] = ['onRequest', 'preParsing', 'preHandler']

/** A policy of few units, so that many requests are refused. */
const policies: fc.Arbitrary<PolicyOptions> = fc
  .record({
    algorithm: fc.constantFrom(...ALGORITHMS),
    quota: fc.integer({ min: 0, max: 6 }),
    window: fc.constantFrom(1, 2, 5, 60),
    cost: fc.integer({ min: 0, max: 3 }),
    partition: fc.constantFrom('ip' as const, 'global' as const),
    hook: fc.constantFrom(...HOOKS),
    queued: fc.boolean()
  })
  .map(({ algorithm, window, queued, ...rest }) => ({
    ...rest,
    algorithm,
    ...(algorithm === 'concurrency' ? {} : { window }),
    ...(algorithm === 'leaky-bucket' && queued ? { maxDelay: 1 } : {})
  }))

const named = (
  prefix: string,
  some: readonly PolicyOptions[]
): readonly (readonly [string, PolicyOptions])[] => some.map((policy, i) => [`${prefix}${i}`, policy])

/** Who comes, how many milliseconds after the one before. */
const arrivals = fc.array(
  fc.record({
    client: fc.integer({ min: 1, max: 3 }),
    after: fc.constantFrom(0, 0, 0, 1, 100, 900, 1000, 30_000)
  }),
  { minLength: 1, maxLength: 40 }
)

const trials = fc.array(policies, { minLength: 1, maxLength: 3 })
const enforced = fc.array(policies, { minLength: 1, maxLength: 3 })

/** What a client may notice of a store's answer. */
const noticed = ({ limits }: Answer): readonly object[] =>
  limits
    .filter(({ policy }) => !policy.shadow)
    .map(({ policy, ...limit }) => ({ ...limit, policy: policy.name }))

t.test('policies on trial change nothing that a store answers about the others', async t => {
  const seen = { allowed: 0, refused: 0, wouldRefuse: 0 }
  const property = fc.property(enforced, trials, arrivals, fc.boolean(), (some, onTrial, requests, first) => {
    const real = named('real', some).map(([name, policy]) => compilePolicy(name, policy, []))
    const trial = named('trial', onTrial).map(([name, policy]) =>
      compilePolicy(name, { ...policy, mode: 'shadow' }, [])
    )
    const clock = new Clock()
    const [alone, together] = [memoryStore(), memoryStore()]
    for (const store of [alone, together]) store.useClock(clock.read)
    for (const { client, after } of requests) {
      clock.pass(after)
      const charge = (policy: (typeof real)[number]): Parameters<typeof alone.consume>[0][number] => ({
        partition: policy.rule.label === 'global' ? 'global' : `ip:${client}`,
        policy,
        units: policy.cost as number
      })
      const expected = noticed(alone.consume(real.map(charge)))
      const all = first ? [...trial, ...real] : [...real, ...trial]
      const answer = together.consume(all.map(charge))
      if (JSON.stringify(noticed(answer)) !== JSON.stringify(expected)) return false
      const refused = answer.limits.some(({ policy, allowed }) => !policy.shadow && !allowed)
      seen[refused ? 'refused' : 'allowed']++
      if (!refused && answer.limits.some(({ allowed }) => !allowed)) seen.wouldRefuse++
    }
    return true
  })
  fc.assert(property, { numRuns: runs, seed })
  t.ok(
    Object.values(seen).every(count => count > 0),
    JSON.stringify(seen)
  )
})

/** What a client may notice of a response. */
const observed = ({ statusCode, headers, body }: LightMyRequestResponse): object => ({
  statusCode,
  fields: { ...headers, date: undefined },
  body
})

t.test('policies on trial change nothing that a client can notice', async t => {
  const seen = { served: 0, refused: 0, wouldRefuse: 0 }
  t.capture(process, 'emitWarning')
  const real = fc.array(
    policies.filter(({ maxDelay }) => maxDelay === undefined),
    { minLength: 1, maxLength: 3 }
  )
  const property = fc.asyncProperty(real, trials, arrivals, async (some, onTrial, requests) => {
    const alone = await serve(t, Object.fromEntries(named('real', some)))
    const trial = onTrial.map(policy => ({ ...policy, mode: 'shadow' as const }))
    const all = Object.fromEntries([...named('trial', trial), ...named('real', some)])
    const together = await serve(t, all)
    together.app.addHook('onResponse', async ({ quota }) => {
      if (quota.shadow.some(({ wouldRefuse }) => wouldRefuse)) seen.wouldRefuse++
    })
    try {
      for (const { client, after } of requests.slice(0, 15)) {
        const [one, other] = await Promise.all(
          [alone, together].map(async ({ app, clock }) => {
            clock.pass(after)
            return observed(await app.inject({ url: '/', remoteAddress: `192.0.2.${client}` }))
          })
        )
        if (JSON.stringify(one) !== JSON.stringify(other)) return false
        seen[(one as { statusCode: number }).statusCode === 200 ? 'served' : 'refused']++
      }
      return true
    } finally {
      await Promise.all([alone.app.close(), together.app.close()])
    }
  })
  await fc.assert(property, { numRuns: Math.ceil(runs / 15), seed })
  t.ok(
    Object.values(seen).every(count => count > 0),
    JSON.stringify(seen)
  )
})

t.test('a trial whose quota nobody can tell is none, and costs the others no field', async t => {
  const unknown = (): never => {
    throw new Error('no plan')
  }
  for (const hook of HOOKS) {
    const { app, errors } = await serve(t, {
      any: '9/1m',
      trial: { quota: unknown, window: '1m', mode: 'shadow', hook }
    })
    const { headers } = await app.inject('/')
    t.match(headers, { 'ratelimit-policy': '"any";q=9;w=60', ratelimit: '"any";r=8;t=60' }, hook)
    t.match(errors, [{ option: 'quota of policy "trial"' }])
  }
})
