import t from 'tap'
import { read } from '../../src/client/reading.js'
import type { Reading } from '../../src/client/reading.js'

const now = Date.UTC(2026, 10, 30, 12)

const reading = (status: number, fields: Readonly<Record<string, string>>): Reading =>
  read({ status, field: name => fields[name] }, now)

t.test('limits and policies are told together, and policies without a limit too', async t => {
  const { told, complete, refused } = reading(200, {
    'ratelimit-policy': '"a";q=10;w=5, "b";q=1000;qu="tokens";w=60, "c";q=3;qu="concurrent-requests"',
    ratelimit: '"b";r=900;t=30, "a";r=9;t=4'
  })
  t.equal(refused, false)
  t.equal(complete, true)
  t.match(told, [
    { policy: 'b', unit: 'tokens', quota: 1000, window: 60_000, available: 900, effectiveWindow: 30_000 },
    { policy: 'a', unit: 'requests', quota: 10, window: 5000, available: 9, effectiveWindow: 4000 },
    { policy: 'c', unit: 'concurrent-requests', quota: 3, window: undefined, available: undefined }
  ])
})

t.test('a limit may come without its policy', async t => {
  const { told, complete } = reading(200, { ratelimit: '"a";r=9' })
  t.equal(complete, false)
  t.match(told, [{ policy: 'a', partitionKey: '', unit: undefined, quota: undefined, available: 9 }])
  t.equal(told[0]?.effectiveWindow, undefined)
})

t.test('partition keys tell limits of one policy apart, and policies if they have them', async t => {
  const { told } = reading(200, {
    'ratelimit-policy': '"a";q=1;pk=:eA==:, "a";q=2;pk=:eQ==:, "b";q=3',
    ratelimit: '"a";r=1;pk=:eQ==:, "b";r=2;pk=:eg==:, "a";r=0;pk=:eg==:'
  })
  t.match(told, [
    { policy: 'a', partitionKey: 'y', quota: 2, available: 1 },
    { policy: 'b', partitionKey: 'z', quota: 3, available: 2 },
    { policy: 'a', partitionKey: 'z', quota: 1, available: 0 }
  ])
})

t.test('a malformed field is ignored, and the others are not', async t => {
  const told = reading(200, { 'ratelimit-policy': '"a";q=10;w=5', ratelimit: '"a";r=9.0;t=4' }).told
  t.match(told, [{ policy: 'a', quota: 10, available: undefined }])
  t.match(reading(200, { 'ratelimit-policy': '10;w=5', ratelimit: '"a";r=9;t=4' }).told, [
    { policy: 'a', quota: undefined, available: 9 }
  ])
})

t.test('older forms count only where the draft’s do not speak', async t => {
  const older = { 'x-ratelimit-limit': '5', 'x-ratelimit-remaining': '4', 'x-ratelimit-reset': '3' }
  t.match(reading(200, older).told, [{ policy: 'x-ratelimit', available: 4 }])
  t.match(reading(200, { ...older, ratelimit: '"a";r=9' }).told, [{ policy: 'a', available: 9 }])
  t.match(reading(200, { ...older, ratelimit: 'nonsense;' }).told, [{ policy: 'x-ratelimit', available: 4 }])
})

t.test('429 and 503 are refusals, and 403 if nothing is left', async t => {
  const nothingLeft = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '60' }
  for (const [status, fields, refused] of [
    [200, nothingLeft, false],
    [429, {}, true],
    [503, {}, true],
    [403, {}, false],
    [403, { 'x-ratelimit-remaining': '1' }, false],
    [403, nothingLeft, true],
    [500, nothingLeft, false]
  ] as const) {
    t.equal(reading(status, fields).refused, refused, `${status} ${JSON.stringify(fields)}`)
  }
})

t.test('the wait is Retry-After', async t => {
  t.equal(reading(429, { 'retry-after': '7' }).retryAfter, 7000)
  t.equal(reading(429, { 'retry-after': 'Mon, 30 Nov 2026 12:00:09 GMT' }).retryAfter, 9000)
  t.equal(
    reading(429, { 'retry-after': 'Mon, 30 Nov 2026 12:00:09 GMT', date: 'Mon, 30 Nov 2026 12:00:01 GMT' })
      .retryAfter,
    8000
  )
  t.equal(reading(429, { 'retry-after': 'soon' }).retryAfter, undefined)
})

t.test('a response from a cache says nothing', async t => {
  const fields = { ratelimit: '"a";r=0;t=60', 'x-ratelimit-remaining': '0', 'retry-after': '7' }
  for (const age of ['1', '007', ' 60 ']) {
    t.match(
      reading(429, { ...fields, age }),
      { refused: true, cached: true, told: [], retryAfter: undefined },
      age
    )
  }
  for (const age of ['0', '-1', 'x', '1.5']) {
    t.match(reading(429, { ...fields, age }), { cached: false, retryAfter: 7000 }, age)
  }
})

t.test('a server may ask not to be asked again', async t => {
  t.equal(reading(429, { 'x-should-retry': 'false' }).final, true)
  t.equal(reading(429, { 'x-should-retry': 'true' }).final, false)
  t.equal(reading(429, {}).final, false)
})

t.test('a partition key may be as long as a field', async t => {
  const { told } = reading(200, { ratelimit: `"a";r=1;pk=:${'QUJD'.repeat(60_000)}:, "a";r=2;pk=:QUJD:` })
  t.equal(told[0]?.partitionKey.length, 180_000)
  t.equal(told[1]?.partitionKey, 'ABC')
})

t.test('of more policies than any server has, the first are read', async t => {
  const names = Array.from({ length: 20_000 }, (_, i) => `"${i}"`)
  const { told, complete } = reading(200, {
    'ratelimit-policy': names.map(name => `${name};q=1`).join(', '),
    ratelimit: names.map(name => `${name};r=1`).join(', ')
  })
  t.equal(told.length, 100)
  t.equal(complete, false)
  t.match(told.at(-1), { policy: '99', quota: 1, available: 1 })
})
