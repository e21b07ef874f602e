import fc from 'fast-check'
import t from 'tap'
import { firstOf } from '../src/partition.js'
import { compilePolicy, sameDefinition } from '../src/policy.js'
import type { QuotaPolicy } from '../src/policy.js'
import type { PolicyOptions } from '../src/policy-options.js'
import { ALGORITHMS } from './algorithms/names.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)
fc.configureGlobal({ seed, numRuns: 3000 })

// What it advises is the business of warnings.test.ts.
t.capture(process, 'emitWarning')

const compile = (written: unknown, name = 'daily'): QuotaPolicy => compilePolicy(name, written, ['user'])
const base = { quota: 10, window: '1m' }
const atOnce = { quota: 10, algorithm: 'concurrency' }
const bytes = { ...base, unit: 'content-bytes' }

/** The message a policy is refused with. */
function refusal(written: unknown, name = 'daily'): string {
  try {
    compile(written, name)
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: unknown }
    if (code === 'FST_QUOTA_POLICY') return message
    throw error
  }
  return 'not refused'
}

const WINDOW =
  "window must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d"
const QUOTA = 'quota must be an integer from 0 to 999999999999999'
const UNIT = "unit must be 'requests', 'content-bytes', 'concurrent-requests' or match ^[a-z][a-z0-9-]{0,31}$"
const AT_ONCE = `unit of "concurrency" is 'concurrent-requests' or one of your own`
const BYTES =
  'hook must be "onRequest" or "preParsing" for content-bytes without a cost, which counts bodies as they arrive'
const OPTIONS =
  'expected quota, window, algorithm, precision, largeLog, align, burst, maxDelay, holdFor, maxHold, unit, cost, ' +
  'refund, partition, hook, default, exempt, mode, advertise, onStoreFailure, batch, status'

t.test('a policy has the agreed defaults', async t => {
  const { algorithm, rule, written, withQuota, shareOf, reducedBy, ...policy } = compile(base)
  t.equal(algorithm.name, 'sliding-window')
  t.equal(rule.label, 'ip')
  t.strictSame({ ...(written as object) }, base)
  t.equal(withQuota(11).quota, 11)
  t.equal(shareOf(3).quota, 3)
  t.equal(reducedBy({ factor: 0.5, reason: 'a test' }).quota, 5)
  t.strictSame(
    { ...policy, toJSON: undefined },
    {
      name: 'daily',
      quota: 10,
      window: 60_000,
      unit: 'requests',
      params: [10, 60_000, 10],
      field: 'daily/sliding-window/60000',
      capacity: 10,
      announcedWindow: 60,
      prefix: '"daily";r=',
      quotaOf: undefined,
      reduction: undefined,
      cost: 1,
      metered: false,
      refund: undefined,
      holdFor: 30_000,
      maxHold: Infinity,
      exact: false,
      largeLog: false,
      batch: 0,
      hook: 'preParsing',
      default: true,
      exempt: undefined,
      shadow: false,
      advertise: true,
      status: 429,
      onStoreFailure: undefined,
      advice: [],
      toJSON: undefined
    }
  )
})

