import t from 'tap'
import { compilePolicy } from '../src/policy.js'
import { checkCap, checkFurtherSettings, readSettings } from '../src/settings.js'
import type { Store } from '../src/store.js'
import { MemoryStore, memoryStore, monotonic } from '../src/stores/memory.js'

const policies = { daily: '10/1d' }

const foreignStore = (): Store => ({
  consume: () => ({ limits: [], source: 'redis' }),
  settle: () => ({ limits: [], source: 'redis' }),
  renew: () => [],
  peek: () => ({ limits: [], source: 'redis' }),
  reset: () => undefined,
  close: () => undefined
})

t.test('the settings have the agreed defaults', async t => {
  const { store, ...settings } = readSettings({ policies })
  t.ok(store instanceof MemoryStore)
  t.strictSame(settings, {
    fields: true,
    legacy: false,
    select: 'all',
    cap: 'long windows',
    jitter: 0,
    partitionKey: false,
    sdkHints: false,
    ipv6Prefix: 64,
    problem: undefined,
    onRefused: undefined,
    logRefusals: 60_000,
    wallClock: Date.now,
    clock: monotonic
  })
})

t.test('every option arrives in the settings', async t => {
  const problem = (): object => ({})
  const partitionKey = (): string => 'acme'
  const onRefused = (): void => undefined
  const store = foreignStore()
  const { wallClock, clock, ...settings } = readSettings({
    policies,
    identify: {},
    store,
    fields: false,
    legacy: { style: 'x-ratelimit', reset: 'epoch' },
    select: 'closest',
    cap: { requests: 10, tokens: 0.5 },
    jitter: '2s',
    partitionKey,
    sdkHints: true,
    ipv6Prefix: 56,
    problem,
    onRefused,
    logRefusals: '30s'
  })
  t.equal(settings.store, store)
  t.equal(wallClock, Date.now)
  t.equal(clock, monotonic)
  t.strictSame(settings, {
    store,
    fields: false,
    legacy: { style: 'x-ratelimit', reset: 'epoch' },
    select: 'closest',
    cap: Object.assign(Object.create(null) as object, { requests: 10, tokens: 0.5 }),
    jitter: 2000,
    partitionKey,
    sdkHints: true,
    ipv6Prefix: 56,
    problem,
    onRefused,
    logRefusals: 30_000
  })
  t.equal(readSettings({ policies, logRefusals: false }).logRefusals, false)
  t.equal(readSettings({ policies, problem: false }).problem, false)
  t.equal(readSettings({ policies, ipv6Prefix: 1 }).ipv6Prefix, 1)
  t.equal(readSettings({ policies, ipv6Prefix: 128 }).ipv6Prefix, 128)
  t.equal(readSettings({ policies, fields: 'draft-11', legacy: false }).fields, true)
  for (const legacy of ['draft-6', 'llm'] as const) t.equal(readSettings({ policies, legacy }).legacy, legacy)
  t.equal(readSettings({ policies, fields: false, legacy: 'draft-7' }).legacy, 'draft-7')
  t.equal(readSettings({ policies, partitionKey: 'hash' }).partitionKey, 'hash')
  t.equal(readSettings({ policies, cap: false }).cap, false)
  t.match(readSettings({ policies, cap: 0.5 }).cap, { requests: 0.5 }, 'a number is of requests')
  t.equal(readSettings({ policies, jitter: false }).jitter, 0)
  t.equal(readSettings({ policies, jitter: 3 }).jitter, 3000)
  t.equal(readSettings({ policies, jitter: '1h' }).jitter, 3_600_000)
})

t.test("what Fastify's register takes for itself is no option of the plugin", async t => {
  const written = { policies, prefix: '/v1', logLevel: 'warn', logSerializers: {} }
  t.doesNotThrow(() => readSettings(written))
  t.doesNotThrow(() => checkFurtherSettings(written))
  t.strictSame(
    Object.keys(written),
    ['policies', 'prefix', 'logLevel', 'logSerializers'],
    'nothing is removed'
  )
})

t.test('a cap is for units that a policy counts in', async t => {
  const compiled = [
    compilePolicy('daily', '10/1d', []),
    compilePolicy('tokens', { quota: 1, window: 1, unit: 'tokens' }, [])
  ]
  const check = (cap: unknown, of = compiled): void => checkCap(readSettings({ policies, cap }).cap, of)
  for (const cap of [undefined, false, 5, { tokens: 5 }, { tokens: 5, requests: 5 }]) {
    t.doesNotThrow(() => check(cap))
  }
  const names = 'fastify-quota: cap names'
  const refused = (message: string): { readonly code: string; readonly message: string } => ({
    code: 'FST_QUOTA_OPTION',
    message: `${names} ${message}`
  })
  t.throws(
    () => check({ tokens: 5, request: 5 }),
    refused('"request", which no policy counts; did you mean "requests"?')
  )
  t.throws(
    () => check({ toString: 5 }),
    refused('"toString", which no policy counts; expected "requests" or "tokens"')
  )
  t.throws(
    () => check(5, compiled.slice(1)),
    refused('"requests", which no policy counts; expected "tokens"')
  )
})

