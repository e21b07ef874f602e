import t from 'tap'
import { metered, scraped } from './kit.js'

t.test('each decision counts, and what each of its policies said', async t => {
  const { app, samples } = await metered(t, { policies: { wide: '9/1m', tight: '2/1m' } })
  for (let i = 0; i < 5; i++) await app.inject('/')
  t.strictSame(await samples(/decisions/), {
    'decisions_total{outcome="allowed",source="memory"}': 2,
    'decisions_total{outcome="refused",source="memory"}': 3,
    'policy_decisions_total{policy="wide",outcome="allowed",source="memory"}': 5,
    'policy_decisions_total{policy="tight",outcome="allowed",source="memory"}': 2,
    'policy_decisions_total{policy="tight",outcome="refused",source="memory"}': 3
  })
})

t.test('what was not decided yet is 0 beside what was, so that the first one is an increase', async t => {
  const { app, register } = await metered(t, {
    policies: { now: '1/1m', next: { quota: 2, window: '1m', mode: 'shadow' } }
  })
  await app.inject('/')
  t.match(await scraped(register), {
    'decisions_total{outcome="refused",source="memory"}': 0,
    'policy_decisions_total{policy="now",outcome="refused",source="memory"}': 0,
    'shadow_decisions_total{policy="next",outcome="refused"}': 0
  })
  await app.inject('/')
  t.match(await scraped(register), {
    'decisions_total{outcome="allowed",source="memory"}': 1,
    'decisions_total{outcome="refused",source="memory"}': 1
  })
})

t.test('exemptions count', async t => {
  const { app, samples } = await metered(t, {
    policies: { off: { quota: 1, window: '1m', exempt: () => true } }
  })
  await app.inject('/')
  t.strictSame(await samples(/decisions/), {
    'decisions_total{outcome="allowed",source="none"}': 1,
    'policy_decisions_total{policy="off",outcome="exempt",source="none"}': 1
  })
})

t.test('what is used of a quota is known before anybody is refused', async t => {
  const { app, samples, register } = await metered(t, { policies: { any: '4/1m' } })
  for (let i = 0; i < 3; i++) await app.inject('/')
  t.strictSame(await samples(/^used/), {
    'used_ratio_sum{policy="any"}': 0.25 + 0.5 + 0.75,
    'used_ratio_count{policy="any"}': 3
  })
  const text = await register.getSingleMetricAsString('fastify_quota_used_ratio')
  t.match(text, 'fastify_quota_used_ratio_bucket{le="0.25",policy="any"} 1')
  t.match(text, 'fastify_quota_used_ratio_bucket{le="0.75",policy="any"} 3')
})

t.test('of no quota there is no share', async t => {
  const { app, samples } = await metered(t, { policies: { none: '0/1m' } })
  await app.inject('/')
  t.strictSame(await samples(/^(used|retry)/), {})
})

t.test('the wait of what is refused is told in seconds, where there is one', async t => {
  const { app, clock, samples } = await metered(t, { policies: { any: '1/1m', huge: '9/1h' } })
  await app.inject('/')
  clock.pass(15_500)
  await app.inject('/')
  t.strictSame(await samples(/^retry/), {
    'retry_after_seconds_sum{policy="any"}': 44.5,
    'retry_after_seconds_count{policy="any"}': 1
  })
})

t.test('the wait in a queue is told in seconds', async t => {
  const { app, samples } = await metered(t, {
    policies: { queue: { quota: 20, window: '1s', algorithm: 'leaky-bucket', maxDelay: '1s' } }
  })
  await Promise.all([app.inject('/'), app.inject('/'), app.inject('/')])
  t.strictSame(await samples(/^delay/), {
    'delay_seconds_sum{policy="queue"}': 0.05 + 0.1,
    'delay_seconds_count{policy="queue"}': 2
  })
})

t.test('policies in shadow mode count apart from those that decide', async t => {
  const { app, samples } = await metered(t, {
    policies: { now: '9/1m', next: { quota: 1, window: '1m', mode: 'shadow' } }
  })
  for (let i = 0; i < 3; i++) await app.inject('/')
  t.strictSame(await samples(/decisions/), {
    'decisions_total{outcome="allowed",source="memory"}': 3,
    'policy_decisions_total{policy="now",outcome="allowed",source="memory"}': 3,
    'shadow_decisions_total{policy="next",outcome="allowed"}': 1,
    'shadow_decisions_total{policy="next",outcome="refused"}': 2
  })
})

t.test('a body that grew too long for a policy in shadow mode is no second decision', async t => {
  const { app, samples } = await metered(t, {
    policies: { long: { quota: 10, window: '1m', unit: 'content-bytes', mode: 'shadow' }, any: '9/1m' }
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const body = new Blob(['"' + 'x'.repeat(99) + '"']).stream()
  const headers = { 'content-type': 'application/json' }
  const { status } = await fetch(url, { method: 'POST', body, headers, duplex: 'half' })
  t.equal(status, 200)
  t.strictSame(await samples(/decisions/), {
    'decisions_total{outcome="allowed",source="memory"}': 1,
    'policy_decisions_total{policy="any",outcome="allowed",source="memory"}': 1,
    'shadow_decisions_total{policy="long",outcome="allowed"}': 1,
    'shadow_decisions_total{policy="long",outcome="refused"}': 1
  })
})

t.test('units that are returned and added later count, those that were right do not', async t => {
  const { app, samples } = await metered(t, {
    policies: { tokens: { quota: 1000, window: '1m', unit: 'tokens', cost: 10, default: false } }
  })
  const config = { quota: ['tokens'] }
  app.get<{ Params: { used: string } }>('/use/:used', { config }, ({ quota, params }) =>
    quota.settle('tokens', Number(params.used))
  )
  app.get('/spend', { config }, ({ quota }) => quota.spend('tokens', 3))
  for (const url of ['/use/4', '/use/10', '/use/25', '/spend']) await app.inject(url)
  t.strictSame(await samples(/^corrected/), {
    'corrected_units_total{policy="tokens",direction="returned"}': 6,
    'corrected_units_total{policy="tokens",direction="added"}': 18
  })
})

t.test('places are told while they are held, and to give one back is no correction', async t => {
  const { app, samples } = await metered(t, {
    policies: { busy: { quota: 9, algorithm: 'concurrency', default: false } }
  })
  let finish = (): void => {}
  const held = new Promise<void>(resolve => (finish = resolve))
  app.get('/hold', { config: { quota: ['busy'] } }, () => held)
  const both = [app.inject('/hold'), app.inject('/hold')]
  const job = await app.quota.reserve({ ip: '127.0.0.1' }, 'busy', 3)
  await new Promise(setImmediate)
  t.strictSame(await samples(/^leases/), { 'leases{policy="busy"}': 5 })
  await job.release()
  t.strictSame(await samples(/^leases/), { 'leases{policy="busy"}': 2 })
  finish()
  await Promise.all(both)
  t.strictSame(await samples(/^(leases|corrected)/), {})
})