t.test('every option arrives in the policy', async t => {
  const exempt = (): boolean => false
  const cost = (): number => 2
  const refund = (): boolean => true
  const { algorithm, rule, written, withQuota, shareOf, reducedBy, ...policy } = compile({
    quota: 60,
    window: 60,
    algorithm: 'token-bucket',
    burst: 120,
    unit: 'tokens',
    cost,
    refund,
    partition: firstOf('user', 'ip'),
    hook: 'preHandler',
    default: false,
    exempt,
    mode: 'shadow',
    advertise: false,
    onStoreFailure: 'closed',
    status: 503
  } satisfies PolicyOptions)
  t.equal(algorithm.name, 'token-bucket')
  t.equal(rule.label, 'firstOf(user, ip)')
  t.equal((written as PolicyOptions).burst, 120)
  t.equal(withQuota(61).capacity, 120)
  t.strictSame([shareOf(7).quota, shareOf(7).capacity], [8, 17])
  const reduced = reducedBy({ factor: 0.1, reason: 'a test' })
  t.strictSame([reduced.quota, reduced.capacity], [6, 12])
  t.strictSame([reduced.shareOf(4).quota, reduced.shareOf(4).capacity], [1, 3])
  t.strictSame(
    { ...policy, toJSON: undefined },
    {
      name: 'daily',
      quota: 60,
      window: 60_000,
      unit: 'tokens',
      params: [60, 60_000, 7_200_000, 1, 0],
      field: 'daily/token-bucket/60000',
      capacity: 120,
      announcedWindow: 120,
      prefix: '"daily";r=',
      quotaOf: undefined,
      reduction: undefined,
      cost,
      metered: false,
      refund,
      holdFor: 30_000,
      maxHold: Infinity,
      exact: false,
      largeLog: false,
      batch: 0,
      hook: 'preHandler',
      default: false,
      exempt,
      shadow: true,
      advertise: false,
      status: 503,
      onStoreFailure: 'closed',
      advice: [],
      toJSON: undefined
    }
  )
  const { holdFor, maxHold, window } = compile({
    quota: 5,
    algorithm: 'concurrency',
    holdFor: '10s',
    maxHold: '1h'
  } satisfies PolicyOptions)
  t.strictSame({ holdFor, maxHold, window }, { holdFor: 10_000, maxHold: 3_600_000, window: 0 })
})

t.test('the counter of a policy does not depend on its quota', async t => {
  t.equal(compile('10/1m').field, compile('20/60s').field)
  t.not(compile('10/1m').field, compile('10/2m').field)
  t.not(compile('10/1m').field, compile({ ...base, algorithm: 'fixed-window' }).field)
  t.not(compile('10/1m').field, compile('10/1m', 'weekly').field)
})

t.test('the counter of a weighted window depends on its sub-windows', async t => {
  const field = (written: object): string => compile({ ...base, ...written }).field
  const algorithm = 'sliding-window-counter'
  t.equal(field({ algorithm }), 'daily/sliding-window-counter/60000/10')
  t.equal(field({ algorithm, precision: 10 }), field({ algorithm }))
  t.not(field({ algorithm, precision: 20 }), field({ algorithm }))
  t.equal(field({ precision: 20 }), field({}), 'that of an exact one does not')
})

t.test('the counter of a queue is not that of a bucket that refuses', async t => {
  const field = (options: object): string =>
    compile({ quota: 10, window: '1h', algorithm: 'leaky-bucket', ...options }).field
  t.equal(field({ maxDelay: '1h' }), field({ maxDelay: '1m' }))
  t.not(field({ maxDelay: '1h' }), field({}), 'which counts in other ticks')
  t.equal(field({ burst: 5 }), field({}))
})

t.test('nothing about a policy can be changed', async t => {
  for (const policy of [compile(base), compile(base).withQuota(5), compile({ ...base, quota: () => 1 })]) {
    t.ok(Object.isFrozen(policy) && Object.isFrozen(policy.params))
  }
})

t.test('whoever writes a policy as JSON writes its name', async t => {
  const policy = compile({ ...base, cost: () => 1, exempt: () => true })
  t.equal(JSON.stringify({ policy, variant: policy.withQuota(5) }), '{"policy":"daily","variant":"daily"}')
})

t.test('a policy counts in the unit it is written with', async t => {
  const table: readonly (readonly [written: object, unit: string, metered: boolean, cost: unknown])[] = [
    [base, 'requests', false, 1],
    [{ ...base, unit: 'requests' }, 'requests', false, 1],
    [{ ...base, unit: 'a' }, 'a', false, 1],
    [{ ...base, unit: `a${'9'.repeat(31)}` }, `a${'9'.repeat(31)}`, false, 1],
    [bytes, 'content-bytes', true, 0],
    [{ ...bytes, hook: 'onRequest' }, 'content-bytes', true, 0],
    [{ ...bytes, cost: 5, hook: 'preHandler' }, 'content-bytes', false, 5],
    [atOnce, 'concurrent-requests', false, 1],
    [{ ...atOnce, unit: 'concurrent-requests' }, 'concurrent-requests', false, 1],
    [{ ...atOnce, unit: 'connections' }, 'connections', false, 1]
  ]
  for (const [written, unit, metered, cost] of table) {
    const policy = compile(written)
    t.strictSame([policy.unit, policy.metered, policy.cost], [unit, metered, cost])
  }
})

