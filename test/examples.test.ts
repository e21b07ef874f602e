import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { build as algorithms } from '../examples/algorithms.js'
import { build as concurrency } from '../examples/concurrency.js'
import { build as cors } from '../examples/cors.js'
import { build as firstLimits } from '../examples/first-limits/app.js'
import { build as legacyFields } from '../examples/legacy-fields.js'
import { build as liveChange } from '../examples/live-change.js'
import { build as llmGateway } from '../examples/llm-gateway/app.js'
import { pretend } from '../examples/llm-gateway/model.js'
import { tokensIn } from '../examples/llm-gateway/tokens.js'
import { build as openapi, writeDocument } from '../examples/openapi.js'
import { build as outsideHooks } from '../examples/outside-hooks.js'
import { build as partitions } from '../examples/partitions.js'
import { build as plans } from '../examples/plans.js'
import { build as problemBody } from '../examples/problem-body.js'
import { build as proxy } from '../examples/proxy.js'
import { build as queue } from '../examples/queue.js'
import { build as quickStart, serve } from '../examples/quick-start.js'
import { build as refunds } from '../examples/refunds.js'
import { build as reservations } from '../examples/reservations.js'
import { build as routes } from '../examples/routes.js'
import { build as scopes } from '../examples/scopes.js'
import { build as stages } from '../examples/stages.js'
import { build as testing } from '../examples/testing.js'
import { build as underPressure } from '../examples/under-pressure.js'
import { build as uploads } from '../examples/uploads.js'
import { build as watch } from '../examples/watch.js'
import { build as wire } from '../examples/wire.js'

const root = new URL('../../', import.meta.url)

t.setTimeout(120_000)

/** The app, closed when the test ends. */
async function opened(t: Test, app: Promise<FastifyInstance>): Promise<FastifyInstance> {
  const instance = await app
  t.teardown(() => instance.close())
  return instance
}

/** Answers to the same request, sent several times in a row. */
async function answers(
  app: FastifyInstance,
  request: string | InjectOptions,
  times: number
): Promise<readonly LightMyRequestResponse[]> {
  const all: LightMyRequestResponse[] = []
  for (let i = 0; i < times; i++) all.push(await app.inject(request))
  return all
}

async function statuses(
  app: FastifyInstance,
  times: number,
  request: string | InjectOptions = '/'
): Promise<readonly number[]> {
  return (await answers(app, request, times)).map(({ statusCode }) => statusCode)
}

const as = (name: string, url: string, options: InjectOptions = {}): InjectOptions => ({
  ...options,
  url,
  headers: { authorization: `Bearer token-of-${name}` }
})

t.test('quick-start: 100 requests are served and the 101st is refused, on every path', async t => {
  const app = await opened(t, quickStart())
  const all = await answers(app, '/', 101)
  t.ok(all.slice(0, 100).every(({ statusCode }) => statusCode === 200))
  t.match(all[99]!.headers, { ratelimit: '"default";r=0;t=60' })
  t.match(all[100]!.statusCode, 429)
  t.match(all[100]!.headers, { 'retry-after': '60', ratelimit: '"default";r=0;t=60' })
  t.strictSame(await statuses(app, 1, '/nowhere'), [429])
  const listen = t.captureFn(async () => 'http://localhost:3000')
  await serve({ listen } as unknown as FastifyInstance)
  t.match(listen.args(), [[{ port: 3000 }]])
})

t.test('routes: defaults, none, instead, in addition, by cost, in place', async t => {
  const app = await opened(t, routes())
  const [items] = await answers(app, '/items', 1)
  t.match(items!.headers, { 'ratelimit-policy': '"burst";q=20;w=10, "daily";q=10000;w=86400' })
  const [health] = await answers(app, '/health', 1)
  t.equal(health!.headers['ratelimit-policy'], undefined)
  t.strictSame(await statuses(app, 6, { method: 'POST', url: '/login' }), [200, 200, 200, 200, 200, 429])
  const [exported] = await answers(app, '/export', 1)
  t.match(exported!.headers, {
    ratelimit: '"burst";r=14;t=10, "heavy";r=45;t=3600, "daily";r=9994;t=86400'
  })
  const [report] = await answers(app, '/report?years=2', 1)
  t.match(report!.headers, { ratelimit: '"heavy";r=25;t=3600' })
  t.match((await answers(app, '/report', 1))[0]!.headers, { ratelimit: '"heavy";r=15;t=3600' })
  t.strictSame(await statuses(app, 3, '/search'), [200, 200, 429])
})

