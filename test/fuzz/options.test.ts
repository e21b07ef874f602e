import assert from 'node:assert/strict'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import fc from 'fast-check'
import t from 'tap'
import quota, { memoryStore } from '../../src/index.js'
import { asDuration, refuser } from '../../src/options.js'
import { compilePolicy } from '../../src/policy.js'
import { readRouteQuota } from '../../src/route-quota.js'
import { FST_QUOTA_OPTION, FST_QUOTA_ROUTE } from '../../src/errors.js'
import { readSettings } from '../../src/settings.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { Costs, anything, nearMiss, sized, text } from './hostile.js'
import { ALGORITHMS } from '../algorithms/names.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 30 * runs)

// Node prints warnings unless nobody listens: there would be thousands.
process.removeAllListeners('warning')

/** The options, each with values that it may have. A key that is in none of these is known nowhere. */
const PLUGIN: Readonly<Record<string, readonly unknown[]>> = {
  policies: [{ default: '100/1m' }, { a: { quota: 1, window: 1 } }],
  identify: [{}, { user: () => 'x' }],
  store: [memoryStore()],
  fields: ['draft-11', false],
  legacy: [false, 'draft-6', 'llm', { style: 'x-ratelimit', reset: 'delta' }],
  select: ['all', 'closest'],
  cap: [1, false, { requests: 10 }],
  jitter: ['2s', false],
  partitionKey: ['hash', false],
  sdkHints: [true, false],
  ipv6Prefix: [64, 1, 128],
  problem: [false, () => ({})],
  onRefused: [() => {}],
  clock: [() => 1]
}
const POLICY: Readonly<Record<string, readonly unknown[]>> = {
  quota: [0, 1, 100, () => 1],
  window: [1, '1m', '500ms', '1d'],
  algorithm: ALGORITHMS,
  precision: [1, 10, 'exact'],
  largeLog: [true],
  align: [true],
  burst: [1, 10],
  maxDelay: ['1s'],
  holdFor: ['30s'],
  maxHold: ['1h'],
  unit: ['requests', 'tokens', 'content-bytes', 'concurrent-requests'],
  cost: [0, 1, () => 1],
  refund: [() => true],
  partition: ['ip', 'global', 'route'],
  hook: ['onRequest', 'preParsing', 'preValidation', 'preHandler'],
  default: [true, false],
  exempt: [() => true],
  mode: ['enforce', 'shadow'],
  advertise: [true, false],
  onStoreFailure: ['open', 'closed', 'local'],
  batch: [{ max: 2 }],
  status: [429, 503]
}
const ROUTE: Readonly<Record<string, readonly unknown[]>> = {
  policies: [['default']],
  also: [[{ name: 'own', quota: 1, window: 1 }]],
  cost: [1, 5, { default: 2 }],
  hook: ['onRequest', 'preHandler']
}

/** Some options, right, wrong or misspelt. */
function options(
  known: Readonly<Record<string, readonly unknown[]>>,
  required: readonly string[]
): fc.Arbitrary<object> {
  const name = fc.constantFrom(...Object.keys(known))
  const right = name.chain(name => fc.constantFrom(...known[name]!).map(value => [name, value] as const))
  const wrong = fc.tuple(name, anything)
  const strange = fc.tuple(fc.oneof(nearMiss(name), text), fc.oneof(anything, fc.constant(1)))
  const base = fc.tuple(
    ...required.map(name => fc.constantFrom(...known[name]!).map(value => [name, value] as const))
  )
  return fc
    .tuple(
      base,
      fc.array(
        fc.oneof(
          { weight: 6, arbitrary: right },
          { weight: 2, arbitrary: wrong },
          { weight: 1, arbitrary: strange }
        ),
        { maxLength: 4 }
      )
    )
    .map(([base, more]) => Object.fromEntries([...base, ...more]) as object)
}

const OF_REGISTER = ['prefix', 'logLevel', 'logSerializers']

const strangers = (value: unknown, known: readonly string[]): readonly string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.keys(value).filter(key => !known.includes(key))
    : []

/** What a refusal says: who speaks, and what was expected or what is known instead. */
const TELLING =
  /\b(?:must|expected|takes?|required|did you mean|needs?|cannot|belongs?|goes|already|means nothing|replaces|there is no|no policy is|never|at most|at least|without|only|unknown|not|exclude each other|is written like|is for|is 'exact')/

