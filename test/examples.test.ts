import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { build as algorithms } from '../examples/algorithms.js'
import { build as cors } from '../examples/cors.js'
import { build as firstLimits } from '../examples/first-limits/app.js'
import { build as legacyFields } from '../examples/legacy-fields.js'
import { build as outsideHooks } from '../examples/outside-hooks.js'
import { build as partitions } from '../examples/partitions.js'
import { build as problemBody } from '../examples/problem-body.js'
import { build as proxy } from '../examples/proxy.js'
import { build as quickStart, serve } from '../examples/quick-start.js'
import { build as routes } from '../examples/routes.js'
import { build as scopes } from '../examples/scopes.js'
import { build as stages } from '../examples/stages.js'
import { build as testing } from '../examples/testing.js'
import { build as watch } from '../examples/watch.js'

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
  t.match((await app.inject('/counts')).json(), { allowed: 5, refused: 1, none: 0 })
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

t.test('algorithms: what the README says was measured is measured', async t => {
  const [, table = ''] = /<!-- measured -->\n\n((?:\|.*\n)+)/.exec(
    readFileSync(new URL('README.md', root), 'utf8')
  )!
  const written = table.split('\n').filter(line => line.startsWith('| `'))
  t.equal(written.length, 3)
  for (const [i, path] of ['/sliding', '/fixed', '/bucket'].entries()) {
    const measured: number[] = []
    for (const times of ATTACKS) measured.push(await mostInAnyMinute(path, times))
    t.match(written[i], `| ${measured.join(' | ')} |`, path)
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
    const program = start({ PORT: '0' }, '--once')
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
    const program = start({ PORT: String(port) })
    t.teardown(() => program.kill('SIGKILL'))
    let output = ''
    for await (const chunk of program.stdout.setEncoding('utf8')) {
      output += String(chunk)
      if (output.includes('Ctrl-C ends it.')) break
    }
    t.match(output, `Port ${port} is taken`)
    const [, url = ''] = /curl -i (\S+\/items)/.exec(output) ?? []
    t.match(await (await fetch(url)).json(), [{ id: 1 }, { id: 2 }])
    program.kill('SIGTERM')
    t.strictSame(await once(program, 'exit'), [0, null])
  })

  t.test('ends on SIGTERM in the middle of its requests', async t => {
    const program = start({ PORT: '0' })
    await once(program.stdout, 'data')
    program.kill('SIGTERM')
    program.stdout.resume()
    t.strictSame(await once(program, 'exit'), [0, null])
  })

  t.test('passes over no option and no port that is wrong', async t => {
    const programs = [start({ PORT: '' }, '--onse'), start({ PORT: '70000' })]
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

/** The program that `npm start` runs, without the test runner's loaders and coverage. */
function start(
  env: Readonly<Record<string, string>>,
  ...parameters: readonly string[]
): ChildProcessByStdio<null, Readable, null> {
  const program = fileURLToPath(new URL('dist/examples/first-limits.js', root))
  return spawn(process.execPath, [program, ...parameters], {
    env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '', ...env },
    stdio: ['ignore', 'pipe', 'ignore']
  })
}