t.test('partitions: addresses, users, tenants, users on routes, everybody', async t => {
  const app = await opened(t, partitions())
  t.strictSame(await statuses(app, 4), [200, 200, 200, 429], 'nobody counts by address')
  t.strictSame(await statuses(app, 4, as('ann', '/')), [200, 200, 200, 429])
  t.strictSame(await statuses(app, 1, as('ben', '/')), [200])
  t.strictSame(await statuses(app, 3, as('ann', '/team')), [200, 200, 200])
  t.strictSame(await statuses(app, 2, as('ben', '/team')), [200, 429], 'of the same tenant')
  t.strictSame(await statuses(app, 1, as('cleo', '/team')), [200], 'of another tenant')
  t.strictSame(await statuses(app, 2, as('ann', '/a')), [200, 429])
  t.strictSame(await statuses(app, 2, as('ann', '/b')), [200, 429])
  t.strictSame(await statuses(app, 1, as('ben', '/a')), [200])
  t.strictSame(await statuses(app, 1, as('ann', '/launch')), [200])
  t.strictSame(await statuses(app, 2, '/launch'), [200, 429])
})

t.test(
  'live-change: a quota changes while it is used, for operators, and a wrong one changes nothing',
  async t => {
    const app = await opened(t, liveChange())
    const change = (
      policy: string,
      quota: unknown,
      remoteAddress = '127.0.0.1'
    ): Promise<LightMyRequestResponse> =>
      app.inject({ method: 'PUT', url: `/quotas/${policy}`, payload: { quota }, remoteAddress })
    t.strictSame(await statuses(app, 4), [200, 200, 200, 429])
    t.equal((await change('burst', 5, '192.0.2.1')).statusCode, 403)
    t.match((await change('burst', 5)).json(), [
      { policy: 'burst', from: { quota: 3 }, to: { quota: 5, window: 10_000 }, carriesOver: true }
    ])
    const [next] = await answers(app, '/', 1)
    t.match(next!.headers, { 'ratelimit-policy': '"burst";q=5;w=10, "hourly";q=100;w=3600' })
    t.strictSame(await statuses(app, 2), [200, 429])
    for (const wrong of [await change('burst', -5), await change('brst', 9)]) t.equal(wrong.statusCode, 400)
    t.match((await change('brst', 9)).json(), { error: /did you mean "burst"\?/ })
    t.strictSame(await statuses(app, 1), [429])
  }
)

t.test('under-pressure: half of each quota while the service is busy, and a 503 that says so', async t => {
  const calm = await opened(t, underPressure())
  t.strictSame(await statuses(calm, 5), [200, 200, 200, 200, 503])
  const busy = await opened(t, underPressure({ healthCheck: async () => false, healthCheckInterval: 60_000 }))
  const all = await answers(busy, '/', 3)
  t.strictSame(
    all.map(({ statusCode }) => statusCode),
    [200, 200, 503]
  )
  t.match(all[0]!.headers, { 'ratelimit-policy': '"default";q=2;w=60' })
  t.match(all[2]!.json(), {
    type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
    detail: /\(the service is busy\)/
  })
})

t.test('stages: before authentication, after it, and with the body', async t => {
  const app = await opened(t, stages())
  t.strictSame(await statuses(app, 6, '/vault'), [401, 401, 401, 401, 401, 429])
  t.strictSame(await statuses(app, 1), [401])
  const rows = (count: number): InjectOptions =>
    as('ann', '/rows', { method: 'POST', payload: Array.from({ length: count }, () => 0) })
  const [stored] = await answers(app, rows(600), 1)
  t.match(stored!.headers, { ratelimit: '"rows";r=400;t=3600, "user";r=2;t=60' })
  const [refused] = await answers(app, rows(401), 1)
  t.equal(refused!.statusCode, 429)
  t.match(refused!.headers, { ratelimit: '"rows";r=400;t=3600', 'retry-after': '3600' })
  const [another] = await answers(app, as('ann', '/'), 1)
  t.match(another!.headers, { ratelimit: '"user";r=1;t=60' }, 'the refused request cost nothing')
  t.match(another!.json(), { user: 'ann' })
  t.strictSame(await statuses(app, 1, as('ann', '/vault')), [429])
})

