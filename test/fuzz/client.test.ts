import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { QuotaWaitError, parseRateLimit, parseRateLimitPolicy } from '../../src/client/index.js'
import { parseHttpDate } from '../../src/client/http-date.js'
import { read } from '../../src/client/reading.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { world } from '../client/kit.js'
import { Costs, fieldValue, huge, sized } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 30 * runs)

const NOW = Date.UTC(2026, 10, 30, 12)

/** Browsers take as much of a field; Node 16 kB, unless it is told otherwise. */
const LONGEST_FIELD = 262_144

/** So much of them is enough to tell what grows with the square of it. */
const LONG_LIST = 65_536

const number = fc.oneof(
  fc.constantFrom('0', '1', '-1', '007', '1.5', '60', '2147483648', '9007199254740993', '1e9', '∞', ''),
  fc.constantFrom('999999999999999', '1000000000000000', '8640000000000000', '-999999999999999'),
  fc.nat(200).map(String)
)

const member = fc
  .tuple(
    fc.constantFrom('"a"', '"b"', '"\\"\\\\"', 'a', '""', '"a', '10', ':YQ==:', '%"x"'),
    fc.array(
      fc.tuple(
        fc.constantFrom('r', 't', 'q', 'w', 'qu', 'pk', 'a', 'acme'),
        fc.oneof(number, fc.constantFrom('"tokens"', ':YQ==:', '"request"', '?1', '"concurrent-requests"'))
      ),
      { maxLength: 5 }
    )
  )
  .map(([name, parameters]) => [name, ...parameters.map(([key, value]) => `${key}=${value}`)].join(';'))

const good = fc
  .tuple(
    fc.constantFrom('"a"', '"b"', '"c"'),
    fc.array(fc.tuple(fc.constantFrom('r', 't', 'q', 'w'), number), { minLength: 2, maxLength: 4 })
  )
  .map(([name, parameters]) => [name, ...parameters.map(([key, value]) => `${key}=${value}`)].join(';'))

const piece = fc.constantFrom(
  '"',
  '\\"',
  '\\\\',
  '"a";r=1,',
  '"a";q=1,',
  ';a',
  ';a=1',
  ' ',
  '\t',
  '0',
  '9',
  ',',
  ':',
  '%"',
  '%ff',
  '(',
  '1h',
  '1.',
  'A'
)

/** A list of so many members, each with a name of its own. */
const crowd = fc
  .tuple(fc.constantFrom('r=1', 'q=1', 'r=0;t=1', 'q=9;w=9'), fc.integer({ min: 100, max: 6000 }))
  .map(([parameters, count]) =>
    Array.from({ length: count }, (_, i) => `"${i.toString(36)}";${parameters}`).join(',')
  )

const longKey = fc
  .integer({ min: 1, max: LONGEST_FIELD >> 2 })
  .map(length => `"a";r=1;pk=:${'QUJD'.repeat(length)}:`)

const field = fc.oneof(
  { weight: 4, arbitrary: fc.array(good, { maxLength: 4 }).map(all => all.join(', ')) },
  { weight: 4, arbitrary: fc.array(member, { maxLength: 4 }).map(all => all.join(', ')) },
  { weight: 4, arbitrary: fieldValue },
  { weight: 2, arbitrary: fc.array(piece, { maxLength: 12 }).map(all => all.join('')) }
)

const giant = fc.oneof(huge(piece, LONG_LIST), crowd, longKey)

const date = fc
  .record({
    day: fc.constantFrom('Mon', 'Monday', 'Tue', ''),
    date: fc.constantFrom('30', '31', '1', ' 1', '00'),
    month: fc.constantFrom('Nov', 'Feb', 'nov', '13'),
    year: fc.constantFrom('2026', '26', '9999', '0000', '275761'),
    time: fc.constantFrom('12:00:01', '23:59:60', '24:00:00', '1:1:1'),
    zone: fc.constantFrom(' GMT', ' UTC', '', ' +0100')
  })
  .map(({ day, date, month, year, time, zone }) => `${day}, ${date} ${month} ${year} ${time}${zone}`)

const wait = fc.oneof(
  number,
  date,
  fieldValue,
  fc.constantFrom('6m0s', '1h2m3s', '120ms', '9999999h', '2026-11-30T12:00:05Z')
)

const NAMES = [
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
  'date',
  'age',
  'x-should-retry',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit-remaining',
  'ratelimit-reset',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-tokens',
  'anthropic-ratelimit-requests-remaining',
  'anthropic-ratelimit-requests-reset',
  'x-rate-limit-remaining',
  'x-rate-limit-reset-after'
] as const

type Fields = Readonly<Record<string, string>>

const fieldsWith = (field: fc.Arbitrary<string>): fc.Arbitrary<Fields> =>
  fc.dictionary(fc.constantFrom(...NAMES), fc.oneof(field, wait), { maxKeys: 6 })

