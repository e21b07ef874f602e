import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parseItem, parseList, Token } from 'structured-headers'
import t from 'tap'
import { NEVER, UNKNOWN } from '../src/algorithm.js'
import {
  FIELD,
  LONGEST_WAIT,
  capped,
  carriesFields,
  closestFirst,
  joinField,
  limitPrefix,
  limitText,
  partitionKeyText,
  retryAfter,
  retryAfterDate,
  serializeLimits,
  serializePolicies,
  waitSeconds,
  wholeSeconds,
  windowSeconds
} from '../src/fields.js'
import type { ParameterValue } from '../src/fields.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)

const INTEGER_LIMIT = 999_999_999_999_999
const integer = fc.nat({ max: INTEGER_LIMIT })
const name = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 40 })
const milliseconds = fc.integer({ min: -10_000, max: 10 ** 12 })

function check<T extends [unknown, ...unknown[]]>(property: fc.IProperty<T>): void {
  fc.assert(property, { seed })
}

/** A vendor parameter as it stands behind a policy's own. */
function vendor(key: string, value: ParameterValue): string {
  return serializePolicies([{ name: 'a', quota: 1, parameters: [[key, value]] }]).slice('"a";q=1'.length)
}

t.test('field names are lower case', async t => {
  t.strictSame(FIELD, { policy: 'ratelimit-policy', limit: 'ratelimit', retryAfter: 'retry-after' })
})

t.test('a limit without an effective window has no t', async t => {
  t.equal(limitText(limitPrefix('inflight'), 3, 0), '"inflight";r=3')
  t.equal(limitText(limitPrefix('burst'), 3, 7), '"burst";r=3;t=7')
})

t.test('the text of the hot path is the text of the checked one', async () => {
  check(
    fc.property(name, integer, integer, (name, available, seconds) => {
      const effectiveWindow = seconds === 0 ? undefined : seconds
      return (
        limitText(limitPrefix(name), available, seconds) ===
        serializeLimits([{ name, available, effectiveWindow }])
      )
    })
  )
})

t.test('the text of the hot path parses back to what it was made of', async () => {
  check(
    fc.property(name, integer, integer, (name, available, seconds) => {
      const [item] = parseList(limitText(limitPrefix(name), available, seconds))
      assert.equal(item?.[0], name)
      assert.deepEqual(
        [...(item?.[1] ?? [])],
        seconds === 0
          ? [['r', available]]
          : [
              ['r', available],
              ['t', seconds]
            ]
      )
    })
  )
})

t.test('policies parse back to what they were made of', async () => {
  const policies = fc.uniqueArray(
    fc.record(
      { name, quota: integer, window: fc.integer({ min: 1, max: INTEGER_LIMIT }) },
      { noNullPrototype: true }
    ),
    {
      selector: policy => policy.name,
      minLength: 1
    }
  )
  check(
    fc.property(policies, policies => {
      const parsed = parseList(serializePolicies(policies))
      assert.deepEqual(
        parsed.map(([name, parameters]) => ({
          name,
          quota: parameters.get('q'),
          window: parameters.get('w')
        })),
        policies
      )
    })
  )
})

t.test('a decimal of up to fifteen digits keeps its value and has a digit after the point', async () => {
  const digits = fc.tuple(fc.constantFrom('', '-'), fc.nat({ max: 999_999_999_999 }), fc.nat({ max: 999 }))
  check(
    fc.property(digits, ([sign, whole, thousandths]) => {
      const decimal = `${sign}${whole}.${String(thousandths).padStart(3, '0')}`
      const text = vendor('acme-x', { decimal }).slice(';acme-x='.length)
      assert.match(text, /^-?\d{1,12}\.\d{1,3}$/)
      assert.ok(Number(text) === Number(decimal))
      assert.doesNotThrow(() => parseItem(text))
    })
  )
})

t.test('a vendor parameter of each type has the form of RFC 9651', async t => {
  t.equal(vendor('acme-x', -0), ';acme-x=0')
  t.equal(vendor('acme-x', -INTEGER_LIMIT), `;acme-x=-${INTEGER_LIMIT}`)
  t.equal(vendor('acme-x', ''), ';acme-x=""')
  t.equal(vendor('acme-x', true), ';acme-x')
  t.equal(vendor('acme-x', false), ';acme-x=?0')
  t.equal(vendor('acme-x', new Token('api/v1')), ';acme-x=api/v1')
  t.equal(vendor('acme-x', { decimal: '007' }), ';acme-x=7.0')
})