t.test('stages: whoever has authenticated and has attempts left is let in', async t => {
  const app = await opened(t, stages())
  t.strictSame(await statuses(app, 1, as('ann', '/vault')), [200])
})

t.test('legacy-fields: the older fields show the policy closest to its end', async t => {
  const app = await opened(t, legacyFields())
  const all = await answers(app, '/', 11)
  t.match(all[0]!.headers, {
    ratelimit: '"burst";r=9;t=10, "daily";r=999;t=86400',
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '9',
    'x-ratelimit-reset': '10'
  })
  t.equal(all[10]!.statusCode, 429)
  t.match(all[10]!.headers, { 'x-ratelimit-remaining': '0', 'retry-after': '10' })
})

t.test('wire: the closest of each unit, capped, with whose quota it is, and what SDKs read', async t => {
  const app = await opened(t, wire())
  const all = await answers(app, as('ann', '/'), 51)
  t.match(all[0]!.headers, {
    'ratelimit-policy': '"rpm";q=60;w=60, "rpd";q=5000;w=86400, "tpm";q=100000;qu="tokens";w=60',
    ratelimit: '"tpm";r=98000;t=98;pk=:YWNtZQ==:, "rpm";r=59;t=60;pk=:YWNtZQ==:',
    'x-ratelimit-remaining-requests': '59',
    'x-ratelimit-remaining-tokens': '98000',
    'x-ratelimit-reset-tokens': '1m0s'
  })
  t.equal(all[0]!.headers['x-should-retry'], undefined)
  const refused = all[50]!
  t.equal(refused.statusCode, 429)
  const [, wait] = /^"tpm";r=0;t=(\d+);pk=:YWNtZQ==:$/.exec(String(refused.headers['ratelimit'])) ?? []
  t.match(refused.headers, { 'retry-after': wait, 'x-should-retry': 'false' })
  t.match((await app.inject('/')).headers, { ratelimit: /^"tpm";r=98000;t=98;pk=:dmlzaXRvcg==:/ })
})

t.test(
  'openapi: a document in a file, valid, that tells the policies, the fields and the refusals',
  async t => {
    const app = await opened(t, openapi())
    const path = join(t.testdir(), 'openapi.json')
    await writeDocument(path)
    const { valid, errors } = await new Validator().validate(path)
    t.ok(valid, JSON.stringify(errors))
    const served = (await app.inject('/openapi.json')).json<{ paths: Record<string, { get: object }> }>()
    t.strictSame(JSON.parse(readFileSync(path, 'utf8')), served)
    t.match(served.paths['/weather']!.get, {
      'x-ratelimit-policies': [
        { name: 'burst', quota: 20, window: 10, unit: 'requests', partition: 'ip' },
        { name: 'daily', quota: 5000, window: 86_400, unit: 'requests', partition: 'ip' }
      ],
      responses: { 200: { description: 'The weather now.' }, 429: {}, 503: {} }
    })
    const weather = await app.inject('/weather')
    t.strictSame(weather.json(), { celsius: 21 })
    t.match(weather.headers, { ratelimit: '"burst";r=19;t=10, "daily";r=4999;t=86400' })
  }
)

t.test('problem-body: refusals in the words of the API, counted', async t => {
  const app = await opened(t, problemBody())
  const [, , refused] = await answers(app, '/', 3)
  t.equal(refused!.statusCode, 429)
  t.match(refused!.headers, { 'content-type': /^application\/problem\+json/, 'retry-after': '60' })
  t.match(refused!.json(), { title: 'Slow down, please', status: 429, policies: ['default'] })
  t.strictSame(await statuses(app, 1, '/nowhere'), [429])
  t.strictSame((await app.inject('/refusals')).json(), { '/': 1, none: 1 })
})