t.test('what is written wrongly is refused with the option, the value and what was expected', async t => {
  const halfStore = { ...foreignStore(), renew: undefined, close: undefined }
  class Redis {
    readonly password = 'secret'
  }
  const known =
    'expected policies, identify, store, fields, legacy, select, cap, jitter, partitionKey, sdkHints, ipv6Prefix, ' +
    'problem, onRefused, logRefusals, clock'
  const store = 'store must be memoryStore(…), redisStore(…) or another Store, got'
  const legacy =
    "legacy must be false, 'draft-6', 'draft-7', 'llm' or { style: 'x-ratelimit', reset: 'delta' | 'epoch' }, got"
  const draft7 =
    "legacy 'draft-7' has the names of the draft's fields and cannot stand beside them: add fields: false"
  const cap = 'cap must be false, or units per second: a number above 0 or { [unit]: number }, got'
  const jitter =
    "jitter must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d, got"
  const partitionKey = "partitionKey must be false, 'hash' or a function of the request, got"
  const table: readonly (readonly [options: object, message: string])[] = [
    [{ policies: undefined }, "policies is required, such as { default: '100/1m' }"],
    [
      { policys: { daily: '10/1d' } },
      'unknown option "policys" with the value an object with "daily"; did you mean "policies"?'
    ],
    [
      { policy: {} },
      'unknown option "policy" with the value an object with no keys; did you mean "policies"?'
    ],
    [{ quota: 10 }, 'unknown option "quota" with the value 10; did you mean "policies"?'],
    ...['max', 'limit', 'timeWindow', 'windowMs', 'window'].map(
      key =>
        [
          { [key]: 100 },
          `unknown option "${key}" with the value 100; did you mean "policies", such as { default: '100/1m' }?`
        ] as const
    ),
    [
      { standardHeaders: 'draft-8' },
      'unknown option "standardHeaders" with the value "draft-8"; did you mean "fields"?'
    ],
    [
      { legacyHeaders: true },
      `unknown option "legacyHeaders" with the value true; did you mean "legacy", such as { style: 'x-ratelimit', reset: 'epoch' }?`
    ],
    [
      { keyGenerator: () => 'x' },
      'unknown option "keyGenerator" with the value a function; did you mean "identify"?'
    ],
    [
      { redis: new Redis() },
      'unknown option "redis" with the value an instance of Redis; did you mean "store", such as redisStore(client, { onFailure, secret })?'
    ],
    [
      { redis: { host: 'redis', password: 'secret' } },
      'unknown option "redis" with the value an object with "host", "password"; did you mean "store", such as redisStore(client, { onFailure, secret })?'
    ],
    [
      { enableDraftSpec: true },
      'unknown option "enableDraftSpec" with the value true; did you mean "fields"?'
    ],
    [{ ipv6Subnet: 56 }, 'unknown option "ipv6Subnet" with the value 56; did you mean "ipv6Prefix"?'],
    [
      { indentify: {} },
      'unknown option "indentify" with the value an object with no keys; did you mean "identify"?'
    ],
    [{ onrefused: 1 }, 'unknown option "onrefused" with the value 1; did you mean "onRefused"?'],
    [{ banana: 1 }, `unknown option "banana" with the value 1; ${known}`],
    [{ toString: 1 }, `unknown option "toString" with the value 1; ${known}`],
    [
      JSON.parse('{"__proto__":{"clock":1}}'),
      `unknown option "__proto__" with the value an object with "clock"; ${known}`
    ],
    [{ select: 'first' }, 'select must be "all" or "closest", got "first"'],
    [{ select: 'closets' }, 'select must be "all" or "closest", got "closets"; did you mean "closest"?'],
    [{ select: null }, 'select must be "all" or "closest", got null'],
    [{ cap: 0 }, `${cap} 0`],
    [{ cap: -1 }, `${cap} -1`],
    [{ cap: Number.NaN }, `${cap} NaN`],
    [{ cap: Infinity }, `${cap} Infinity`],
    [{ cap: '10' }, `${cap} "10"`],
    [{ cap: true }, `${cap} true`],
    [{ cap: null }, `${cap} null`],
    [{ cap: {} }, `${cap} {}`],
    [{ cap: { requests: 10, tokens: '5' } }, `${cap} {"requests":10,"tokens":"5"}`],
    [{ cap: { requests: undefined } }, `${cap} {}`],
    [{ cap: [10] }, 'cap must be an object, got [10]'],
    [{ cap: new Redis() }, 'cap must be a plain object, got an instance of Redis'],
    [{ jitter: true }, `${jitter} true`],
    [{ jitter: 0 }, `${jitter} 0`],
    [{ jitter: 0.5 }, `${jitter} 0.5`],
    [{ jitter: null }, `${jitter} null`],
    [{ jitter: '2 seconds' }, `${jitter} "2 seconds"`],
    [{ jitter: '61m' }, 'jitter must be at most 1h, got "61m"'],
    [{ jitter: 3601 }, 'jitter must be at most 1h, got 3601, which is in seconds'],
    [{ partitionKey: true }, `${partitionKey} true`],
    [{ partitionKey: 'user' }, `${partitionKey} "user"`],
    [{ partitionKey: null }, `${partitionKey} null`],
    [{ sdkHints: 'yes' }, 'sdkHints must be true or false, got "yes"'],
    [{ sdkHints: null }, 'sdkHints must be true or false, got null'],
    [{ legacy: 'draft-7' }, draft7],
    [{ legacy: 'draft-7', fields: 'draft-11' }, draft7],
    [{ legacy: 'draft-8' }, `${legacy} "draft-8"`],
    [{ legacy: true }, `${legacy} true`],
    [{ legacy: null }, `${legacy} null`],
    [{ legacy: 'x-ratelimit' }, `${legacy} "x-ratelimit"`],
    [{ legacy: ['draft-6', 'llm'] }, `${legacy} ["draft-6","llm"]`],
    [{ legacy: { style: 'x-ratelimit' } }, 'legacy.reset must be "delta" or "epoch", got undefined'],
    [
      { legacy: { style: 'x-ratelimit', reset: 'epoc' } },
      'legacy.reset must be "delta" or "epoch", got "epoc"; did you mean "epoch"?'
    ],
    [{ legacy: { reset: 'delta' } }, 'legacy.style must be "x-ratelimit", got undefined'],
    [
      { legacy: { stile: 'x-ratelimit', reset: 'delta' } },
      'legacy: unknown option "stile" with the value "x-ratelimit"; did you mean "style"?'
    ],
    [{ fields: true }, 'fields must be "draft-11" or false, got true'],
    [{ fields: null }, 'fields must be "draft-11" or false, got null'],
    [{ fields: 'draft-10' }, 'fields must be "draft-11" or false, got "draft-10"; did you mean "draft-11"?'],
    [{ ipv6Prefix: 0 }, 'ipv6Prefix must be an integer from 1 to 128, got 0'],
    [{ ipv6Prefix: 129 }, 'ipv6Prefix must be an integer from 1 to 128, got 129'],
    [{ ipv6Prefix: '64' }, 'ipv6Prefix must be an integer from 1 to 128, got "64"'],
    [{ ipv6Prefix: null }, 'ipv6Prefix must be an integer from 1 to 128, got null'],
    [{ problem: true }, 'problem must be false or a function of the decision, got true'],
    [{ problem: null }, 'problem must be false or a function of the decision, got null'],
    [{ problem: { status: 429 } }, 'problem must be false or a function of the decision, got {"status":429}'],
    [{ onRefused: 'log' }, 'onRefused must be a function, got "log"'],
    [{ onRefused: null }, 'onRefused must be a function, got null'],
    [{ store: null }, `${store} null`],
    [{ store: 'memory' }, `${store} "memory"`],
    [{ store: memoryStore }, `${store} a function`],
    [
      { store: { host: 'redis', password: 'secret' } },
      `${store} an object with "host", "password" without the method consume, settle, renew, peek, reset, close`
    ],
    [
      { store: halfStore },
      `${store} an object with "consume", "settle", "renew", "peek", "reset" without the method renew, close`
    ],
    [
      { store: new Redis() },
      `${store} an instance of Redis without the method consume, settle, renew, peek, reset, close`
    ],
    [
      { store: { defineCommand: () => undefined } },
      `${store} an object with "defineCommand" without the method consume, settle, renew, peek, reset, close; write redisStore(client, { onFailure, secret })`
    ],
    [{ clock: 1000 }, 'clock must be a function, got 1000'],
    [{ clock: null }, 'clock must be a function, got null'],
    [
      { clock: Date.now, store: foreignStore() },
      'clock goes with memoryStore(…) only, got the store an object with "consume", "settle", "renew", "peek", "reset"'
    ]
  ]
  for (const [options, message] of table) {
    t.throws(() => readSettings({ policies, ...options }), {
      code: 'FST_QUOTA_OPTION',
      message: `fastify-quota: ${message}`
    })
  }
  for (const [written, shown] of [
    [undefined, 'must be an object, got undefined'],
    [null, 'must be an object, got null'],
    ['100/1m', 'must be an object, got "100/1m"'],
    [Object.create({ policies }), 'must be a plain object, got an object that inherits from another one']
  ] as const) {
    t.throws(() => readSettings(written), {
      code: 'FST_QUOTA_OPTION',
      message: `fastify-quota: options ${shown}`
    })
  }
})