t.test('a refund goes with all that can be given back', async t => {
  const refund = (): number => 1
  const algorithms = [
    'sliding-window',
    'sliding-window-log',
    'sliding-window-counter',
    'fixed-window',
    'token-bucket',
    'leaky-bucket'
  ]
  for (const algorithm of algorithms) t.equal(compile({ ...base, algorithm, refund }).refund, refund)
})

t.test('a plan is a policy with a counter of its own and a quota for each request', async t => {
  const quota = (): number => 10
  const plan = compile({ ...base, quota, cost: 3 })
  t.equal(plan.quotaOf, quota)
  const ten = plan.withQuota(10)
  t.strictSame([ten.quota, ten.capacity, ten.announcedWindow, ten.params], [10, 10, 60, [10, 60_000, 10]])
  t.equal(ten.field, plan.field, 'the same counter')
  t.equal(ten.field, compile(base).field)
  t.equal(ten.cost, 3)
  t.equal(ten.quotaOf, quota)
  const queue = compile({ ...base, quota, algorithm: 'leaky-bucket', maxDelay: '3s' })
  t.strictSame([queue.withQuota(60).capacity, queue.withQuota(60).announcedWindow], [4, 4])
  t.strictSame([queue.withQuota(0).capacity, queue.withQuota(0).announcedWindow], [0, 60])
})

t.test('the policy of a quota is computed once, but for more quotas than there are plans', async t => {
  const { withQuota } = compile({ ...base, quota: () => 10 })
  const first = withQuota(0)
  t.equal(withQuota(-0), first)
  t.equal(first.withQuota(1), withQuota(1), 'whoever asks')
  for (let quota = 2; quota < 1000; quota++) withQuota(quota)
  t.equal(withQuota(0), first, 'a thousand are remembered')
  const last = withQuota(1000)
  t.equal(withQuota(1000), last)
  t.not(withQuota(0), first, 'then it starts again')
})

t.test('a quota that cannot be counted is refused for each request', async t => {
  const { withQuota } = compile({ ...base, quota: () => 10 })
  const log = compile({ ...base, quota: () => 10, algorithm: 'sliding-window-log' })
  const table: readonly (readonly [read: QuotaPolicy['withQuota'], quota: unknown, message: string])[] = [
    [withQuota, Number.NaN, `${QUOTA}, got NaN`],
    [withQuota, -1, `${QUOTA}, got -1`],
    [withQuota, '5', `${QUOTA}, got "5"`],
    [withQuota, undefined, `${QUOTA}, got undefined`],
    [withQuota, Infinity, `${QUOTA}, got Infinity`],
    [withQuota, () => 5, `${QUOTA}, got a function`],
    [
      withQuota,
      999_999_999_999_999,
      'it cannot be counted exactly: quota times window in seconds must stay below 2^53, got about 6.0e+16'
    ],
    [
      log.withQuota,
      2000,
      'quota must be at most 1000 for an exact log, which keeps a number for each unit, unless largeLog is true, got 2000'
    ]
  ]
  for (const [read, quota, message] of table) {
    for (let time = 0; time < 2; time++) {
      t.throws(() => read(quota), { code: 'FST_QUOTA_POLICY', message: `policy "daily": ${message}` })
    }
  }
})

t.test('names that can be written in a field are taken, those of Object.prototype too', async t => {
  for (const name of [
    'a',
    'Z',
    'a1',
    'a.b_c-D',
    'x'.repeat(64),
    'constructor',
    'toString',
    'hasOwnProperty'
  ]) {
    t.equal(compile(base, name).name, name)
  }
})