t.test('outside-hooks: a handler spends, peeks, resets and refuses', async t => {
  const app = await opened(t, outsideHooks())
  const invite = (name: string, count: number): InjectOptions =>
    as(name, '/invitations', {
      method: 'POST',
      payload: Array.from({ length: count }, () => 'a@example.com')
    })
  t.strictSame(await statuses(app, 1, invite('ann', 8)), [200])
  const [refused] = await answers(app, invite('ben', 3), 1)
  t.equal(refused!.statusCode, 429)
  t.match(refused!.headers, { ratelimit: '"mails";r=2;t=3600', 'retry-after': '3600' })
  const [hopeless] = await answers(app, invite('ben', 11), 1)
  t.equal(hopeless!.headers['retry-after'], undefined)
  const left = async (): Promise<unknown> => (await app.inject(as('ben', '/mails'))).json()
  t.strictSame(await left(), [{ policy: 'mails', left: 2 }])
  t.strictSame(await statuses(app, 1, { method: 'DELETE', url: '/mails/acme' }), [204])
  t.strictSame(await left(), [{ policy: 'mails', left: 10 }])
  t.match((await app.inject('/')).json(), { outcome: 'allowed', complete: true })
})

t.test('watch: decisions are counted, those of a shadow policy too', async t => {
  const app = await opened(t, watch())
  const all = await answers(app, '/', 6)
  t.strictSame(
    all.map(({ statusCode }) => statusCode),
    [200, 200, 200, 200, 200, 429]
  )
  t.match(all[0]!.headers, { 'ratelimit-policy': '"now";q=5;w=60' }, 'a shadow policy is not announced')
  t.match((await app.inject('/counts')).json(), { allowed: 5, refused: 1, none: 0, wouldRefuse: 4 })
  await app.inject({ method: 'POST', url: '/enforce' })
  const [next] = await answers(app, '/', 1)
  t.equal(next!.statusCode, 429, 'what it has counted as a trial is spent')
  t.match(next!.headers, { 'ratelimit-policy': '"next";q=2;w=60' })
})

t.test('cors: a refusal can be read by a page, and a preflight is free', async t => {
  const app = await opened(t, cors())
  const headers = { origin: 'https://app.example.com' }
  const preflight = { ...headers, 'access-control-request-method': 'GET' }
  t.strictSame(await statuses(app, 3, { method: 'OPTIONS', url: '/', headers: preflight }), [204, 204, 204])
  const [, , refused] = await answers(app, { url: '/', headers }, 3)
  t.equal(refused!.statusCode, 429)
  t.match(refused!.headers, {
    'access-control-allow-origin': 'https://app.example.com',
    'access-control-expose-headers': /RateLimit, RateLimit-Policy, Retry-After/
  })
})

t.test('proxy: what a client adds to the forwarded chain changes nothing', async t => {
  const app = await opened(t, proxy())
  const via = (chain: string): InjectOptions => ({ url: '/', headers: { 'x-forwarded-for': chain } })
  t.strictSame(await statuses(app, 1, via('203.0.113.9')), [200])
  t.strictSame(await statuses(app, 1, via('198.51.100.1, 203.0.113.9')), [429])
  t.strictSame(await statuses(app, 1, via('203.0.113.10')), [200])
})

t.test('scopes: a child scope adds a policy to its routes', async t => {
  const app = await opened(t, scopes())
  t.strictSame(await statuses(app, 3, '/admin/users'), [200, 200, 429])
  const [other] = await answers(app, '/', 1)
  t.match(other!.headers, { 'ratelimit-policy': '"default";q=100;w=60', ratelimit: '"default";r=97;t=60' })
})

t.test('testing: a clock takes the tests through time', async t => {
  const build = testing
  let now = 0
  const app = await build({ clock: () => now })
  t.strictSame(await statuses(app, 3), [200, 200, 429])
  now += 3_600_000
  t.strictSame(await statuses(app, 1), [200])
  await app.close()
  await (await build()).close()
})