/** @returns whether it was accepted. @throws for any error but ours, and for ours that does not tell enough. */
function accepted(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch (error) {
    const { code = '', message } = error as { readonly code?: string | undefined; readonly message: string }
    assert.match(code, /^FST_QUOTA_(?:OPTION|POLICY|ROUTE)$/, String((error as Error).stack))
    assert.match(message, TELLING)
    assert.ok(message.length < 2000, message)
    return false
  }
}

const read = (
  known: Readonly<Record<string, readonly unknown[]>>,
  value: unknown,
  more: readonly string[],
  work: () => unknown
): boolean => {
  const strange = strangers(value, [...Object.keys(known), ...more])
  const was = accepted(work)
  assert.ok(!was || strange.length === 0, `passed in silence: ${strange.join()}`)
  return was
}

const refuseRoute = refuser(FST_QUOTA_ROUTE, 'route GET /')

for (const [name, tree, work] of [
  [
    'plugin',
    fc.oneof({ weight: 5, arbitrary: options(PLUGIN, ['policies']) }, { weight: 1, arbitrary: anything }),
    (value: unknown) => read(PLUGIN, value, OF_REGISTER, () => readSettings(value))
  ],
  [
    'policy',
    fc.oneof(
      { weight: 5, arbitrary: options(POLICY, ['quota', 'window']) },
      { weight: 1, arbitrary: anything }
    ),
    (value: unknown) => read(POLICY, value, [], () => compilePolicy('limited', value, ['user']))
  ],
  [
    'route',
    fc.oneof(
      { weight: 5, arbitrary: options(ROUTE, []) },
      { weight: 1, arbitrary: fc.constantFrom(Array(1), { also: Array(2) }, { policies: Array(1) }) },
      { weight: 1, arbitrary: anything },
      { weight: 1, arbitrary: fc.array(anything) }
    ),
    (value: unknown) =>
      read(ROUTE, value, [], () => {
        const { references } = readRouteQuota(refuseRoute, value)
        assert.ok(!references.includes(undefined as never), 'a hole')
      })
  ]
] as const) {
  t.test(`options of a ${name} work, or are refused by an error of ours that says why`, async t => {
    const costs = new Costs()
    let works = 0
    fc.assert(
      fc.property(tree, value => {
        if (costs.time(1000, () => work(value))) works++
      }),
      { numRuns: runs }
    )
    costs.check()
    t.ok(works > runs / 50 && works < runs, `${works} of ${runs} work`)
  })
}

t.test('a misspelt option is refused, and the right one is proposed', async () => {
  for (const [known, place] of [
    [PLUGIN, (value: object) => readSettings({ policies: { default: '1/1s' }, ...value })],
    [POLICY, (value: object) => compilePolicy('limited', { quota: 1, window: 1, ...value }, [])],
    [ROUTE, (value: object) => readRouteQuota(refuseRoute, value)]
  ] as const) {
    fc.assert(
      fc.property(nearMiss(fc.constantFrom(...Object.keys(known))), word => {
        if (Object.hasOwn(known, word) || OF_REGISTER.includes(word)) return
        assert.throws(
          () => place({ [word]: 1 }),
          (error: Error) => error.message.includes(JSON.stringify(word))
        )
      }),
      { numRuns: runs }
    )
  }
})

const near = fc.oneof(
  fc
    .tuple(
      fc.oneof(
        fc.nat().map(String),
        fc.constantFrom('0', '00', '01', '1.5', '-1', '1e3', '', '999999999', '9999999999')
      ),
      fc.constantFrom('ms', 's', 'm', 'h', 'd', 'S', ' s', 'w', '', 'min', 's\n')
    )
    .map(parts => parts.join('')),
  anything,
  fc.integer(),
  text
)

t.test('a duration is what its grammar says, and nothing else', async () => {
  const costs = new Costs()
  const each = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
  fc.assert(
    fc.property(near, value => {
      const [, digits, unit] = (typeof value === 'string' && /^([0-9]{1,9})(ms|[smhd])$/.exec(value)) || []
      const ms =
        typeof value === 'number'
          ? value * 1000
          : unit === undefined
            ? NaN
            : Number(digits) * each[unit as keyof typeof each]
      const right =
        Number.isInteger(ms / (typeof value === 'number' ? 1000 : 1)) && ms > 0 && ms <= 36_525 * each.d
      let read: number | undefined
      const was = costs.time(100, () =>
        accepted(() => (read = asDuration(refuser(FST_QUOTA_OPTION, 'here'), 'window', value)))
      )
      assert.equal(was, right, fc.stringify(value))
      if (right) assert.equal(read, ms)
    }),
    { numRuns: runs }
  )
  costs.check()
})