t.test('other names are refused with the character that is wrong', async t => {
  const table: readonly (readonly [name: string, shown: string, found: string])[] = [
    ['a"b', '"a\\"b"', '"\\""'],
    ['a\\b', '"a\\\\b"', '"\\\\"'],
    ['a, b;c=1', '"a, b;c=1"', '","'],
    ['é', '"é"', '"é"'],
    ['snow☃', '"snow☃"', '"☃"'],
    ['a😀', '"a😀"', '"😀"'],
    ['', '""', '0 characters'],
    ['x'.repeat(65), `"${'x'.repeat(56)}...`, '65 characters'],
    ['x'.repeat(10_000), `"${'x'.repeat(56)}...`, '10000 characters'],
    ['a\r\nSet-Cookie: x=1', '"a\\r\\nSet-Cookie: x=1"', '"\\r"'],
    ['a\n', '"a\\n"', '"\\n"'],
    ['a\0', '"a\\u0000"', '"\\u0000"'],
    ['9lives', '"9lives"', '"9"'],
    ['.a', '".a"', '"."'],
    ['__proto__', '"__proto__"', '"_"'],
    ['a b', '"a b"', '" "'],
    ['a/b', '"a/b"', '"/"']
  ]
  for (const [name, shown, found] of table) {
    t.equal(
      refusal(base, name),
      `policy ${shown}: a name must start with a letter, then have up to 63 of A-Z a-z 0-9 . _ -, got ${found}`
    )
  }
})