const draft = (field: fc.Arbitrary<string>): fc.Arbitrary<Fields> =>
  fc.record({ ratelimit: field, 'ratelimit-policy': field, 'retry-after': wait }, { requiredKeys: [] })

const fields = fc.oneof(fieldsWith(field), draft(field))
const giantFields = fc.oneof(fieldsWith(giant), draft(giant))

const sizeOf = (fields: Fields): number => Object.values(fields).reduce((sum, { length }) => sum + length, 0)

const isCount = (value: number | undefined): boolean =>
  value === undefined || (Number.isFinite(value) && value >= 0)

function look(fields: Fields, status: number): void {
  const reading = read({ status, field: name => fields[name] }, NOW)
  for (const { available, quota, window, effectiveWindow } of reading.told) {
    assert.ok([available, quota, window, effectiveWindow].every(isCount), JSON.stringify(reading))
  }
  assert.ok(reading.retryAfter === undefined || reading.retryAfter > 0)
  for (const item of parseRateLimit(fields['ratelimit']) ?? [])
    assert.ok(Number.isSafeInteger(item.available))
  for (const item of parseRateLimitPolicy(fields['ratelimit-policy']) ?? [])
    assert.ok(Number.isSafeInteger(item.quota))
}

for (const [name, group, numRuns] of [
  ['whatever a response says is read or ignored', fields, runs],
  ['however long it is', giantFields, sized(40)]
] as const) {
  t.test(`${name}, at no cost`, async t => {
    const costs = new Costs()
    fc.assert(
      fc.property(group, fc.constantFrom(200, 403, 429, 503), (fields, status) => {
        costs.time(sizeOf(fields), () => look(fields, status))
      }),
      { numRuns }
    )
    costs.check()
    t.comment(`${costs.inputs} responses`)
  })
}

t.test('field lines of any number are one field', async () => {
  const lines = fc.array(field, { maxLength: 8 })
  fc.assert(
    fc.property(lines, lines => {
      assert.deepEqual(parseRateLimit(lines), parseRateLimit(lines.join(', ')))
      assert.deepEqual(parseRateLimitPolicy(lines), parseRateLimitPolicy(lines.join(', ')))
    }),
    { numRuns: runs }
  )
})

t.test('a date is one that Node reads as the same, or none', async t => {
  const costs = new Costs()
  fc.assert(
    fc.property(fc.oneof(date, wait, fieldValue), text => {
      const time = costs.time(text.length, () => parseHttpDate(text, NOW))
      if (time !== undefined) assert.ok(Number.isInteger(time) && Math.abs(time) < 8.64e15, text)
    }),
    { numRuns: runs }
  )
  costs.check()
  t.comment(`${costs.inputs} dates`)
})

const MAX_WAIT = 120_000
const RETRIES = 3

const body = fc.oneof(
  fc.constantFrom(
    '',
    'null',
    '[]',
    '{"violated-policies":["a"]}',
    '{"violated-policies":"a"}',
    '{"violated-policies":[1,null,"b"]}',
    '{"violated-policies":{"length":9}}',
    '{'
  ),
  fieldValue
)
const answer = fc.record({
  status: fc.constantFrom(200, 200, 304, 403, 429, 429, 503),
  fields: fc.oneof({ weight: 49, arbitrary: fields }, { weight: 1, arbitrary: giantFields }),
  problem: fc.boolean(),
  body
})

t.test(
  'a client waits for each word of a server no longer than maxWait, and is told if it would',
  async t => {
    let calls = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(answer, { minLength: 1, maxLength: 6 }),
        fc.constantFrom('spend' as const, 'even' as const),
        fc.constantFrom(0.5, 1),
        async (answers, pacing, headroom) => {
          const replies = answers.map(({ status, fields, problem, body }) => ({
            status,
            fields: Object.fromEntries(
              Object.entries(
                problem ? { ...fields, 'content-type': 'application/problem+json' } : fields
              ).map(([name, value]) => [name, value.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '')])
            ),
            body: status === 304 ? null : body
          }))
          const { time, api, waits } = world(replies, {
            pacing,
            headroom,
            retries: RETRIES,
            maxWait: MAX_WAIT / 1000
          })
          for (let i = 0; i < 4; i++) {
            const { passed } = time
            const before = waits.length
            await time.run(
              api('http://api.test/').catch((error: unknown) => {
                assert.ok(error instanceof QuotaWaitError, String(error))
                assert.ok(error.retryAt.getTime() > time.now() + MAX_WAIT, String(error.retryAt))
              })
            )
            assert.ok(time.passed - passed <= (RETRIES + 1) * MAX_WAIT, `${time.passed - passed} ms`)
            for (const { until } of waits.slice(before)) {
              assert.ok(until.getTime() - VIRTUAL_START - passed <= (RETRIES + 1) * MAX_WAIT + 1)
            }
            calls++
          }
        }
      ),
      { numRuns: sized(8) }
    )
    t.comment(`${calls} calls`)
  }
)

const VIRTUAL_START = NOW