t.test('what has no form on the wire is refused by name and value', async t => {
  t.throws(() => vendor('acme-x', 1.5), {
    name: 'RangeError',
    message: `"a": acme-x must be an integer from -${INTEGER_LIMIT} to ${INTEGER_LIMIT}, got 1.5`
  })
  t.throws(() => vendor('acme-x', NaN), RangeError)
  t.throws(() => vendor('acme-x', -INTEGER_LIMIT - 1), RangeError)
  for (const decimal of ['', '1.', '.5', '1.2345', '1234567890123', 'NaN', '1e3', '0x1']) {
    t.throws(() => vendor('acme-x', { decimal }), RangeError, `decimal ${JSON.stringify(decimal)}`)
  }
  for (const key of ['q', 'qu', 'w', 'pk', 'r', 't', 'a', 'c', 'Acme-x', 'acme x', '-acme']) {
    t.throws(() => vendor(key, 1), { message: new RegExp(`own, such as "acme-burst", got "${key}"`) })
  }
  t.throws(() => limitPrefix('naïve'), {
    message: 'a policy name must be one or more printable ASCII characters, got "naïve"'
  })
  t.throws(() => serializePolicies([{ name: 'a', quota: 1, unit: '' }]), { message: /^qu of "a" must be/ })
})

t.test('a vendor parameter is given once', async t => {
  const parameters = [
    ['acme-x', 1],
    ['acme-x', 2]
  ] as const
  t.throws(() => serializeLimits([{ name: 'a', available: 1, parameters }]), RangeError)
})

t.test('a policy appears once in a field, a limit once per partition key', async t => {
  t.throws(
    () =>
      serializePolicies([
        { name: 'a', quota: 1, partitionKey: Buffer.from('x') },
        { name: 'a', quota: 2, partitionKey: Buffer.from('y') }
      ]),
    { name: 'RangeError', message: '"a" appears twice in one field' }
  )
  t.throws(
    () =>
      serializeLimits([
        { name: 'a', available: 1, partitionKey: Buffer.from('x') },
        { name: 'a', available: 2, partitionKey: Buffer.from('x') }
      ]),
    { message: '"a";pk=:eA==: appears twice in one field' }
  )
})

t.test('a partition key that is a view of a larger buffer is written alone', async t => {
  const partitionKey = new Uint8Array([1, 2, 97, 3]).subarray(2, 3)
  t.equal(serializeLimits([{ name: 'a', available: 1, partitionKey }]), '"a";r=1;pk=:YQ==:')
  t.equal(partitionKeyText(partitionKey), ';pk=:YQ==:')
})

t.test('a partition key on the hot path is the text of the checked one', async () => {
  check(
    fc.property(name, integer, fc.uint8Array({ maxLength: 130 }), (name, available, partitionKey) => {
      const text = limitText(limitPrefix(name), available, 9) + partitionKeyText(partitionKey)
      assert.equal(text, serializeLimits([{ name, available, effectiveWindow: 9, partitionKey }]))
      const bytes = parseList(text)[0]?.[1].get('pk')
      assert.deepEqual(new Uint8Array(bytes as ArrayBuffer), partitionKey)
    })
  )
})

t.test('whole seconds are never early, never a second late and never 0', async () => {
  check(
    fc.property(milliseconds, ms => {
      const seconds = wholeSeconds(ms)
      return (
        Number.isInteger(seconds) &&
        seconds >= 1 &&
        seconds * 1000 >= ms &&
        seconds * 1000 < Math.max(1, ms) + 1000
      )
    })
  )
})

t.test('a wait is whole seconds that fit a timer', async () => {
  check(
    fc.property(milliseconds, fc.nat({ max: 5000 }), (wait, jitter) => {
      const seconds = waitSeconds(wait, jitter)
      return (
        seconds * 1000 < 2 ** 31 &&
        seconds === Math.min(LONGEST_WAIT, wholeSeconds(Math.max(0, wait) + jitter))
      )
    })
  )
})

