import t from 'tap'
import { findPromise } from '../../src/audit/promise.js'
import { read } from '../../src/client/reading.js'
import type { Reading } from '../../src/client/reading.js'

const told = (fields: Readonly<Record<string, string>>): Reading =>
  read({ status: 200, field: name => fields[name] }, Date.UTC(2026, 10, 30))

const TWO = told({
  'ratelimit-policy': '"day";q=1000;w=86400, "burst";q=20;w=10, "bytes";q=100;qu="content-bytes";w=1',
  ratelimit: '"burst";r=19;t=10, "day";r=999;t=86400'
})

t.test(
  'the promise is what RateLimit-Policy says, of several policies the one of the shortest window',
  async t => {
    t.strictSame(findPromise(TWO, {}), {
      quota: 20,
      window: 10,
      policy: 'burst',
      source: 'fields',
      others: [
        { policy: 'day', unit: 'requests', quota: 1000, window: 86400 },
        { policy: 'bytes', unit: 'content-bytes', quota: 100, window: 1 }
      ]
    })
    t.match(findPromise(TWO, { policy: 'day' }), {
      quota: 1000,
      window: 86400,
      policy: 'day',
      source: 'fields'
    })
    const same = told({ 'ratelimit-policy': '"wide";q=20;w=10, "tight";q=5;w=10' })
    t.equal(findPromise(same, {}).policy, 'tight', 'of the same window the smaller quota')
  }
)

t.test('what is stated counts more than what is told', async t => {
  t.strictSame(findPromise({ told: [] }, { quota: 5, window: 500 }), {
    quota: 5,
    window: 0.5,
    policy: null,
    source: 'options',
    others: []
  })
  t.match(findPromise(TWO, { quota: 5 }), { quota: 5, window: 10, policy: 'burst', source: 'both' })
  t.match(findPromise(TWO, { quota: 5, window: 1000, policy: 'day' }), { quota: 5, window: 1, policy: 'day' })
})

t.test('what is stated fills what several policies leave open', async t => {
  const windowless = told({ 'ratelimit-policy': '"wide";q=20, "tight";q=5' })
  t.match(findPromise(windowless, { window: 1000 }), { quota: 5, window: 1, policy: 'tight', source: 'both' })
  const bare = told({ ratelimit: '"a";r=1;pk=:YQ==:, "a";r=2;pk=:Yg==:' })
  t.match(findPromise(bare, { quota: 3, window: 1000, policy: 'a' }), {
    quota: 3,
    policy: 'a',
    others: [{ policy: 'a', quota: null, window: null }]
  })
})

t.test('older fields tell of a quota, and those of revisions 06 and 07 of its window too', async t => {
  const draft7 = told({ ratelimit: 'limit=10, remaining=9, reset=2', 'ratelimit-policy': '10;w=2' })
  t.match(findPromise(draft7, {}), { quota: 10, window: 2 })
  const plain = told({ 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': '2' })
  t.match(findPromise(plain, { window: 2000 }), {
    quota: 10,
    window: 2,
    policy: 'x-ratelimit',
    source: 'both'
  })
  t.throws(() => findPromise(plain, {}), {
    code: 'CANNOT_MEASURE',
    message:
      'the answer tells of 10 requests, and not per what window; state what is promised with --quota and --window (quota, window)'
  })
  const unknown = told({ 'x-ratelimit-remaining': '9' })
  t.throws(() => findPromise(unknown, {}), { message: /^the answer tells of an unknown number requests/ })
  t.strictSame(findPromise(plain, { quota: 1, window: 1000 }).others, [
    { policy: 'x-ratelimit', unit: 'requests', quota: 10, window: null }
  ])
})

t.test('where nothing is promised, nothing can be measured', async t => {
  const refused = { code: 'CANNOT_MEASURE' }
  t.throws(() => findPromise({ told: [] }, {}), refused)
  t.throws(() => findPromise({ told: [] }, { quota: 10 }), refused)
  t.throws(() => findPromise({ told: [] }, { policy: 'day' }), {
    ...refused,
    message: /^no policy "day" in requests is announced, but none;/
  })
  t.throws(() => findPromise(TWO, { policy: 'bytes' }), {
    ...refused,
    message: /^no policy "bytes" in requests is announced, but "burst" or "day";|"day" or "burst";/
  })
  t.throws(() => findPromise(told({ 'ratelimit-policy': '"none";q=0;w=10' }), {}), {
    ...refused,
    message: 'the quota is 0: there is nothing to admit, and so nothing to exceed'
  })
})
