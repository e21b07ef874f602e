import type { FastifyInstance } from 'fastify'
import Fastify from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { audit } from '../../src/audit/index.js'
import type { AuditClock, AuditOptions, AuditPlan, AuditResult, Progress } from '../../src/audit/index.js'
import quota from '../../src/index.js'
import type { PolicyOptions, QuotaOptions } from '../../src/index.js'
import { EPOCH } from './kit.js'

const NOON = EPOCH + 12 * 3_600_000

/** What each algorithm admits at most, for a quota of 10, and what it is taken for. */
const FIGURES: readonly (readonly [string, Partial<PolicyOptions>, number, string])[] = [
  ['sliding-window', {}, 10, 'log'],
  ['sliding-window-log', { algorithm: 'sliding-window-log' }, 10, 'log'],
  ['fixed-window', { algorithm: 'fixed-window' }, 19, 'fixed'],
  ['fixed-window on the clock', { algorithm: 'fixed-window', align: true }, 20, 'fixed'],
  ['token-bucket', { algorithm: 'token-bucket' }, 19, 'bucket'],
  ['leaky-bucket', { algorithm: 'leaky-bucket' }, 19, 'bucket'],
  ...[1, 6, 10, 60].map(
    precision =>
      [
        `sliding-window-counter of precision ${precision}`,
        { algorithm: 'sliding-window-counter', precision } as const,
        20,
        'counter'
      ] as const
  )
]

for (const [name, options, most, kind] of FIGURES) {
  for (const window of ['2s', '1m'] as const) {
    t.test(`of 10 per ${window} ${name} is found to admit ${most}, as ${kind}`, async t => {
      const result = await audited(t, { policies: { p: { quota: 10, window, ...options } } })
      // The counter gives some units back only in the last milliseconds of a window.
      t.ok(
        Math.abs(result.worst.mostInAnyWindow - most) <= (most === 20 ? 1 : 0),
        `${result.worst.mostInAnyWindow}`
      )
      t.equal(
        result.worst.mostPossible,
        result.worst.mostInAnyWindow,
        'a clock that stands still leaves no doubt'
      )
      t.equal(result.worst.excess, result.worst.mostInAnyWindow / 10)
      t.equal(result.promiseKept, most === 10)
      t.match(result.limiter, { kind, capacity: 10, refill: window === '2s' ? 5 : 0.17 })
      t.strictSame(
        result.fields.checks.filter(({ answer }) => answer !== 'true'),
        [],
        'its fields are true'
      )
      t.strictSame(result.notes, [])
    })
  }
}

t.test('the result has the promise, each attack in its order, and the requests that prove it', async t => {
  const result = await audited(t, { policies: { p: { quota: 10, window: '2s', algorithm: 'fixed-window' } } })
  t.match(result, {
    target: 'app /items',
    startedAt: '2026-11-30T12:00:00.000Z',
    promise: { quota: 10, window: 2, policy: 'p', source: 'fields', others: [] },
    promiseKept: false,
    worst: { name: 'edge-burst', mostInAnyWindow: 19, excess: 1.9 }
  })
  t.strictSame(
    result.attacks.map(({ name }) => name),
    [
      'drained',
      'edge-burst',
      'sub-window-burst',
      'shifted-50',
      'obedient',
      'cold-start',
      'parallel',
      'aligned',
      'slow-drip',
      'shifted-25',
      'shifted-75'
    ]
  )
  const { evidence, window } = result.worst
  t.equal(evidence.length, 19)
  t.ok(evidence.every(({ outcome }) => outcome === 'admitted'))
  t.ok(window !== null && window.to - window.from < 2000)
  t.strictSame(JSON.parse(JSON.stringify(result)), result, 'JSON loses nothing')
})

t.test('an audit on a clock that is moved takes hardly any time, and goes through hours', async t => {
  const clock = { now: NOON }
  const began = performance.now()
  const result = await audited(t, { policies: { p: '10/1h' } }, {}, clock)
  t.ok(performance.now() - began < 60_000)
  t.ok(clock.now - NOON > 20 * 3_600_000)
  t.ok(result.promiseKept)
})

t.test('units that a request costs are counted', async t => {
  const app = Fastify()
  const clock = { now: NOON }
  await app.register(quota, { clock: () => clock.now, policies: { p: '10/2s' } })
  app.get('/items', { config: { quota: { cost: 5 } } }, () => 'served')
  const result = await audit({ app }, { clock, path: '/items', cost: 5 })
  t.match(result, { worst: { mostInAnyWindow: 10 }, limiter: { capacity: 10 }, promiseKept: true })
  t.equal(result.attacks.find(({ name }) => name === 'parallel')?.sent, 6)
  t.strictSame(
    result.fields.checks.filter(({ answer }) => answer !== 'true'),
    []
  )
})

t.test(
  'of several policies the one of the shortest window is attacked, or the one that is named',
  async t => {
    const policies = { burst: '10/2s', minute: '30/1m' } as const
    const short = await audited(t, { policies }, { attacks: ['drained'] })
    t.match(short.promise, {
      policy: 'burst',
      others: [{ policy: 'minute', unit: 'requests', quota: 30, window: 60 }]
    })
    const long = await audited(t, { policies }, { attacks: ['drained'], policy: 'minute' })
    t.match(long.promise, { policy: 'minute', quota: 30, window: 60 })
    t.match(long.notes, [/^\d+ of \d+ refusals were by "burst", behind which "minute" may admit more\.$/])
  }
)