t.test('plans: the quota is that of the plan, and what was spent stays spent', async t => {
  const app = await opened(t, plans())
  t.strictSame(await statuses(app, 3), [200, 200, 429], 'by address, for nobody is known')
  const all = await answers(app, as('ann', '/'), 4)
  t.match(all[2]!.headers, {
    'ratelimit-policy': '"hourly";q=3;w=3600',
    ratelimit: '"hourly";r=0;t=3600'
  })
  t.equal(all[3]!.statusCode, 429)
  await app.inject(as('ann', '/upgrade', { method: 'POST' }))
  const [upgraded] = await answers(app, as('ann', '/'), 1)
  t.match(upgraded!.headers, {
    'ratelimit-policy': '"hourly";q=100;w=3600',
    ratelimit: '"hourly";r=96;t=3600'
  })
  t.match((await app.inject(as('ben', '/'))).headers, { ratelimit: '"hourly";r=99;t=3600' })
})

t.test('refunds: failures of the server are free, and so are right passwords', async t => {
  const app = await opened(t, refunds())
  await answers(app, '/broken', 5)
  t.match((await app.inject('/')).headers, { ratelimit: '"default";r=99;t=60' })
  const login = (password: string): InjectOptions => ({
    method: 'POST',
    url: '/login',
    payload: { password }
  })
  t.strictSame(await statuses(app, 5, login('correct horse')), [200, 200, 200, 200, 200])
  t.strictSame(await statuses(app, 4, login('swordfish')), [401, 401, 401, 429])
  t.strictSame(await statuses(app, 1, login('correct horse')), [429])
})

t.test('reservations: the most is reserved, what was used is paid, and a stream pays as it goes', async t => {
  const app = await opened(t, reservations())
  t.strictSame((await app.inject('/search/anna')).json(), ['a', 'n', 'n', 'a'])
  const all = await app.inject('/all')
  t.match(all.headers, { ratelimit: '"rows";r=995;t=3600' })
  t.equal(all.payload.trimEnd().split('\n').length, 996)
  const refused = await app.inject('/search/anna')
  t.equal(refused.statusCode, 429)
  t.match(refused.headers, { ratelimit: '"rows";r=0;t=3600', 'retry-after': '3600' })
})

t.test('uploads: bytes count, whether their length is announced or not', async t => {
  const app = await opened(t, uploads())
  const upload = (payload: Buffer | Readable): InjectOptions => ({
    method: 'POST',
    url: '/uploads',
    headers: { 'content-type': 'application/octet-stream' },
    payload
  })
  const stored = await app.inject(upload(Buffer.alloc(600_000)))
  t.match(stored.headers, { ratelimit: '"uploads";r=400000;t=3600' })
  t.match(stored.json(), { sha256: /^[0-9a-f]{64}$/ })
  t.strictSame(await statuses(app, 1, upload(Buffer.alloc(400_001))), [429])

  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const streamed = async (bytes: number): Promise<Response> =>
    fetch(`${address}/uploads`, {
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream' },
      body: Readable.from(Array.from({ length: bytes / 50_000 }, () => Buffer.alloc(50_000))),
      duplex: 'half'
    })
  t.equal((await streamed(200_000)).status, 200)
  const cut = await streamed(5_000_000)
  t.equal(cut.status, 429)
  t.match(cut.headers.get('ratelimit'), /^"uploads";r=\d+;t=3600$/)
  await cut.text()
})

t.test('queue: what comes faster than the rate waits, and no longer than it may', async t => {
  const app = await opened(t, queue())
  const started = performance.now()
  const print = async (): Promise<readonly [status: number, after: number]> => {
    const { statusCode } = await app.inject({ method: 'POST', url: '/print' })
    return [statusCode, performance.now() - started]
  }
  const all = await Promise.all(Array.from({ length: 13 }, print))
  const printed = all.filter(([status]) => status === 200).map(([, after]) => after)
  t.equal(printed.length, 11)
  t.ok(printed.every((after, i) => after >= i * 100 - 5))
  t.strictSame(
    all.slice(11).map(([status]) => status),
    [503, 503]
  )
})

