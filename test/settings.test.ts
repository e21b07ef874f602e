import t from 'tap'
import type { Test } from 'tap'
import { checkFurtherSettings, readSettings } from '../src/settings.js'
import type { Settings } from '../src/settings.js'
import type { Store } from '../src/store.js'
import { MemoryStore, memoryStore, monotonic } from '../src/stores/memory.js'

const policies = { daily: '10/1d' }

/** Settings whose store is closed after the test. */
function read(t: Test, written: unknown): Settings {
  const settings = readSettings(written)
  t.teardown(() => settings.store.close())
  return settings
}

const foreignStore = (): Store => ({
  consume: () => ({ limits: [], source: 'redis' }),
  settle: () => ({ limits: [], source: 'redis' }),
  peek: () => ({ limits: [], source: 'redis' }),
  reset: () => undefined,
  close: () => undefined
})

t.test('the settings have the agreed defaults', async t => {
  const { store, ...settings } = read(t, { policies })
  t.ok(store instanceof MemoryStore)
  t.strictSame(settings, {
    fields: true,
    legacy: false,
    ipv6Prefix: 64,
    problem: undefined,
    onRefused: undefined,
    wallClock: Date.now
  })
})

t.test('every option arrives in the settings', async t => {
  const problem = (): object => ({})
  const onRefused = (): void => undefined
  const store = foreignStore()
  const { wallClock, ...settings } = read(t, {
    policies,
    identify: {},
    store,
    fields: false,
    legacy: { style: 'x-ratelimit', reset: 'epoch' },
    ipv6Prefix: 56,
    problem,
    onRefused
  })
  t.equal(settings.store, store)
  t.equal(wallClock, Date.now)
  t.strictSame(settings, {
    store,
    fields: false,
    legacy: { style: 'x-ratelimit', reset: 'epoch' },
    ipv6Prefix: 56,
    problem,
    onRefused
  })
  t.equal(read(t, { policies, problem: false }).problem, false)
  t.equal(read(t, { policies, ipv6Prefix: 1 }).ipv6Prefix, 1)
  t.equal(read(t, { policies, ipv6Prefix: 128 }).ipv6Prefix, 128)
  t.equal(read(t, { policies, fields: 'draft-11', legacy: false }).fields, true)
})

t.test("what Fastify's register takes for itself is no option of the plugin", async t => {
  const written = { policies, prefix: '/v1', logLevel: 'warn', logSerializers: {} }
  t.doesNotThrow(() => read(t, written))
  t.doesNotThrow(() => checkFurtherSettings(written))
  t.strictSame(
    Object.keys(written),
    ['policies', 'prefix', 'logLevel', 'logSerializers'],
    'nothing is removed'
  )
})

t.test('an option that is agreed but not built may ask for nothing', async t => {
  const written = {
    policies,
    select: 'all',
    cap: undefined,
    jitter: false,
    partitionKey: false,
    sdkHints: false
  }
  t.doesNotThrow(() => read(t, written))
  t.doesNotThrow(() => checkFurtherSettings(written))
})