t.test('jitter and the longest wait change a wait, and no time to spend units in', async t => {
  t.equal(windowSeconds(29_001, 'window', 5000), 30)
  t.equal(windowSeconds(29_001, 'wait', 5000), 35)
  t.equal(windowSeconds(29_001, 'wait'), 30)
  t.equal(windowSeconds(-9000, 'wait', 5000), 5)
  t.equal(windowSeconds(1e13, 'wait'), LONGEST_WAIT)
  t.equal(windowSeconds(1e13, 'window'), 1e10)
})

t.test('a window that nobody knows is none, jitter or not', async t => {
  t.equal(windowSeconds(0, 'wait', 5000), 0)
  t.equal(windowSeconds(0, 'window'), 0)
})

const rate = fc.record({
  units: fc.oneof(fc.integer({ min: 1, max: 10 ** 6 }), fc.double({ min: 0.001, max: 1000, noNaN: true })),
  seconds: fc.integer({ min: 1, max: 10 ** 6 })
})
const adjust = fc.constantFrom('available' as const, 'window' as const)

t.test(
  'a cap holds, leaves something, and tells neither more units nor less time than there is',
  async () => {
    check(
      fc.property(
        fc.integer({ min: 1, max: 10 ** 6 }),
        fc.integer({ min: 1, max: 10 ** 6 }),
        rate,
        adjust,
        (available, window, most, adjust) => {
          const told = capped(available, window, most, adjust)
          assert.ok(Number.isInteger(told.available) && Number.isInteger(told.window))
          assert.ok(told.available >= 1 && told.available <= available && told.window >= window)
          assert.ok(told.available * most.seconds <= most.units * told.window * (1 + 1e-12))
          if (adjust === 'window') assert.equal(told.available, available)
          else if (told.window > window) assert.equal(told.available, 1)
          if (available * most.seconds <= most.units * window) assert.deepEqual(told, { available, window })
        }
      )
    )
  }
)

t.test('a cap of whole numbers is exact, where their quotient is not', async t => {
  // 130 / 3600 · 360 is less than 13 in floating point.
  const most = { units: 130, seconds: 3600 }
  t.strictSame(capped(13, 360, most, 'available'), { available: 13, window: 360 })
  t.strictSame(capped(13, 359, most, 'available'), { available: 12, window: 359 })
  t.strictSame(capped(13, 359, most, 'window'), { available: 13, window: 360 })
})

t.test('however low a cap is, the time it tells has a form on the wire', async t => {
  const longest = 999_999_999_999_999
  for (const units of [1e-12, 1e-300, Number.MIN_VALUE]) {
    const most = { units, seconds: 1 }
    t.strictSame(capped(1000, 60, most, 'window'), { available: 1000, window: longest })
    t.strictSame(capped(1000, 60, { units: units / 1000, seconds: 1 }, 'available'), {
      available: 1,
      window: longest
    })
  }
})

t.test('a cap says nothing of what has no window', async t => {
  t.strictSame(capped(5, 0, { units: 1, seconds: 100 }, 'available'), { available: 5, window: 0 })
  t.strictSame(capped(5, 0, { units: 1, seconds: 100 }, 'window'), { available: 5, window: 0 })
})

const known = fc.record({
  wait: milliseconds.filter(wait => wait !== NEVER && wait !== UNKNOWN),
  effectiveWindow: fc.option(fc.nat({ max: LONGEST_WAIT }), { nil: undefined }),
  jitter: fc.option(fc.nat({ max: 5000 }), { nil: undefined })
})

t.test('Retry-After is the longest known wait, no earlier than a t shown', async () => {
  check(
    fc.property(
      fc.array(known, { minLength: 1 }),
      fc.array(fc.constant({ wait: UNKNOWN })),
      (waits, unknown) => {
        const seconds = waits.flatMap(({ wait, jitter = 0, effectiveWindow = 0 }) => [
          waitSeconds(wait, jitter),
          effectiveWindow
        ])
        assert.equal(retryAfter([...unknown, ...waits]), Math.max(...seconds))
      }
    )
  )
})