t.test('options without a prototype are options, and what all objects inherit is none', async t => {
  t.equal(
    readSettings(Object.assign(Object.create(null) as object, { policies, ipv6Prefix: 48 })).ipv6Prefix,
    48
  )
  t.teardown(() => delete (Object.prototype as { ipv6Prefix?: number }).ipv6Prefix)
  Object.assign(Object.prototype, { ipv6Prefix: 1 })
  t.equal(readSettings({ policies }).ipv6Prefix, 64)
  t.doesNotThrow(() => checkFurtherSettings({ policies }))
})

t.test('a clock is whole milliseconds', async t => {
  let now = 0
  const { store, wallClock } = readSettings({ policies, clock: () => now })
  t.ok(store instanceof MemoryStore)
  for (const [given, taken] of [
    [0, 0],
    [1000, 1000],
    [1000.9, 1000],
    [1e15, 1e15],
    [500, 500]
  ] as const) {
    now = given
    t.equal(wallClock(), taken)
  }
})

const WITHOUT_TIME: readonly (() => unknown)[] = [
  () => Number.NaN,
  () => Infinity,
  () => -1,
  () => 1e300,
  () => undefined,
  () => 5n,
  () => {
    throw new Error('broken')
  }
]

t.test('a clock is read once at boot, and refused unless it tells the time', async t => {
  let reads = 0
  readSettings({ policies, clock: () => ++reads })
  t.equal(reads, 1)
  for (const clock of WITHOUT_TIME) {
    t.throws(
      () => readSettings({ policies, clock }),
      {
        code: 'FST_QUOTA_OPTION',
        message: 'fastify-quota: clock must return milliseconds, 0 or more, and does not'
      },
      String(clock)
    )
  }
})

