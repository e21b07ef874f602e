import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parseDictionary, parseItem, parseList } from 'structured-headers'
import t from 'tap'
import { goDuration, legacyFields } from '../src/legacy.js'
import type { Legacy, LegacyFields, LegacyLimit, LegacyTerms } from '../src/legacy.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)

const DAY = 86_400_000
const NOW = Date.UTC(2026, 10, 30)

const delta: Legacy = { style: 'x-ratelimit', reset: 'delta' }
const epoch: Legacy = { style: 'x-ratelimit', reset: 'epoch' }
const FORMS: readonly Legacy[] = [delta, epoch, 'draft-6', 'draft-7', 'llm']

const limitOf = (limit: Partial<LegacyLimit>): LegacyLimit => ({
  quota: 100,
  unit: 'requests',
  remaining: 99,
  effectiveWindow: 50_000,
  ...limit
})

/** The fields for one limit, alone. */
const fields = (
  legacy: Legacy,
  limit: Partial<LegacyLimit> = {},
  terms: Partial<LegacyTerms> = {}
): LegacyFields =>
  legacyFields(legacy, {
    limits: [limitOf(limit)],
    policies: [{ quota: 100, window: 60 }],
    now: NOW,
    beside: false,
    ...terms
  })

t.test('X-RateLimit is three fields, and its delta is seconds from now, rounded up', async t => {
  t.strictSame(fields(delta, { effectiveWindow: 9001 }), [
    ['x-ratelimit-limit', '100'],
    ['x-ratelimit-remaining', '99'],
    ['x-ratelimit-reset', '10']
  ])
  t.strictSame(fields(delta, { effectiveWindow: 1 })[2], ['x-ratelimit-reset', '1'])
  t.strictSame(fields(delta, {}, { beside: true }), fields(delta), 'the same beside the present fields')
})

t.test('epoch is the second after the true reset', async t => {
  const x = NOW / 1000
  t.strictSame(fields(epoch, { quota: 1, remaining: 0, effectiveWindow: 3000 }, { now: NOW + 500 }), [
    ['x-ratelimit-limit', '1'],
    ['x-ratelimit-remaining', '0'],
    ['x-ratelimit-reset', String(x + 4)]
  ])
  const [, , reset] = fields(epoch, { effectiveWindow: 2000 }, { now: NOW + 1500 })
  t.strictSame(reset, ['x-ratelimit-reset', String(x + 4)])
})

t.test('an epoch is later than the Date of the same response, and not early', async () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 2 * NOW }),
      fc.integer({ min: -5000, max: 400 * DAY }),
      (now, effectiveWindow) => {
        fc.pre(effectiveWindow !== 0)
        const reset = Number(fields(epoch, { effectiveWindow }, { now })[2]?.[1])
        assert.ok(reset > Math.floor(now / 1000))
        assert.ok(reset * 1000 >= now + effectiveWindow)
      }
    ),
    { seed }
  )
})

t.test('a relative reset cannot be taken for an epoch', async t => {
  for (const effectiveWindow of [10_000, DAY, 400 * DAY]) {
    t.ok(Number(fields(delta, { effectiveWindow })[2]?.[1]) < 1e9)
    t.ok(Number(fields(epoch, { effectiveWindow })[2]?.[1]) > 1e9)
  }
})

t.test('revision 6 is three Items and, alone, its policies', async t => {
  const three: LegacyFields = [
    ['ratelimit-limit', '100'],
    ['ratelimit-remaining', '99'],
    ['ratelimit-reset', '50']
  ]
  t.strictSame(fields('draft-6'), [...three, ['ratelimit-policy', '100;w=60']])
  t.strictSame(fields('draft-6', {}, { beside: true }), three)
})

t.test('revision 7 is one Dictionary and its policies', async t => {
  t.strictSame(fields('draft-7', { remaining: 50 }), [
    ['ratelimit', 'limit=100, remaining=50, reset=50'],
    ['ratelimit-policy', '100;w=60']
  ])
})

t.test('a policy of these revisions has a window and a quota of its own', async t => {
  const policies = [
    { quota: 5, window: 0 },
    { quota: 5, window: 10 },
    { quota: 1000, window: 3600 },
    { quota: 5, window: 86_400 }
  ]
  for (const legacy of ['draft-6', 'draft-7'] as const) {
    const [name, text] = fields(legacy, {}, { policies }).at(-1)!
    t.equal(name, 'ratelimit-policy')
    t.equal(text, '5;w=10, 1000;w=3600')
    const none = fields(legacy, {}, { policies: [{ quota: 5, window: 0 }] })
    t.notOk(none.some(([name]) => name === 'ratelimit-policy'))
  }
})

t.test('a limit of these revisions has a reset: one without is passed over', async t => {
  const unknown = limitOf({ quota: 8, unit: 'concurrent-requests', remaining: 1, effectiveWindow: 0 })
  const known = limitOf({ remaining: 40, effectiveWindow: 7000 })
  for (const legacy of ['draft-6', 'draft-7'] as const) {
    t.strictSame(
      fields(legacy, {}, { limits: [unknown, known] }),
      fields(legacy, { remaining: 40, effectiveWindow: 7000 })
    )
    t.strictSame(fields(legacy, {}, { limits: [unknown] }), [])
  }
})