t.test('Retry-After does not depend on the order of the policies', async () => {
  const any = fc.oneof(known, fc.constantFrom({ wait: NEVER }, { wait: UNKNOWN }))
  check(
    fc.property(fc.array(any), waits => {
      assert.equal(retryAfter(waits.toReversed()), retryAfter(waits))
    })
  )
})

t.test('there is no Retry-After when no wait helps or none is known', async t => {
  t.equal(retryAfter([{ wait: 5000 }, { wait: NEVER }]), undefined)
  t.equal(retryAfter([{ wait: UNKNOWN }, { wait: UNKNOWN }]), undefined)
  t.equal(retryAfter([{ wait: UNKNOWN, effectiveWindow: 9 }]), undefined)
  t.equal(retryAfter([]), undefined)
})

t.test('Retry-After is no earlier than the t of a policy whose wait is unknown', async t => {
  t.equal(retryAfter([{ wait: UNKNOWN, effectiveWindow: 9 }, { wait: 5000 }]), 9)
})

t.test('Retry-After fits a timer even if a t shown does not', async t => {
  t.equal(retryAfter([{ wait: 5000, effectiveWindow: 1e10 }]), LONGEST_WAIT)
  t.equal(retryAfter([{ wait: Infinity }]), LONGEST_WAIT)
})

t.test('a wait that is not a number is refused', async t => {
  t.throws(() => retryAfter([{ wait: NaN }]), RangeError)
  t.throws(() => retryAfter([{ wait: 1, jitter: NaN }]), RangeError)
})

t.test('the date of Retry-After is rounded up to the second', async t => {
  t.equal(retryAfterDate(5, Date.UTC(2027, 0, 1)), 'Fri, 01 Jan 2027 00:00:05 GMT')
  t.equal(retryAfterDate(5, Date.UTC(2027, 0, 1) + 1), 'Fri, 01 Jan 2027 00:00:06 GMT')
})

t.test('closest is the lowest share, then the longer window', async t => {
  const hour = { remaining: 500, quota: 1000, window: 3600 }
  const none = { ...hour, window: 0 }
  const minute = { remaining: 30, quota: 60, window: 60 }
  const nearly = { remaining: 1, quota: 60, window: 60 }
  const spent = { remaining: 0, quota: 60, window: 60 }
  const zero = { remaining: 0, quota: 0, window: 1 }
  const order = [zero, spent, nearly, hour, minute, none]
  t.strictSame(order.toReversed().sort(closestFirst), order)
  t.strictSame([none, minute, hour].sort(closestFirst), [hour, minute, none])
})

t.test('closestFirst is a consistent ordering', async () => {
  const limit = fc
    .record(
      {
        quota: fc.nat({ max: 4 }),
        left: fc.nat({ max: 4 }),
        window: fc.constantFrom(0, 1, 2)
      },
      { noNullPrototype: true }
    )
    .map(({ left, ...rest }) => ({ ...rest, remaining: Math.min(left, rest.quota) }))
  check(
    fc.property(limit, limit, limit, (a, b, c) => {
      assert.equal(Math.sign(closestFirst(a, b)) + Math.sign(closestFirst(b, a)), 0)
      assert.equal(closestFirst(a, { ...a }), 0)
      if (closestFirst(a, b) <= 0 && closestFirst(b, c) <= 0) assert.ok(closestFirst(a, c) <= 0)
    })
  )
})

t.test('fields are carried by every status but 1xx and 3xx, and by 304', async t => {
  for (const status of [200, 204, 299, 304, 400, 401, 429, 500, 503]) t.ok(carriesFields(status), `${status}`)
  for (const status of [100, 101, 103, 199, 300, 301, 302, 303, 305, 307, 308, 399]) {
    t.notOk(carriesFields(status), `${status}`)
  }
})

t.test('own items are joined onto those of others', async t => {
  t.equal(joinField(undefined, '"a";r=1'), '"a";r=1')
  t.equal(joinField('', '"a";r=1'), '"a";r=1')
  t.equal(joinField('"b";r=2', '"a";r=1'), '"b";r=2, "a";r=1')
  t.equal(joinField(['"b";r=2', '"c";r=3'], '"a";r=1'), '"b";r=2, "c";r=3, "a";r=1')
  t.equal(joinField(7, '"a";r=1'), '7, "a";r=1')
  t.equal(joinField('"b";r=2', ''), '"b";r=2')
})