t.test('what is written wrongly is refused with the option, the value and what was expected', async t => {
  const circular: Record<string, unknown> = { ...base }
  circular['quota'] = circular
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [undefined, "a policy must be an object, or text like '100/1m', got undefined"],
    [null, 'a policy must be an object, got null'],
    [10, "a policy must be an object, or text like '100/1m', got 10"],
    [[], 'a policy must be an object, got []'],
    [() => base, "a policy must be an object, or text like '100/1m', got a function"],
    [new Map(), 'a policy must be a plain object, got an instance of Map'],
    [Object.create(base), 'a policy must be a plain object, got an object that inherits from another one'],
    [{}, 'quota is required: an integer of 0 or more, or a function of the request'],
    [{ quota: 10 }, "window is required: seconds or a duration like '10s'"],
    [{ window: '1m' }, 'quota is required: an integer of 0 or more, or a function of the request'],
    [
      { algorithm: 'concurrency' },
      'quota is required: an integer of 0 or more, or a function of the request'
    ],
    ['5/0s', `${WINDOW}, got "0s"`],
    [{ quota: '10', window: '1m' }, `${QUOTA}, got "10"`],
    [{ quota: -1, window: '1m' }, `${QUOTA}, got -1`],
    [{ quota: Number.NaN, window: '1m' }, `${QUOTA}, got NaN`],
    [{ quota: 1.9, window: '1m' }, `${QUOTA}, got 1.9`],
    [{ quota: null, window: '1m' }, `${QUOTA}, got null`],
    [{ quota: Infinity, window: '1m' }, `${QUOTA}, got Infinity`],
    [{ quota: 10n, window: '1m' }, `${QUOTA}, got 10n`],
    [{ quota: 10n ** 400n, window: '1m' }, `${QUOTA}, got 1${'0'.repeat(56)}...`],
    [{ quota: true, window: '1m' }, `${QUOTA}, got true`],
    [circular, `${QUOTA}, got an object`],
    [{ quota: 1e15, window: '1m' }, `${QUOTA}, got 1000000000000000`],
    [{ quota: 10, window: 'banana' }, `${WINDOW}, got "banana"`],
    [{ quota: 10, window: -5 }, `${WINDOW}, got -5`],
    [{ quota: 10, window: 0 }, `${WINDOW}, got 0`],
    [{ quota: 10, window: 1.5 }, `${WINDOW}, got 1.5`],
    [{ quota: 10, window: Number.NaN }, `${WINDOW}, got NaN`],
    [{ quota: 10, window: '1 fortnight' }, `${WINDOW}, got "1 fortnight"`],
    [{ quota: 10, window: '1h30m' }, `${WINDOW}, got "1h30m"`],
    [{ quota: 10, window: {} }, `${WINDOW}, got {}`],
    [{ quota: 10, window: null }, `${WINDOW}, got null`],
    [
      { ...base, algorithm: 'gcra' },
      'algorithm must be "sliding-window", "sliding-window-log", "sliding-window-counter", "fixed-window", "token-bucket", "leaky-bucket" or "concurrency", got "gcra"'
    ],
    [
      { ...base, burst: 5 },
      'burst belongs to algorithm "token-bucket" or "leaky-bucket", got 5 with "sliding-window"'
    ],
    [{ ...base, unit: 'Tokens' }, `${UNIT}, got "Tokens"`],
    [{ ...base, unit: '' }, `${UNIT}, got ""`],
    [{ ...base, unit: null }, `${UNIT}, got null`],
    [{ ...base, unit: `a${'b'.repeat(32)}` }, `${UNIT}, got "a${'b'.repeat(32)}"`],
    [{ ...base, algorithm: 'concurrency', window: undefined, unit: 5 }, `${UNIT}, got 5`],
    [{ ...atOnce, unit: 'requests' }, `${AT_ONCE}, got "requests"`],
    [{ ...atOnce, unit: 'content-bytes' }, `${AT_ONCE}, got "content-bytes"`],
    [
      { ...base, unit: 'concurrent-requests' },
      `unit 'concurrent-requests' belongs to algorithm "concurrency", got it with "sliding-window"`
    ],
    [
      { ...base, unit: 'concurrent-requests', algorithm: 'leaky-bucket' },
      `unit 'concurrent-requests' belongs to algorithm "concurrency", got it with "leaky-bucket"`
    ],
    [{ ...base, refund: true }, 'refund must be a function, got true'],
    [{ ...base, refund: null }, 'refund must be a function, got null'],
    [
      { ...base, algorithm: 'leaky-bucket', maxDelay: '1s', refund: () => true },
      'refund and maxDelay exclude each other: a place in a queue is not given back'
    ],
    [
      { ...atOnce, refund: () => true },
      'refund means nothing to "concurrency", which gives everything back when a response is over'
    ],
    [{ ...bytes, hook: 'preValidation' }, `${BYTES}, got "preValidation"`],
    [{ ...bytes, hook: 'preHandler' }, `${BYTES}, got "preHandler"`],
    [
      { ...base, cost: -1 },
      'cost must be an integer from 0 to 999999999999999 or a function of the request, got -1'
    ],
    [
      { ...base, cost: '1' },
      'cost must be an integer from 0 to 999999999999999 or a function of the request, got "1"'
    ],
    [
      { ...base, cost: 0.5 },
      'cost must be an integer from 0 to 999999999999999 or a function of the request, got 0.5'
    ],
    [
      { ...base, cost: null },
      'cost must be an integer from 0 to 999999999999999 or a function of the request, got null'
    ],
    [
      { ...base, partition: 'usr' },
      "partition takes 'ip', 'global', 'route', a name of identify (user), firstOf(…) or allOf(…), got \"usr\"; did you mean \"user\"?"
    ],
    [
      { ...base, partition: () => 'x' },
      "partition takes 'ip', 'global', 'route', a name of identify (user), firstOf(…) or allOf(…), got a function; functions of the request belong in identify, under a name"
    ],
    [
      { ...base, partition: null },
      "partition takes 'ip', 'global', 'route', a name of identify (user), firstOf(…) or allOf(…), got null"
    ],
    [
      { ...base, hook: 'onrequest' },
      'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got "onrequest"; did you mean "onRequest"?'
    ],
    [
      { ...base, hook: 'onSend' },
      'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got "onSend"'
    ],
    [
      { ...base, hook: null },
      'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got null'
    ],
    [{ ...base, default: 'no' }, 'default must be true or false, got "no"'],
    [{ ...base, default: null }, 'default must be true or false, got null'],
    [{ ...base, exempt: ['127.0.0.1'] }, 'exempt must be a function, got ["127.0.0.1"]'],
    [{ ...base, exempt: null }, 'exempt must be a function, got null'],
    [{ ...base, mode: 'dry' }, 'mode must be "enforce" or "shadow", got "dry"'],
    [{ ...base, mode: null }, 'mode must be "enforce" or "shadow", got null'],
    [{ ...base, advertise: 0 }, 'advertise must be true or false, got 0'],
    [{ ...base, advertise: null }, 'advertise must be true or false, got null'],
    [
      { ...base, onStoreFailure: 'opn' },
      'onStoreFailure must be "open", "closed" or "local", got "opn"; did you mean "open"?'
    ],
    [{ ...base, onStoreFailure: null }, 'onStoreFailure must be "open", "closed" or "local", got null'],
    [{ ...base, status: 418 }, 'status must be 429 or 503, got 418'],
    [{ ...base, status: null }, 'status must be 429 or 503, got null']
  ]
  for (const [written, message] of table) t.equal(refusal(written), `policy "daily": ${message}`)
})