t.test('concurrency: streams take a place each until they end, and a job takes one too', async t => {
  const app = await opened(t, concurrency('2s', 100))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const leave = new AbortController()
  const first = await fetch(`${address}/events`, { signal: leave.signal })
  const second = await fetch(`${address}/events`)
  const third = await fetch(`${address}/events`)
  t.strictSame([first.status, second.status, third.status], [200, 200, 429])
  t.equal(second.headers.get('ratelimit-policy'), '"streams";q=2;qu="concurrent-requests"')
  t.equal(second.headers.get('ratelimit'), '"streams";r=0')
  t.equal(third.headers.get('retry-after'), null, 'nobody knows when a place is free')
  await third.text()

  leave.abort()
  const places = async (): Promise<number> =>
    (await app.quota.peek({ ip: '127.0.0.1' }, ['streams'])).limits[0]!.remaining
  while ((await places()) === 0) await sleep(5)
  t.equal(await places(), 1, 'the client is gone, and the place is free')
  await t.rejects(second.text(), 'a stream ends after the longest hold')
  while ((await places()) < 2) await sleep(5)

  const rebuild = { method: 'POST', url: '/rebuild' } as const
  t.strictSame(await statuses(app, 2, rebuild), [202, 429])
  await sleep(200)
  t.strictSame(await statuses(app, 1, rebuild), [202])
})

const ask = (name: string, prompt: string, most: number): InjectOptions =>
  as(name, '/chat', { method: 'POST', payload: { prompt, max_tokens: most } })

/** A prompt of so many tokens. */
const long = (tokens: number): string => ' a'.repeat(tokens)

t.test('llm-gateway: tokens and requests run out apart, and the fields say which', async t => {
  const app = await opened(t, llmGateway(pretend(0), { clock: () => 0 }))
  const left = async (name: string): Promise<unknown> => (await app.inject(as(name, '/usage'))).json()

  const large = await answers(app, ask('ann', long(29_990), 10), 4)
  t.strictSame(
    large.map(({ statusCode }) => statusCode),
    [200, 200, 200, 429]
  )
  t.match(large[2]!.headers, {
    'ratelimit-policy': '"rpm";q=60;w=60, "tpm";q=100000;qu="tokens";w=60',
    ratelimit: '"tpm";r=10000;t=60, "rpm";r=57;t=60'
  })
  t.match(large[3]!.headers, { ratelimit: '"tpm";r=10000;t=60', 'retry-after': '60' })
  t.match(large[3]!.json(), { 'violated-policies': ['tpm'] })
  t.strictSame(await left('ann'), { rpm: 57, tpm: 10_000 }, 'the refused one cost nothing')
  t.strictSame(await statuses(app, 1, ask('ann', long(4990), 10)), [200])
  t.strictSame(await left('ann'), { rpm: 56, tpm: 5000 })

  const small = await answers(app, ask('ben', long(5), 5), 70)
  t.equal(small.filter(({ statusCode }) => statusCode === 200).length, 60)
  t.match(small[60]!.headers, { ratelimit: '"rpm";r=0;t=60', 'retry-after': '60' })
  t.match(small[69]!.json(), { 'violated-policies': ['rpm'] })
  t.strictSame(await left('ben'), { rpm: 0, tpm: 100_000 - 600 })
})

t.test('llm-gateway: an answer is charged for the most it can take, then for what it took', async t => {
  const app = await opened(t, llmGateway(pretend(0)))
  const { headers, payload } = await app.inject(ask('ann', 'What is a quota?', 1000))
  t.match(headers, { 'content-type': 'text/event-stream', ratelimit: /"tpm";r=98995;t=60/ })
  t.match(payload, 'data: {"token":"A"}\n\ndata: {"token":"quota"}\n\n')
  t.match(payload, 'data: {"usage":{"prompt_tokens":5,"completion_tokens":52},"left":{"rpm":59,"tpm":99943}}')
  t.ok(payload.endsWith('data: [DONE]\n\n'))
  t.equal((await app.inject({ method: 'POST', url: '/chat', payload: { prompt: '…' } })).statusCode, 401)
})