t.test('what is written wrongly is refused with the option, the value and what was expected', async t => {
  const halfStore = { ...foreignStore(), peek: undefined, close: undefined }
  class Redis {
    readonly password = 'secret'
  }
  const known = 'expected policies, identify, store, fields, legacy, ipv6Prefix, problem, onRefused, clock'
  const store = 'store must be memoryStore(…) or another Store, got'
  const legacy = "legacy must be false or { style: 'x-ratelimit', reset: 'delta' | 'epoch' }, got"
  const table: readonly (readonly [options: object, message: string])[] = [
    [{ policies: undefined }, "policies is required, such as { default: '100/1m' }"],
    [{ policys: {} }, 'unknown option "policys" with the value {}; did you mean "policies"?'],
    [{ policy: {} }, 'unknown option "policy" with the value {}; did you mean "policies"?'],
    [{ quota: 10 }, 'unknown option "quota" with the value 10; did you mean "policies"?'],
    ...['max', 'limit', 'timeWindow', 'windowMs', 'window'].map(
      key =>
        [
          { [key]: 100 },
          `unknown option "${key}" with the value 100; did you mean "policies", such as { default: '100/1m' }?`
        ] as const
    ),
    [
      { keyGenerator: () => 'x' },
      'unknown option "keyGenerator" with the value a function; did you mean "identify"?'
    ],
    [
      { redis: new Redis() },
      'unknown option "redis" with the value an instance of Redis; did you mean "store"?'
    ],
    [{ ipv6Subnet: 56 }, 'unknown option "ipv6Subnet" with the value 56; did you mean "ipv6Prefix"?'],
    [{ indentify: {} }, 'unknown option "indentify" with the value {}; did you mean "identify"?'],
    [{ onrefused: 1 }, 'unknown option "onrefused" with the value 1; did you mean "onRefused"?'],
    [{ banana: 1 }, `unknown option "banana" with the value 1; ${known}`],
    [{ toString: 1 }, `unknown option "toString" with the value 1; ${known}`],
    [
      JSON.parse('{"__proto__":{"clock":1}}'),
      `unknown option "__proto__" with the value {"clock":1}; ${known}`
    ],
    [{ select: 'closest' }, 'select is not supported yet, got "closest"'],
    [{ select: null }, 'select is not supported yet, got null'],
    [{ cap: 100 }, 'cap is not supported yet, got 100'],
    [{ jitter: '2s' }, 'jitter is not supported yet, got "2s"'],
    [{ partitionKey: 'hash' }, 'partitionKey is not supported yet, got "hash"'],
    [{ sdkHints: true }, 'sdkHints is not supported yet, got true'],
    [{ legacy: 'draft-6' }, 'legacy "draft-6" is not supported yet'],
    [{ legacy: 'draft-7' }, 'legacy "draft-7" is not supported yet'],
    [{ legacy: 'llm' }, 'legacy "llm" is not supported yet'],
    [{ legacy: true }, `${legacy} true`],
    [{ legacy: null }, `${legacy} null`],
    [{ legacy: 'x-ratelimit' }, `${legacy} "x-ratelimit"`],
    [{ legacy: [] }, 'legacy must be an object, got []'],
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
    [{ store: {} }, `${store} {} without the method consume, settle, peek, reset, close`],
    [{ store: halfStore }, `${store} {} without the method peek, close`],
    [
      { store: new Redis() },
      `${store} an instance of Redis without the method consume, settle, peek, reset, close`
    ],
    [{ clock: 1000 }, 'clock must be a function, got 1000'],
    [{ clock: null }, 'clock must be a function, got null'],
    [{ clock: Date.now, store: foreignStore() }, 'clock goes with memoryStore(…) only, got the store {}']
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
  t.equal(read(t, Object.assign(Object.create(null) as object, { policies, ipv6Prefix: 48 })).ipv6Prefix, 48)
  t.teardown(() => delete (Object.prototype as { ipv6Prefix?: number }).ipv6Prefix)
  Object.assign(Object.prototype, { ipv6Prefix: 1 })
  t.equal(read(t, { policies }).ipv6Prefix, 64)
  t.doesNotThrow(() => checkFurtherSettings({ policies }))
})

t.test('a clock is whole milliseconds; where it gives none, time goes on by itself', async t => {
  let now = 0
  const { store, wallClock } = read(t, { policies, clock: () => now })
  t.ok(store instanceof MemoryStore)
  for (const [given, taken] of [
    [0, 0],
    [1000, 1000],
    [1000.9, 1000],
    [1e15, 1e15]
  ] as const) {
    now = given
    t.equal(wallClock(), taken)
  }
  for (const given of [Number.NaN, Infinity, -1, 1e300, undefined as never]) {
    now = given
    const before = monotonic()
    const taken = wallClock()
    t.ok(taken >= before && taken <= monotonic(), String(given))
  }
})

t.test('a clock is the clock of the store', async t => {
  let now = 0
  const store = memoryStore()
  const own = read(t, { policies, store, clock: () => now })
  t.equal(own.store, store)
  const { compilePolicy } = await import('../src/policy.js')
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
    [{ policies, store: {} }, `store ${first} {}`],
    [{ policies, fields: 'draft-11' }, `fields ${first} "draft-11"`],
    [{ policies, legacy: false }, `legacy ${first} false`],
    [{ policies, clock: Date.now }, `clock ${first} a function`],
    [{ policies, ipv6Prefx: 64 }, 'unknown option "ipv6Prefx" with the value 64; did you mean "ipv6Prefix"?'],
    [{ policies, jitter: true }, 'jitter is not supported yet, got true'],
    [null, 'options must be an object, got null']
  ]
  for (const [written, message] of table) {
    t.throws(() => checkFurtherSettings(written), {
      code: 'FST_QUOTA_OPTION',
      message: `fastify-quota: ${message}`
    })
  }
})
