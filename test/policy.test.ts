import fc from 'fast-check'
import t from 'tap'
import { firstOf } from '../src/partition.js'
import { compilePolicy, isUnits, readCost, sameDefinition } from '../src/policy.js'
import type { PolicyOptions, QuotaPolicy } from '../src/policy.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)
fc.configureGlobal({ seed, numRuns: 3000 })

// What it advises is the business of warnings.test.ts.
t.capture(process, 'emitWarning')

const compile = (written: unknown, name = 'daily'): QuotaPolicy => compilePolicy(name, written, ['user'])
const base = { quota: 10, window: '1m' }

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
const OPTIONS =
  'expected quota, window, algorithm, precision, align, burst, unit, cost, partition, hook, default, exempt, mode, ' +
  'advertise, onStoreFailure, status'

t.test('a policy has the agreed defaults', async t => {
  const { algorithm, rule, written, ...policy } = compile(base)
  t.equal(algorithm.name, 'sliding-window')
  t.equal(rule.label, 'ip')
  t.strictSame({ ...(written as object) }, base)
  t.strictSame(policy, {
    name: 'daily',
    quota: 10,
    window: 60_000,
    unit: 'requests',
    params: [10, 60_000, 10],
    field: 'daily/sliding-window/60000',
    capacity: 10,
    announcedWindow: 60,
    prefix: '"daily";r=',
    cost: 1,
    hook: 'preParsing',
    default: true,
    exempt: undefined,
    shadow: false,
    advertise: true,
    status: 429,
    onStoreFailure: undefined
  })
})