t.test('options without a prototype are options, and what all objects inherit is none', async t => {
  const bare = Object.assign(Object.create(null) as object, base)
  t.strictSame(compile(bare).params, compile(base).params)
  t.teardown(() => delete (Object.prototype as { mode?: string }).mode)
  Object.assign(Object.prototype, { mode: 'shadow' })
  t.equal(compile(base).shadow, false)
  t.equal(compile('10/1m').shadow, false)
  t.equal(
    refusal(JSON.parse('{"quota":10,"window":"1m","__proto__":{"mode":"shadow"}}')),
    `policy "daily": unknown option "__proto__" with the value an object with "mode"; ${OPTIONS}`
  )
})

/** What an option is if it is left out. */
const AS_DEFAULT = {
  algorithm: 'sliding-window',
  partition: 'ip',
  hook: 'preParsing',
  default: true,
  mode: 'enforce',
  advertise: true,
  status: 429
}

t.test('a second definition is the same if it means the same, however it is written', async t => {
  const cost = (): number => 2
  const partition = firstOf('user', 'ip')
  const queue = { ...base, algorithm: 'leaky-bucket' }
  const table: readonly (readonly [first: unknown, second: unknown, same: boolean])[] = [
    [base, { ...base }, true],
    [base, { window: '1m', quota: 10 }, true],
    [base, Object.assign(Object.create(null) as object, base), true],
    [base, '10/1m', true],
    ['10/1m', base, true],
    ['10/1m', '10/1m', true],
    [{ ...base, cost }, { ...base, cost }, true],
    [{ ...base, partition }, { ...base, partition: firstOf('user', 'ip') }, true],
    [{ ...base, partition }, { ...base, partition: firstOf('user', 'route') }, false],
    [{ ...base, cost }, { ...base, cost: () => 2 }, false],
    [base, { ...base, quota: 11 }, false],
    [base, { ...base, mode: 'shadow' }, false],
    ['10/1m', '10/2m', false],
    ['10/1m', { quota: 10, window: 60 }, true],
    ['10/1m', '10/60s', true],
    ['10/1m', '10/60000ms', true],
    [base, { ...base, ...AS_DEFAULT }, true],
    [{ ...base, ...AS_DEFAULT }, '10/1m', true],
    [base, { ...base, unit: undefined, cost: undefined, maxHold: undefined }, true],
    [base, { ...base, algorithm: 'fixed-window' }, false],
    [base, { ...base, partition: 'user' }, false],
    [base, { ...base, hook: 'preHandler' }, false],
    [base, { ...base, default: false }, false],
    [base, { ...base, advertise: false }, false],
    [base, { ...base, status: 503 }, false],
    [{ ...queue, maxDelay: '2s' }, { ...queue, maxDelay: 2 }, true],
    [{ ...queue, maxDelay: '2s' }, { ...queue, maxDelay: '3s' }, false],
    [{ ...atOnce, holdFor: '1m', maxHold: '1h' }, { ...atOnce, holdFor: 60, maxHold: '60m' }, true],
    [{ ...atOnce, holdFor: '1m' }, { ...atOnce, holdFor: '2m' }, false]
  ]
  for (const [first, second, same] of table) t.equal(sameDefinition(compile(first), second, ['user']), same)
})

t.test('a policy is what was written when it was defined', async t => {
  const written = { ...base }
  const policy = compile(written)
  written.quota = 20
  t.equal(sameDefinition(policy, written, ['user']), false)
})

