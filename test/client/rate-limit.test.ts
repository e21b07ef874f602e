import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { parseRateLimit, parseRateLimitPolicy } from '../../src/client/index.js'
import { parseRetryAfter } from '../../src/client/waits.js'
import { serializeLimits, serializePolicies } from '../../src/fields.js'

interface Vector {
  readonly name: string
  readonly kind: string
  readonly input: {
    readonly field: string
    readonly raw: string
    readonly parse?: string | readonly string[]
  }
  readonly expect: string
  readonly basis: string
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/fields.json', import.meta.url), 'utf8')
) as readonly Vector[]

const PARSERS: Readonly<Record<string, (raw: string) => unknown>> = {
  RateLimit: parseRateLimit,
  'RateLimit-Policy': parseRateLimitPolicy,
  'Retry-After': raw => parseRetryAfter(raw, { date: undefined, now: 0 })
}

for (const { name, kind, input, expect, basis } of vectors) {
  if (kind === 'parse-bad') {
    t.test(`${name} (${basis})`, async t => {
      t.equal(expect, 'invalid')
      t.equal(PARSERS[input.field]!(input.raw), undefined)
    })
  }
  if (input.parse === undefined) continue
  t.test(`${name} (${basis})`, async t => {
    const parse = kind === 'policy' ? parseRateLimitPolicy : parseRateLimit
    t.not(parse(input.parse), undefined)
    t.strictSame(parse(input.parse), parse(expect))
  })
}

t.test('what is there is read, and what is not is left out', async t => {
  t.strictSame(parseRateLimit('"burst";r=9;t=10, "daily";r=999;pk=:dXNlcjo0Mg==:'), [
    { policy: 'burst', available: 9, effectiveWindow: 10 },
    { policy: 'daily', available: 999, partitionKey: new TextEncoder().encode('user:42') }
  ])
  t.strictSame(parseRateLimitPolicy('"burst";q=10;w=10, "llm";q=1000;qu="tokens";pk=::'), [
    { policy: 'burst', quota: 10, unit: 'requests', window: 10 },
    { policy: 'llm', quota: 1000, unit: 'tokens', partitionKey: new Uint8Array() }
  ])
})

t.test('nothing is undefined, whatever kind of nothing it is', async t => {
  for (const nothing of [undefined, null, '', ' ', []]) {
    t.equal(parseRateLimit(nothing), undefined)
    t.equal(parseRateLimitPolicy(nothing), undefined)
  }
})

t.test('several field lines are one list, and one bad line spoils all', async t => {
  t.strictSame(parseRateLimit(['"a";r=1', '"b";r=2']), [
    { policy: 'a', available: 1 },
    { policy: 'b', available: 2 }
  ])
  t.equal(parseRateLimit(['"a";r=1', '"b";r=x']), undefined)
})

t.test('numbers below the least are no numbers of that kind', async t => {
  t.equal(parseRateLimit('"a";r=-1'), undefined)
  t.equal(parseRateLimit('"a";r=1;t=-1'), undefined)
  t.strictSame(parseRateLimit('"a";r=0;t=0'), [{ policy: 'a', available: 0, effectiveWindow: 0 }])
  t.equal(parseRateLimitPolicy('"a";q=1;w=0'), undefined)
  t.equal(parseRateLimitPolicy('"a";q=-1'), undefined)
  t.equal(parseRateLimitPolicy('"a";q=1.0'), undefined)
  t.equal(parseRateLimitPolicy('"a";q=1;qu=tokens'), undefined)
  t.equal(parseRateLimitPolicy('"a";q=1;pk="b"'), undefined)
})

t.test('the unit that the registry spells otherwise is the same unit', async t => {
  t.equal(parseRateLimitPolicy('"a";q=1;qu="request"')?.[0]?.unit, 'requests')
})

t.test('parameters of every type are comments if the draft does not know them', async t => {
  const comments = ';x;y=?0;z=1.5;d=@1659578233;k=*tok/en;s="a;b";e=:AA==:;u=%"f%c3%bc"'
  t.strictSame(parseRateLimit(`"a";r=1${comments};t=2`), [{ policy: 'a', available: 1, effectiveWindow: 2 }])
  t.strictSame(parseRateLimitPolicy(`"a";q=1${comments}`), [{ policy: 'a', quota: 1, unit: 'requests' }])
})

t.test('the names of a next revision are read as what they will mean', async t => {
  t.strictSame(parseRateLimit('"a";a=50;w=30;c=2'), [{ policy: 'a', available: 50, effectiveWindow: 30 }])
  t.equal(parseRateLimit('"a";a=5.0;w=30'), undefined)
  t.equal(parseRateLimit('"a";a=5;w="30"'), undefined)
})

t.test(
  'a member that mixes two revisions is malformed, for nobody can tell which number is meant',
  async t => {
    t.equal(parseRateLimit('"a";r=1;a=2'), undefined)
    t.equal(parseRateLimit('"a";a=1;t=2'), undefined)
    t.strictSame(parseRateLimit('"a";r=1;t=2;w=60'), [{ policy: 'a', available: 1, effectiveWindow: 2 }])
    t.strictSame(parseRateLimit('"a";r=1, "b";a=2'), [
      { policy: 'a', available: 1 },
      { policy: 'b', available: 2 }
    ])
  }
)

const name = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)),
  minLength: 1
})
const count = fc.integer({ min: 0, max: 999_999_999_999_999 })
const key = fc.option(fc.uint8Array({ maxLength: 20 }), { nil: undefined })

t.test('what the server writes is what the client reads', async t => {
  const limits = fc.uniqueArray(
    fc.record({
      name,
      available: count,
      effectiveWindow: fc.option(count, { nil: undefined }),
      partitionKey: key
    }),
    { minLength: 1, selector: item => item.name }
  )
  fc.assert(
    fc.property(limits, items => {
      const read = parseRateLimit(serializeLimits(items))
      t.strictSame(
        read,
        items.map(({ name, available, effectiveWindow, partitionKey }) => ({
          policy: name,
          available,
          ...(effectiveWindow === undefined ? {} : { effectiveWindow }),
          ...(partitionKey === undefined ? {} : { partitionKey })
        }))
      )
    })
  )
  const policies = fc.uniqueArray(
    fc.record({
      name,
      quota: count,
      unit: name,
      window: fc.option(fc.integer({ min: 1 }), { nil: undefined })
    }),
    { minLength: 1, selector: item => item.name }
  )
  fc.assert(
    fc.property(policies, items => {
      t.strictSame(
        parseRateLimitPolicy(serializePolicies(items)),
        items.map(({ name, quota, unit, window }) => ({
          policy: name,
          quota,
          unit: unit === 'request' ? 'requests' : unit,
          ...(window === undefined ? {} : { window })
        }))
      )
    })
  )
})