t.test('the form of language models is three fields for each unit, with the reset as a duration', async t => {
  const limits = [
    limitOf({ unit: 'tokens', quota: 100_000, remaining: 10_000, effectiveWindow: 360_000 }),
    limitOf({ quota: 60, remaining: 57, effectiveWindow: 57_001 }),
    limitOf({ quota: 1000, remaining: 997, effectiveWindow: DAY }),
    limitOf({ unit: 'tokens', quota: 9_000_000, remaining: 8_000_000, effectiveWindow: DAY })
  ]
  t.strictSame(fields('llm', {}, { limits }), [
    ['x-ratelimit-limit-tokens', '100000'],
    ['x-ratelimit-remaining-tokens', '10000'],
    ['x-ratelimit-reset-tokens', '6m0s'],
    ['x-ratelimit-limit-requests', '60'],
    ['x-ratelimit-remaining-requests', '57'],
    ['x-ratelimit-reset-requests', '57.001s']
  ])
})

t.test('without an effective window there is no reset', async t => {
  for (const legacy of [delta, epoch, 'llm'] as const) {
    const names = fields(legacy, { quota: 0, remaining: 0, effectiveWindow: 0 }).map(([name]) => name)
    t.equal(names.length, 2)
    t.notOk(names.some(name => name.includes('reset')))
  }
})

t.test('without a limit there is no field, of policies neither', async t => {
  for (const legacy of FORMS) t.strictSame(fields(legacy, {}, { limits: [] }), [])
})

t.test('the first limit is the one that is told, and all values of one limit are of it', async t => {
  const limits = [limitOf({ quota: 7, remaining: 1 }), limitOf({ quota: 9, remaining: 8 })]
  for (const legacy of FORMS) t.strictSame(fields(legacy, {}, { limits }), fields(legacy, limits[0]))
})

t.test('names are lower case, and values what their revision says they are', async () => {
  const limit = fc.record({
    quota: fc.nat({ max: 999_999_999_999_999 }),
    unit: fc.stringMatching(/^[a-z][a-z0-9-]{0,31}$/),
    remaining: fc.nat({ max: 999_999_999_999_999 }),
    effectiveWindow: fc.nat({ max: 36_525 * DAY })
  })
  const policy = fc.record({ quota: fc.nat(), window: fc.nat({ max: 36_525 * 86_400 }) })
  const integer = (value: unknown): void => assert.ok(Number.isInteger(value), String(value))
  fc.assert(
    fc.property(
      fc.array(limit, { minLength: 1, maxLength: 3 }),
      fc.array(policy, { maxLength: 3 }),
      fc.constantFrom(...FORMS),
      (limits, policies, legacy) => {
        for (const [name, value] of fields(legacy, {}, { limits, policies })) {
          assert.match(name, /^[a-z0-9-]+$/)
          if (name === 'ratelimit') {
            const dictionary = parseDictionary(value)
            assert.deepEqual([...dictionary.keys()], ['limit', 'remaining', 'reset'])
            for (const [member] of dictionary.values()) integer(member)
          } else if (name === 'ratelimit-policy') {
            for (const [quota, parameters] of parseList(value)) {
              integer(quota)
              assert.deepEqual([...parameters.keys()], ['w'])
            }
          } else if (name.startsWith('x-ratelimit-reset-')) {
            assert.match(value, /^(\d+h)?(\d+m)?(\d+(\.\d{1,3})?s|\d{1,3}ms)$/)
          } else {
            integer(parseItem(value)[0])
          }
        }
      }
    ),
    { seed }
  )
})

t.test('a duration is what Go prints', async t => {
  const table: readonly (readonly [ms: number, text: string])[] = [
    [1, '1ms'],
    [12, '12ms'],
    [999, '999ms'],
    [1000, '1s'],
    [1500, '1.5s'],
    [59_999, '59.999s'],
    [60_000, '1m0s'],
    [179_560, '2m59.56s'],
    [360_000, '6m0s'],
    [3_599_999, '59m59.999s'],
    [3_600_000, '1h0m0s'],
    [3_723_004, '1h2m3.004s'],
    [DAY, '24h0m0s'],
    [400 * DAY, '9600h0m0s']
  ]
  for (const [ms, text] of table) t.equal(goDuration(ms), text)
})

t.test('a duration is the milliseconds it was made of', async () => {
  const milliseconds = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 36_525 * DAY }), ms => {
      const parts = [...goDuration(ms).matchAll(/([\d.]+)(h|ms|m|s)/g)]
      const sum = parts.reduce(
        (sum, [, count, unit]) => sum + Number(count) * milliseconds[unit as keyof typeof milliseconds],
        0
      )
      assert.equal(Math.round(sum), ms)
    }),
    { seed }
  )
})