async function registered(options: unknown, route: unknown): Promise<void> {
  const app = Fastify()
  try {
    await app.register(quota, options as never)
    app.get('/', { config: { quota: route as never } }, () => 'served')
    await app.ready()
    const { statusCode } = await app.inject('/')
    assert.ok([200, 429, 503].includes(statusCode), `${statusCode}`)
  } finally {
    await app.close().catch(() => undefined)
  }
}

t.test('an app starts and serves, or does not start for an error of ours', async t => {
  let started = 0
  const policies = fc.oneof(
    { weight: 3, arbitrary: fc.constant({ default: '100/1m' }) },
    {
      weight: 4,
      arbitrary: options(POLICY, ['quota', 'window']).map(options => ({
        default: { ...options, default: true }
      }))
    },
    { weight: 1, arbitrary: fc.dictionary(text, anything, { maxKeys: 2 }) }
  )
  const plugin = fc
    .tuple(policies, options(PLUGIN, []))
    .map(([policies, options]) => ({ ...options, policies, store: undefined }))
  await fc.assert(
    fc.asyncProperty(
      plugin,
      fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, options(ROUTE, []), anything),
      async (options, route) => {
        try {
          await registered(options, route)
          started++
        } catch (error) {
          accepted(() => {
            throw error
          })
        }
      }
    ),
    { numRuns: sized(10) }
  )
  t.ok(started > 0, `${started} apps have started`)
})

// --- Functions of the operator ------------------------------------------------------------------------------------------

type Answer = { readonly value: unknown; readonly how: 'returned' | 'thrown' | 'resolved' | 'rejected' }

const answer: fc.Arbitrary<Answer> = fc.record({
  value: fc.oneof(anything, fc.constantFrom(0, 1, true, 'x')),
  how: fc.constantFrom('returned', 'returned', 'thrown', 'resolved', 'rejected')
})

function given({ value, how }: Answer): unknown {
  if (how === 'thrown') throw value
  if (how === 'returned') return value
  return how === 'resolved' ? Promise.resolve(value) : rejected(value)
}

async function rejected(value: unknown): Promise<never> {
  throw value
}

const FUNCTIONS = [
  'cost',
  'refund',
  'exempt',
  'quota',
  'identify',
  'problem',
  'partitionKey',
  'onRefused'
] as const

t.test('whatever a function of the operator does, it is no error of a request', async t => {
  const answers = new Map<string, Answer>()
  const of = (name: (typeof FUNCTIONS)[number]) => () => {
    const answer = answers.get(name)
    return answer === undefined
      ? ({ cost: 1, quota: 5, identify: 'x', problem: {} } as Record<string, unknown>)[name]
      : given(answer)
  }
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, {
    identify: { user: of('identify') as never },
    partitionKey: of('partitionKey') as never,
    problem: of('problem') as never,
    onRefused: of('onRefused'),
    policies: {
      plan: { quota: of('quota') as never, window: '1s', partition: 'user' },
      usual: {
        quota: 3,
        window: '1s',
        cost: of('cost') as never,
        refund: of('refund') as never,
        exempt: of('exempt') as never
      }
    }
  })
  app.get('/', () => 'served')
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.constantFrom(...FUNCTIONS), answer), async given => {
      answers.clear()
      for (const [name, answer] of Object.entries(given)) answers.set(name, answer)
      for (let i = 0; i < 2; i++) {
        const { statusCode, body, headers } = await app.inject('/')
        assert.ok(
          [200, 429].includes(statusCode) || (statusCode === 503 && given['quota'] !== undefined),
          `${statusCode} ${body}`
        )
        if (statusCode !== 200) assert.doesNotThrow(() => JSON.parse(body), body)
        assert.match(String(headers['ratelimit'] ?? ''), /^[\x20-\x7e]*$/)
      }
    }),
    { numRuns: sized(10) }
  )
})