t.test('a constant cost of its own that it can never hold is unwise, but not in shadow', async t => {
  const told = (written: object): readonly string[] =>
    compile({ ...base, ...written }).advice.map(({ message }) => message)
  t.match(told({ cost: 11 }), [
    'policy "daily": each request costs 11, more than the 10 that policy "daily" can ever hold, so all are refused: '
  ])
  for (const written of [
    { cost: 10 },
    { cost: 11, mode: 'shadow' },
    { cost: 11, quota: 0 },
    { cost: 11, quota: () => 1 }
  ])
    t.strictSame(told(written), [])
})

t.test('a second definition that is no policy is refused for that', async t => {
  t.throws(() => sameDefinition(compile(base), { max: 10 }, ['user']), {
    code: 'FST_QUOTA_POLICY',
    message: 'policy "daily": unknown option "max" with the value 10; did you mean "quota"?'
  })
})

/** Options that are nearly right, with any JSON in any place. */
const nearly = (): fc.Arbitrary<Record<string, unknown>> => {
  const or = (...values: readonly unknown[]): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: fc.jsonValue() })
  return fc.record(
    {
      quota: fc.oneof(fc.nat(2000), fc.nat(), fc.maxSafeNat(), or(0, -0, 1)),
      window: fc.oneof(fc.nat(), or('1ms', '1500ms', '10s', '36525d', 1, 3600)),
      algorithm: or(...ALGORITHMS),
      precision: or(1, 10, 1000, 'exact'),
      largeLog: or(true, false),
      align: or(true, false),
      burst: fc.oneof(fc.maxSafeNat(), or(1, 100)),
      maxDelay: fc.oneof(fc.nat(3_000_000), or('1ms', '1500ms', 5)),
      holdFor: fc.oneof(fc.nat(3_000_000), or('1ms', '30s')),
      maxHold: fc.oneof(fc.nat(3_000_000), or('1ms', '1h')),
      unit: or('requests', 'tokens', 'content-bytes', 'concurrent-requests'),
      cost: or(0, -0, 5),
      refund: fc.jsonValue(),
      batch: fc.jsonValue(),
      partition: or('ip', 'global', 'user'),
      hook: or('onRequest', 'preHandler'),
      default: or(true, false),
      mode: or('enforce', 'shadow'),
      advertise: or(true, false),
      onStoreFailure: or('open', 'local'),
      status: or(429, 503),
      ['__proto__']: fc.jsonValue(),
      [`x`]: fc.jsonValue()
    },
    { requiredKeys: ['quota', 'window', 'algorithm'] }
  )
}

t.test('one of several instances has its part of the quota and of the capacity, at least 1', async t => {
  const shares = (options: object, instances: number): readonly number[] => {
    const { quota, capacity, field } = compile({ ...base, ...options }).shareOf(instances)
    t.equal(field, compile({ ...base, ...options }).field, 'and the same counter')
    return [quota, capacity]
  }
  t.strictSame(shares({ quota: 10 }, 1), [10, 10])
  t.strictSame(shares({ quota: 10 }, 3), [3, 3])
  t.strictSame(shares({ quota: 2 }, 3), [1, 1])
  t.strictSame(shares({ quota: 0 }, 3), [0, 0], 'of nothing, nothing')
  t.strictSame(shares({ quota: 60, algorithm: 'token-bucket', burst: 10 }, 4), [15, 2])
  t.strictSame(shares({ quota: 60, algorithm: 'token-bucket', burst: 3 }, 4), [15, 1])
  const plan = compile({ ...base, quota: () => 100 }).withQuota(100)
  t.equal(plan.shareOf(4).quota, 25)
  t.equal(plan.shareOf(4).withQuota(8).quota, 8, 'whose quota is asked anew')
})