t.test('every option arrives in the policy', async t => {
  const exempt = (): boolean => false
  const cost = (): number => 2
  const { algorithm, rule, written, ...policy } = compile({
    quota: 60,
    window: 60,
    algorithm: 'token-bucket',
    burst: 120,
    unit: 'tokens',
    cost,
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
  t.strictSame(policy, {
    name: 'daily',
    quota: 60,
    window: 60_000,
    unit: 'tokens',
    params: [60, 60_000, 120, 1],
    field: 'daily/token-bucket/60000',
    capacity: 120,
    announcedWindow: 120,
    prefix: '"daily";r=',
    cost,
    hook: 'preHandler',
    default: false,
    exempt,
    shadow: true,
    advertise: false,
    status: 503,
    onStoreFailure: 'closed'
  })
  t.strictSame(compile({ ...base, precision: 20 }).params, [10, 60_000, 20])
  t.strictSame(compile({ ...base, algorithm: 'fixed-window', align: true }).params, [10, 60_000, 1])
  t.strictSame(compile({ ...base, algorithm: 'fixed-window' }).params, [10, 60_000, 0])
})

t.test('a short policy is the quota and the window', async t => {
  const table: readonly (readonly [written: string, quota: number, window: number])[] = [
    ['100/1m', 100, 60_000],
    ['0/10s', 0, 10_000],
    ['1/500ms', 1, 500],
    ['999999999/1d', 999_999_999, 86_400_000]
  ]
  for (const [written, quota, window] of table) {
    const policy = compile(written)
    t.strictSame([policy.quota, policy.window, policy.algorithm.name], [quota, window, 'sliding-window'])
  }
  const wrong = [
    '',
    '100',
    '100/60',
    '100/m',
    '/1m',
    '100 / 1m',
    '-1/1m',
    '1.5/1m',
    '1e3/1m',
    '100/1h30m',
    '1m/100'
  ]
  for (const written of wrong) {
    t.equal(
      refusal(written),
      `policy "daily": a short policy is written like '100/1m', got ${JSON.stringify(written)}`
    )
  }
  t.equal(refusal('5/0s'), `policy "daily": ${WINDOW}, got "0s"`)
})

t.test('quota 0 is a policy that holds nothing, whatever the algorithm', async t => {
  const table: readonly PolicyOptions[] = [
    { quota: 0, window: '1m' },
    { quota: 0, window: '1m', algorithm: 'fixed-window' },
    { quota: 0, window: '1m', algorithm: 'token-bucket' },
    { quota: 0, window: '1m', algorithm: 'token-bucket', burst: 5 }
  ]
  for (const written of table) {
    const { quota, capacity, announcedWindow } = compile(written)
    t.strictSame({ quota, capacity, announcedWindow }, { quota: 0, capacity: 0, announcedWindow: 60 })
  }
})

t.test('the announced window is never shorter than the true one', async t => {
  const table: readonly (readonly [written: PolicyOptions, seconds: number])[] = [
    [{ quota: 10, window: 1 }, 1],
    [{ quota: 10, window: '500ms' }, 1],
    [{ quota: 10, window: '1500ms' }, 2],
    [{ quota: 10, window: '1d' }, 86_400],
    [{ quota: 3, window: '10s', algorithm: 'token-bucket' }, 10],
    [{ quota: 3, window: '10s', algorithm: 'token-bucket', burst: 1 }, 4],
    [{ quota: 3, window: '10s', algorithm: 'token-bucket', burst: 4 }, 14],
    [{ quota: 1, window: '500ms', algorithm: 'token-bucket', burst: 3 }, 2],
    [{ quota: 100, window: '1s', algorithm: 'token-bucket', burst: 1 }, 1]
  ]
  for (const [written, seconds] of table) {
    t.equal(compile(written).announcedWindow, seconds, JSON.stringify(written))
  }
})

t.test('the counter of a policy does not depend on its quota', async t => {
  t.equal(compile('10/1m').field, compile('20/60s').field)
  t.not(compile('10/1m').field, compile('10/2m').field)
  t.not(compile('10/1m').field, compile({ ...base, algorithm: 'fixed-window' }).field)
  t.not(compile('10/1m').field, compile('10/1m', 'weekly').field)
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
    [undefined, 'a policy must be an object, got undefined'],
    [null, 'a policy must be an object, got null'],
    [10, 'a policy must be an object, got 10'],
    [[], 'a policy must be an object, got []'],
    [() => base, 'a policy must be an object, got a function'],
    [new Map(), 'a policy must be a plain object, got an instance of Map'],
    [Object.create(base), 'a policy must be a plain object, got an object that inherits from another one'],
    [{}, 'quota is required: an integer of 0 or more'],
    [{ quota: 10 }, "window is required: seconds or a duration like '10s'"],
    [{ window: '1m' }, 'quota is required: an integer of 0 or more'],
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
      { ...base, algorithm: 'sliding-windw' },
      'algorithm must be "sliding-window", "fixed-window" or "token-bucket", got "sliding-windw"; did you mean "sliding-window"?'
    ],
    [
      { ...base, algorithm: 'gcra' },
      'algorithm must be "sliding-window", "fixed-window" or "token-bucket", got "gcra"'
    ],
    [
      { ...base, algorithm: null },
      'algorithm must be "sliding-window", "fixed-window" or "token-bucket", got null'
    ],
    [
      { ...base, algorithm: 'constructor' },
      'algorithm must be "sliding-window", "fixed-window" or "token-bucket", got "constructor"'
    ],
    [{ ...base, precision: 0 }, 'precision must be an integer from 1 to 1000, got 0'],
    [{ ...base, precision: 1001 }, 'precision must be an integer from 1 to 1000, got 1001'],
    [{ ...base, precision: null }, 'precision must be an integer from 1 to 1000, got null'],
    [
      { ...base, algorithm: 'fixed-window', precision: 10 },
      'precision belongs to algorithm "sliding-window", got 10 with "fixed-window"'
    ],
    [{ ...base, align: true }, 'align belongs to algorithm "fixed-window", got true with "sliding-window"'],
    [{ ...base, burst: 5 }, 'burst belongs to algorithm "token-bucket", got 5 with "sliding-window"'],
    [{ ...base, algorithm: 'fixed-window', align: 1 }, 'align must be true or false, got 1'],
    [{ ...base, algorithm: 'fixed-window', align: null }, 'align must be true or false, got null'],
    [
      { ...base, algorithm: 'token-bucket', burst: 0 },
      'burst must be an integer from 1 to 999999999999999, got 0'
    ],
    [
      { ...base, algorithm: 'token-bucket', burst: null },
      'burst must be an integer from 1 to 999999999999999, got null'
    ],
    [{ ...base, unit: 'Tokens' }, 'unit must be \'requests\' or match ^[a-z][a-z0-9-]{0,31}$, got "Tokens"'],
    [{ ...base, unit: '' }, 'unit must be \'requests\' or match ^[a-z][a-z0-9-]{0,31}$, got ""'],
    [{ ...base, unit: null }, "unit must be 'requests' or match ^[a-z][a-z0-9-]{0,31}$, got null"],
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

t.test('the words of other limiters and near misses get the right suggestion', async t => {
  const text = ", in seconds or text like '1m'"
  const table: readonly (readonly [key: string, word: string, remark?: string])[] = [
    ['limit', 'quota'],
    ['max', 'quota'],
    ['points', 'quota'],
    ['qouta', 'quota'],
    ['quotas', 'quota'],
    ['timeWindow', 'window', text],
    ['windowMs', 'window', text],
    ['duration', 'window', text],
    ['ttl', 'window', text],
    ['widnow', 'window'],
    ['Window', 'window'],
    ['keyGenerator', 'partition'],
    ['partiton', 'partition'],
    ['allowList', 'exempt'],
    ['skip', 'exempt'],
    ['weight', 'cost'],
    ['costs', 'cost'],
    ['capacity', 'burst'],
    ['strategy', 'algorithm'],
    ['algorithim', 'algorithm'],
    ['statusCode', 'status'],
    ['dryRun', 'mode'],
    ['advertize', 'advertise'],
    ['skipOnError', 'onStoreFailure'],
    ['onStoreFailre', 'onStoreFailure']
  ]
  for (const [key, word, remark = ''] of table) {
    t.equal(
      refusal({ ...base, [key]: 7 }),
      `policy "daily": unknown option "${key}" with the value 7; did you mean "${word}"${remark}?`
    )
  }
  for (const key of ['banana', 'constructor', 'toString', 'hasOwnProperty', 'name']) {
    const message = refusal({ ...base, [key]: 7 })
    t.equal(message, `policy "daily": unknown option "${key}" with the value 7; ${OPTIONS}`)
  }
})

t.test('what is agreed but not built is refused, never ignored', async t => {
  const table: readonly (readonly [written: object, message: string])[] = [
    [{ maxDelay: '1s' }, 'maxDelay is not supported yet, got "1s"'],
    [{ holdFor: '30s' }, 'holdFor is not supported yet, got "30s"'],
    [{ maxHold: '1h' }, 'maxHold is not supported yet, got "1h"'],
    [{ refund: () => true }, 'refund is not supported yet, got a function'],
    [{ batch: { max: 10 } }, 'batch is not supported yet, got {"max":10}'],
    [{ batch: false }, 'batch is not supported yet, got false'],
    [{ largeLog: true }, 'largeLog is not supported yet, got true'],
    [{ quota: () => 10 }, 'quota as a function of the request is not supported yet'],
    [{ precision: 'exact' }, "precision 'exact' is not supported yet"],
    [{ algorithm: 'sliding-window-log' }, 'algorithm "sliding-window-log" is not supported yet'],
    [{ algorithm: 'sliding-window-counter' }, 'algorithm "sliding-window-counter" is not supported yet'],
    [{ algorithm: 'leaky-bucket' }, 'algorithm "leaky-bucket" is not supported yet'],
    [{ algorithm: 'concurrency' }, 'algorithm "concurrency" is not supported yet'],
    [{ unit: 'content-bytes' }, 'unit "content-bytes" is not supported yet'],
    [{ unit: 'concurrent-requests' }, 'unit "concurrent-requests" is not supported yet']
  ]
  for (const [options, message] of table) {
    t.equal(refusal({ ...base, ...options }), `policy "daily": ${message}`)
  }
  t.equal(
    refusal({ algorithm: 'concurrency', quota: 5 }),
    'policy "daily": algorithm "concurrency" is not supported yet',
    'also without a window, which concurrency has not'
  )
})

t.test('terms that cannot be counted with exact integers are refused', async t => {
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [
      '999999999999999/1m',
      'it cannot be counted exactly: quota times window in seconds must stay below 2^53, got about 6.0e+16'
    ],
    [
      { quota: 10, window: '1m', algorithm: 'token-bucket', burst: 1e12 },
      'it cannot be counted exactly: three times burst times window in milliseconds must stay below 2^53, got about 1.8e+17'
    ],
    [
      { quota: 10, window: '3600500ms', algorithm: 'token-bucket' },
      "it cannot be counted exactly: a bucket's window of an hour or more must be whole seconds, got 3600500 ms"
    ],
    [
      { quota: 1, window: '1h', algorithm: 'token-bucket', burst: 8e11 },
      'it cannot be counted exactly: the milliseconds that three times burst take to refill must stay below 2^53, got about 8.6e+18'
    ]
  ]
  for (const [written, message] of table) t.equal(refusal(written), `policy "daily": ${message}`)
  t.doesNotThrow(() => compile({ quota: 10, window: '36525d', precision: 1000 }))
})

t.test('a fault of an algorithm is not taken for a mistake of the operator', async t => {
  const { algorithm } = compile(base)
  const original = { ...algorithm }
  t.teardown(() => Object.assign(algorithm, original))
  Object.assign(algorithm, {
    params: () => {
      throw new TypeError('a bug')
    }
  })
  t.throws(() => compile(base), new TypeError('a bug'))
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
    `policy "daily": unknown option "__proto__" with the value {"mode":"shadow"}; ${OPTIONS}`
  )
})

t.test('a second definition is the same if it says the same', async t => {
  const cost = (): number => 2
  const partition = firstOf('user', 'ip')
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
    ['10/1m', '10/2m', false]
  ]
  for (const [first, second, same] of table) t.equal(sameDefinition(compile(first), second), same)
})