t.test(
  'a promise can be stated where the fields say nothing, and be broken by no limiter at all',
  async t => {
    const app = Fastify()
    app.get('/items', () => 'served')
    const clock = { now: NOON }
    const options = { clock, path: '/items' }
    await t.rejects(audit({ app }, options), {
      code: 'CANNOT_MEASURE',
      message: /^the answer promises nothing: .*--quota and --window/
    })
    const result = await audit({ app }, { ...options, quota: 10, window: '2s' })
    t.match(result, {
      promise: { quota: 10, window: 2, policy: null, source: 'options' },
      limiter: { kind: 'none', because: 'nothing was refused' },
      promiseKept: false,
      attacks: [{ firstRefusalAfter: null }]
    })
  }
)

t.test('ways around are tried when asked for, and those found are named', async t => {
  const app = Fastify({ trustProxy: true })
  const clock = { now: NOON }
  await app.register(quota, { clock: () => clock.now, policies: { p: '10/2s' } })
  app.get('/items', () => 'served')
  const result = await audit({ app }, { clock, path: '/items', attacks: ['drained', 'bypass'] })
  const found = new Map(result.attacks.map(({ name, mostInAnyWindow }) => [name, mostInAnyWindow]))
  t.strictSame(
    found,
    new Map([
      ['drained', 10],
      ['bypass-head', 10],
      ['bypass-slash', 10],
      ['bypass-case', 10],
      ['bypass-encoded', 10],
      ['bypass-forwarded', 20],
      ['bypass-mapped', 10]
    ])
  )
  t.match(
    result.notes.filter(note => note.startsWith('bypass-forwarded')),
    ['bypass-forwarded: 10 of 10 requests were admitted after all was spent.']
  )
  t.notOk(result.promiseKept)
})

t.test('an audit tells its plan, and what it is doing', async t => {
  const plans: AuditPlan[] = []
  const progress: Progress[] = []
  await audited(
    t,
    { policies: { p: '10/2s' } },
    {
      attacks: ['drained', 'parallel'],
      onPlan: plan => void plans.push(plan),
      onProgress: step => void progress.push(step)
    }
  )
  t.match(plans, [{ target: 'app /items', promise: { quota: 10 }, plan: { attacks: { length: 2 } } }])
  t.strictSame(
    progress.map(({ stage, name, index, of }) => [stage, name, index, of]),
    [
      ['waiting', 'drained', 0, 2],
      ['attacking', 'drained', 0, 2],
      ['waiting', 'parallel', 1, 2],
      ['attacking', 'parallel', 1, 2],
      ['done', '', 2, 2]
    ]
  )
  t.ok(progress.every(({ remaining }) => remaining >= 0 && remaining <= 6000))
})

t.test('a clock that the quota does not count on is noticed', async t => {
  const app = await served(t, { policies: { p: '10/1h' } })
  await t.rejects(audit({ app }, { clock: { now: NOON }, path: '/items' }), {
    code: 'CANNOT_MEASURE',
    message: /^10 of 11 attacks were admitted nothing, though a window had passed/
  })
})

t.test('a server that runs is not asked on a clock of a test', async t => {
  await t.rejects(audit({ url: 'http://127.0.0.1:1/items' }, { clock: { now: NOON } }), {
    code: 'QUOTA_OPTION',
    message: 'audit: clock goes with { app } only: a server that runs counts on its own, got a url'
  })
})

t.test('a server that fails is not measured', async t => {
  const app = Fastify()
  const clock = { now: NOON }
  let asked = 0
  app.get('/items', (_request, reply) => reply.code(asked++ === 0 ? 200 : 500).send('x'))
  await t.rejects(audit({ app }, { clock, path: '/items', quota: 10, window: 2 }), {
    message: /^\d+ of \d+ requests failed, so nobody knows what would be admitted$/
  })
  await t.rejects(audit({ app }, { clock, path: '/items', quota: 10, window: 2 }), {
    message: 'the answer is an error of the server, 500'
  })
})

t.test('an answer from a cache is no answer of the limiter', async t => {
  const app = Fastify()
  app.get('/items', (_request, reply) => reply.header('age', '3').send('x'))
  await t.rejects(audit({ app }, { clock: { now: NOON }, path: '/items', quota: 10, window: 2 }), {
    code: 'CANNOT_MEASURE',
    message: /^the answer comes from a cache/
  })
})

t.test('an audit can be called off', async t => {
  const stop = new AbortController()
  const app = await served(t, { policies: { p: '10/1h' } })
  const options = { path: '/items', maxTime: '30d', signal: stop.signal, onPlan: () => stop.abort() }
  await t.rejects(audit({ app }, options), { name: 'AbortError' })
  await t.rejects(audit({ app }, { ...options, clock: { now: NOON } }), { name: 'AbortError' })
})

t.test('wrong options are refused before anything is sent', async t => {
  const app = await served(t, { policies: { p: '10/1h' } })
  await t.rejects(audit({ app }, { quotas: 3 } as AuditOptions), {
    code: 'QUOTA_OPTION',
    message: 'audit: unknown option "quotas" with the value 3; did you mean "quota"?'
  })
  await t.rejects(audit({ url: 'http://example.com/' }), {
    message: /only a server of your own may be attacked/
  })
})

async function served(t: Test, options: QuotaOptions): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, options)
  app.get('/items', () => 'served')
  return app
}

async function audited(
  t: Test,
  options: QuotaOptions,
  wishes: AuditOptions = {},
  clock: AuditClock = { now: NOON }
): Promise<AuditResult> {
  const app = await served(t, { ...options, clock: () => clock.now })
  return audit({ app }, { clock, path: '/items', ...wishes })
}