t.test('a policy can be spent in batches, if nothing about it stands against that', async t => {
  t.equal(compile({ ...base, batch: { max: 100 } }).batch, 100)
  const table: readonly (readonly [options: object, message: string])[] = [
    [{ batch: 100 }, 'batch must be an object, got 100'],
    [{ batch: {} }, 'batch.max must be an integer from 2 to 1000000, got undefined'],
    [{ batch: { max: 1 } }, 'batch.max must be an integer from 2 to 1000000, got 1'],
    [{ batch: { size: 9 } }, 'batch: unknown option "size" with the value 9; did you mean "max"?'],
    [{ batch: { max: 9 }, quota: () => 5 }, 'batch and a plan exclude each other, got {"max":9}'],
    [{ batch: { max: 9 }, refund: () => true }, 'batch and refund exclude each other, got {"max":9}'],
    [
      { batch: { max: 9 }, precision: 'exact' },
      `batch and precision 'exact' exclude each other, got {"max":9}`
    ],
    [
      { batch: { max: 9 }, algorithm: 'leaky-bucket', maxDelay: 1 },
      'batch and maxDelay exclude each other, got {"max":9}'
    ],
    [
      { batch: { max: 9 }, algorithm: 'concurrency', window: undefined },
      'batch and concurrency exclude each other, got {"max":9}'
    ]
  ]
  for (const [options, message] of table) {
    t.equal(refusal({ ...base, ...options }), `policy "daily": ${message}`)
  }
})

t.test('any options are a policy of integers, or refused in a sentence', async t => {
  const compiled = new Map<string, number>(ALGORITHMS.map(name => [name, 0]))
  const names = fc.oneof(
    { weight: 5, arbitrary: fc.constant('daily') },
    fc.string({ unit: 'binary', maxLength: 300 })
  )
  const short = fc.tuple(fc.maxSafeNat(), fc.nat(), fc.constantFrom('ms', 's', 'm', 'h', 'd'))
  const written = fc.oneof(
    { weight: 1, arbitrary: fc.jsonValue() },
    { weight: 1, arbitrary: short.map(([quota, count, unit]) => `${quota}/${count}${unit}`) },
    { weight: 8, arbitrary: nearly().map(options => omit(options)) },
    { weight: 2, arbitrary: nearly() }
  )
  /** What is compiled, or `undefined` for what is refused in a sentence. */
  const attempt = (compute: () => QuotaPolicy): QuotaPolicy | undefined => {
    try {
      return compute()
    } catch (error) {
      const { code, message } = error as Error & { readonly code?: unknown }
      if (typeof code !== 'string' || !code.startsWith('FST_QUOTA_')) throw error
      if (message.length > 500 || /[\r\n]/.test(message)) throw new Error('no sentence', { cause: error })
      return undefined
    }
  }
  const isSound = (policy: QuotaPolicy | undefined): boolean => {
    if (policy === undefined) return true
    const { quota, window, params, capacity, announcedWindow, cost, holdFor, maxHold } = policy
    return [quota, window, ...params, capacity, announcedWindow, cost, holdFor, maxHold].every(
      number =>
        (Number.isSafeInteger(number) && Number(number) >= 0 && !Object.is(number, -0)) ||
        (number === Infinity && number === maxHold)
    )
  }
  fc.assert(
    fc.property(names, written, fc.oneof(fc.nat(), fc.jsonValue()), (name, options, other) => {
      const policy = attempt(() => compile(options, name))
      if (policy === undefined) return true
      compiled.set(policy.algorithm.name, compiled.get(policy.algorithm.name)! + 1)
      const variant = attempt(() => policy.withQuota(other))
      return isSound(policy) && isSound(variant) && (variant === undefined || variant.field === policy.field)
    })
  )
  compiled.delete('sliding-window-log')
  for (const [name, policies] of compiled) t.ok(policies > 10, `${policies} policies of ${name}`)
})

/** Without what no policy has, and without what belongs to another algorithm, so that most are right. */
function omit(options: Record<string, unknown>): Record<string, unknown> {
  const algorithm = JSON.stringify(options['algorithm']).slice(1, -1)
  const owners = {
    window: /window|bucket/,
    precision: /^sliding-window(-counter)?$/,
    largeLog: /^sliding-window-log$/,
    align: /^fixed-window$/,
    burst: /^token-bucket$/,
    maxDelay: /^leaky-bucket$/,
    holdFor: /^concurrency$/,
    maxHold: /^concurrency$/,
    unit: /window|bucket/
  }
  const strange = [
    '__proto__',
    'x',
    'refund',
    'batch',
    ...Object.entries(owners).flatMap(([key, owner]) => (owner.test(algorithm) ? [] : [key]))
  ]
  return Object.fromEntries(Object.entries(options).filter(([key]) => !strange.includes(key)))
}