t.test('a policy is what was written when it was defined', async t => {
  const written = { ...base }
  const policy = compile(written)
  written.quota = 20
  t.equal(sameDefinition(policy, written), false)
})

t.test('a second definition that is no policy is refused for that', async t => {
  t.throws(() => sameDefinition(compile(base), { max: 10 }), {
    code: 'FST_QUOTA_POLICY',
    message: 'policy "daily": unknown option "max" with the value 10; did you mean "quota"?'
  })
})

t.test('a cost is an integer of 0 or more, or a function', async t => {
  const refuse = (message: string): never => {
    throw new RangeError(message)
  }
  const cost = (): number => 1
  t.equal(readCost(refuse, 'cost', cost), cost)
  t.equal(readCost(refuse, 'cost', 5), 5)
  t.ok(Object.is(readCost(refuse, 'cost', -0), 0), 'minus zero is zero')
  t.throws(
    () => readCost(refuse, 'cost of "daily"', [1]),
    new RangeError(
      'cost of "daily" must be an integer from 0 to 999999999999999 or a function of the request, got [1]'
    )
  )
})

t.test('units are integers that a structured field can carry', async t => {
  for (const value of [0, 1, 999_999_999_999_999]) t.ok(isUnits(value), String(value))
  for (const value of [-1, 0.5, 1e15, Number.NaN, Infinity, '1', 1n, null, undefined]) {
    t.notOk(isUnits(value), String(value))
  }
})