t.test('a clock that fails later stands still until it tells the time again', async t => {
  let clock: () => unknown = () => 1000
  const { wallClock } = readSettings({ policies, clock: () => clock() })
  for (const failing of WITHOUT_TIME) {
    clock = failing
    t.equal(wallClock(), 1000, String(failing))
  }
  clock = () => 2000
  t.equal(wallClock(), 2000)
  clock = () => Number.NaN
  t.equal(wallClock(), 2000, 'the last good reading, not the first')
})

t.test('nothing is given back for a clock that fails', async t => {
  let now = 1000
  const { store } = readSettings({ policies, clock: () => now })
  const policy = compilePolicy('once', '1/10s', [])
  const ask = async (): Promise<boolean | undefined> =>
    (await store.consume([{ partition: 'p', policy, units: 1 }])).limits[0]?.allowed
  t.equal(await ask(), true)
  for (const failing of [Number.NaN, Infinity, -1]) {
    now = failing
    t.equal(await ask(), false, String(failing))
  }
  now = 12_000
  t.equal(await ask(), true)
})

t.test('a clock is the clock of the store', async t => {
  let now = 0
  const store = memoryStore()
  const own = readSettings({ policies, store, clock: () => now })
  t.equal(own.store, store)
  const policy = compilePolicy('once', '1/10s', [])
  const ask = (): boolean | undefined =>
    store.consume([{ partition: 'p', policy, units: 1 }]).limits[0]?.allowed
  t.equal(ask(), true)
  t.equal(ask(), false)
  now = 11_000
  t.equal(ask(), true)
})

t.test('a further registration adds policies and identities, and nothing else', async t => {
  t.doesNotThrow(() => checkFurtherSettings({ policies, identify: {}, store: undefined, fields: undefined }))
  const first = 'belongs to the first registration; a further one has policies and identify, got'
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [{}, "policies is required, such as { default: '100/1m' }"],
    [{ policies, store: memoryStore() }, `store ${first} an instance of MemoryStore`],
    [{ policies, fields: 'draft-11' }, `fields ${first} "draft-11"`],
    [{ policies, legacy: false }, `legacy ${first} false`],
    [{ policies, clock: Date.now }, `clock ${first} a function`],
    [{ policies, ipv6Prefx: 64 }, 'unknown option "ipv6Prefx" with the value 64; did you mean "ipv6Prefix"?'],
    [{ policies, select: 'all' }, `select ${first} "all"`],
    [{ policies, jitter: '2s' }, `jitter ${first} "2s"`],
    [null, 'options must be an object, got null']
  ]
  for (const [written, message] of table) {
    t.throws(() => checkFurtherSettings(written), {
      code: 'FST_QUOTA_OPTION',
      message: `fastify-quota: ${message}`
    })
  }
})