t.test('llm-gateway: a client that leaves has paid for what was produced', async t => {
  const app = await opened(t, llmGateway(pretend(20)))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const leave = new AbortController()
  const { payload, ...request } = ask('ann', 'What is a quota?', 1000)
  const response = await fetch(`${address}/chat`, {
    method: 'POST',
    body: JSON.stringify(payload),
    headers: { ...(request.headers as Record<string, string>), 'content-type': 'application/json' },
    signal: leave.signal
  })
  const reader = response.body!.getReader()
  await reader.read()
  leave.abort()
  const spent = async (): Promise<number> =>
    100_000 - (await app.quota.peek({ 'api-key': 'ann' }, ['tpm'])).limits[0]!.remaining
  while ((await spent()) > 100) await sleep(5)
  t.ok((await spent()) > 5 && (await spent()) < 57)
})

t.test('llm-gateway: no prompt keeps the tokenizer busy for long', async t => {
  t.equal(tokensIn(''), 0)
  t.equal(tokensIn(' a'.repeat(10_000)), 10_000)
  t.ok(tokensIn('<|endoftext|>') > 1)
  const started = performance.now()
  t.ok(tokensIn('a'.repeat(100_000)) > 10_000)
  t.ok(performance.now() - started < 2000)
})

t.test('llm-gateway: the program serves, says what to try, and ends on SIGTERM', async t => {
  const program = start('llm-gateway', { PORT: '0' })
  t.teardown(() => program.kill('SIGKILL'))
  let output = ''
  for await (const chunk of program.stdout.setEncoding('utf8')) {
    output += String(chunk)
    if (output.includes('Ctrl-C ends it.')) break
  }
  const [, url = ''] = /curl (\S+\/usage)/.exec(output) ?? []
  const response = await fetch(url, { headers: { authorization: 'Bearer token-of-ann' } })
  t.strictSame(await response.json(), { rpm: 60, tpm: 100_000 })
  program.kill('SIGTERM')
  t.strictSame(await once(program, 'exit'), [0, null])
})

t.test('algorithms: what the README says was measured is measured', async t => {
  const [, table = ''] = /<!-- measured -->\n\n((?:\|.*\n)+)/.exec(
    readFileSync(new URL('README.md', root), 'utf8')
  )!
  const written = table.split('\n').filter(line => line.startsWith('| `'))
  t.equal(written.length, 6)
  for (const [i, path] of ['/sliding', '/log', '/counter', '/fixed', '/token', '/leaky'].entries()) {
    const measured: number[] = []
    for (const times of ATTACKS) measured.push(await mostInAnyMinute(path, times))
    t.match(written[i], ` | ${measured.join(' | ')} | `, path)
  }
  await (await algorithms()).close()
})

/** The start of a minute. */
const MINUTE = 1_800_000_000_000
const EVEN = Array.from({ length: 600 }, (_, i) => MINUTE + i * 200)
const EDGE = [MINUTE + 59_400, MINUTE + 60_600].flatMap(at => Array.from({ length: 10 }, () => at))
const ATTACKS: readonly (readonly number[])[] = [EVEN, EVEN.map(at => at + 30_000), EDGE]

/** The most requests admitted in (p − 60 s, p], for any p, when requests come at these times. */
async function mostInAnyMinute(path: string, times: readonly number[]): Promise<number> {
  let now = 0
  const app = await algorithms(() => now)
  const admitted: number[] = []
  for (now of times) {
    if ((await app.inject(path)).statusCode === 200) admitted.push(now)
  }
  await app.close()
  return Math.max(...admitted.map(p => admitted.filter(at => at > p - 60_000 && at <= p).length))
}

t.test('first-limits: each route has the quota that its comment says', async t => {
  const app = await opened(t, firstLimits())
  t.strictSame(await statuses(app, 4, { method: 'POST', url: '/login' }), [401, 401, 401, 429])
  t.strictSame(await statuses(app, 3, '/export'), [200, 200, 429])
  t.strictSame(await statuses(app, 1, '/items'), [429])
  t.strictSame(await statuses(app, 1, '/health'), [200])
  const me = (user: string): InjectOptions => ({ url: '/me', headers: { 'x-user': user } })
  t.strictSame(await statuses(app, 4, me('alice')), [200, 200, 200, 429])
  t.strictSame(await statuses(app, 1, me('bob')), [200])
})