/** Options that are nearly right, with any JSON in any place. */
const nearly = (): fc.Arbitrary<Record<string, unknown>> => {
  const or = (...values: readonly unknown[]): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: fc.jsonValue() })
  return fc.record(
    {
      quota: fc.oneof(fc.nat(), fc.maxSafeNat(), or(0, -0, 1)),
      window: fc.oneof(fc.nat(), or('1ms', '1500ms', '10s', '36525d', 1, 3600)),
      algorithm: or('sliding-window', 'fixed-window', 'token-bucket'),
      precision: or(1, 10, 1000),
      align: or(true, false),
      burst: fc.oneof(fc.maxSafeNat(), or(1, 100)),
      unit: or('requests', 'tokens'),
      cost: or(0, -0, 5),
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
    { requiredKeys: ['quota', 'window'] }
  )
}

t.test('any options are a policy of integers, or refused in a sentence', async t => {
  let policies = 0
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
  fc.assert(
    fc.property(names, written, (name, options) => {
      let policy: QuotaPolicy
      try {
        policy = compile(options, name)
      } catch (error) {
        const { code, message } = error as Error & { readonly code?: unknown }
        if (typeof code !== 'string' || !code.startsWith('FST_QUOTA_')) throw error
        return message.length <= 400 && !/[\r\n]/.test(message)
      }
      policies++
      const { quota, window, params, capacity, announcedWindow, cost } = policy
      const numbers = [quota, window, ...params, capacity, announcedWindow, cost]
      return numbers.every(
        number => Number.isSafeInteger(number) && Number(number) >= 0 && !Object.is(number, -0)
      )
    })
  )
  t.ok(policies > 100, `${policies} policies were compiled`)
})

/** Without what no policy has, and without what belongs to another algorithm, so that most are right. */
function omit(options: Record<string, unknown>): Record<string, unknown> {
  const owners = { precision: 'sliding-window', align: 'fixed-window', burst: 'token-bucket' }
  const strange = [
    '__proto__',
    'x',
    ...Object.entries(owners).flatMap(([key, owner]) => (options['algorithm'] === owner ? [] : [key]))
  ]
  return Object.fromEntries(Object.entries(options).filter(([key]) => !strange.includes(key)))
}