t.test('npm start', async t => {
  // These tests wait most of the time: side by side.
  t.jobs = 4

  t.test('with --once: served, refused with a wait, served after the wait, and done', async t => {
    const program = start('first-limits', { PORT: '0' }, '--once')
    const [output, [code]] = await Promise.all([text(program.stdout), once(program, 'exit')])
    t.equal(code, 0)
    const rows = printed(output)
    t.equal(rows.length, 29)
    const items = rows.filter(({ path }) => path === '/items')
    t.match(items[0], { status: '200', limit: /^"burst";r=9;t=3, "daily";r=999;t=86400$/, wait: undefined })
    const refused = items.find(({ status }) => status === '429')!
    t.match(refused, { limit: /^"burst";r=0;t=\d+$/, wait: /^\d+$/ })
    const after = items.at(-1)!
    t.match(after, { status: '200' })
    t.ok(after.time >= refused.time + Number(refused.wait) - 0.1)
    t.ok(rows.filter(({ path }) => path === '/health').every(({ limit }) => limit === undefined))
    t.match(output, '"title": "Quota Exceeded"')
  })

  t.test('takes a free port if its own is taken, serves on, and ends on SIGTERM', async t => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    t.teardown(() => other.close())
    const { port } = other.address() as AddressInfo
    const program = start('first-limits', { PORT: String(port) })
    t.teardown(() => program.kill('SIGKILL'))
    let output = ''
    for await (const chunk of program.stdout.setEncoding('utf8')) {
      output += String(chunk)
      if (output.includes('Ctrl-C ends it.')) break
    }
    t.match(output, `Port ${port} is taken`)
    const [, url = ''] = /curl -i (\S+\/items)/.exec(output) ?? []
    t.match(await (await fetch(url)).json(), [{ id: 1 }, { id: 2 }])
    const [, page = ''] = /attack a quota of your choice, and watch: (\S+)/.exec(output) ?? []
    t.match(await (await fetch(page)).text(), '<h1>Attack a quota</h1>')
    program.kill('SIGTERM')
    t.strictSame(await once(program, 'exit'), [0, null])
  })

  t.test('ends on SIGTERM in the middle of its requests', async t => {
    const program = start('first-limits', { PORT: '0' })
    await once(program.stdout, 'data')
    program.kill('SIGTERM')
    program.stdout.resume()
    t.strictSame(await once(program, 'exit'), [0, null])
  })

  t.test('passes over no option and no port that is wrong', async t => {
    const programs = [start('first-limits', { PORT: '' }, '--onse'), start('first-limits', { PORT: '70000' })]
    const exits = await Promise.all(programs.map(program => once(program, 'exit')))
    t.strictSame(exits, [
      [1, null],
      [1, null]
    ])
  })
})

/** A request in the table that the program prints. */
interface Row {
  readonly time: number
  readonly path: string | undefined
  readonly status: string | undefined
  readonly limit: string | undefined
  readonly wait: string | undefined
}

function printed(output: string): readonly Row[] {
  const row =
    /^ +(\d+\.\d{3}) s +\w+ (\/\w+)(?: as \w+)? +(\d{3})(?: +("\w+";\S+(?:, "\w+";\S+)*))?(?: +(\d+))?$/gm
  return [...output.matchAll(row)].map(([, time, path, status, limit, wait]) => ({
    time: Number(time),
    path,
    status,
    limit,
    wait
  }))
}

/** An example that is a program, without the test runner's loaders and coverage. */
function start(
  example: string,
  env: Readonly<Record<string, string>>,
  ...parameters: readonly string[]
): ChildProcessByStdio<null, Readable, null> {
  const program = fileURLToPath(new URL(`dist/examples/${example}.js`, root))
  return spawn(process.execPath, [program, ...parameters], {
    env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '', ...env },
    stdio: ['ignore', 'pipe', 'ignore']
  })
}
