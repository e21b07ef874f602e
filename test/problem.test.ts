import t from 'tap'
import { PROBLEM_MEDIA_TYPE, problem, refusalDetail } from '../src/problem.js'
import type { ProblemType, RefusingPolicy } from '../src/problem.js'

const burst: RefusingPolicy = { name: 'burst', quota: 20, unit: 'requests', window: 10_000, cost: 1 }

t.test('each type of the draft has its title and its status', async t => {
  const titles: readonly (readonly [ProblemType, number, string])[] = [
    ['quota-exceeded', 429, 'Quota Exceeded'],
    ['temporary-reduced-capacity', 503, 'Temporary Reduced Capacity'],
    ['abnormal-usage-detected', 429, 'Abnormal Usage Detected']
  ]
  for (const [type, status, title] of titles) {
    t.strictSame(problem({ type, status, violatedPolicies: ['a'] }), {
      type: `https://iana.org/assignments/http-problem-types#${type}`,
      title,
      status,
      'violated-policies': ['a']
    })
  }
})

t.test('members keep their order, and those with nothing to say are left out', async t => {
  const terms = { type: 'quota-exceeded', status: 429, violatedPolicies: ['a'] } as const
  t.strictSame(Object.keys(problem({ ...terms, detail: 'No.' })), [
    'type',
    'title',
    'status',
    'detail',
    'violated-policies'
  ])
  t.strictSame(Object.keys(problem({ ...terms, violatedPolicies: [] })), ['type', 'title', 'status'])
})

t.test('a status of the response that is not the one of the type is refused', async t => {
  t.throws(() => problem({ type: 'temporary-reduced-capacity', status: 429, violatedPolicies: [] }), {
    name: 'RangeError',
    message: 'problem "temporary-reduced-capacity" goes with status 503, got 429'
  })
})

t.test('a type the draft does not define is refused', async t => {
  for (const type of ['rate-limited', 'toString', '']) {
    t.throws(() => problem({ type: type as ProblemType, status: 429, violatedPolicies: [] }), {
      message: `problem type "${type}" is not defined by the draft`
    })
  }
})

t.test('the media type is what Fastify makes of it', async t => {
  t.equal(PROBLEM_MEDIA_TYPE, 'application/problem+json; charset=utf-8')
})

t.test('the detail says which quota is used up and when to come back', async t => {
  t.equal(
    refusalDetail({ policies: [burst], retryAfter: 7, never: false }),
    'Quota "burst" allows 20 requests per 10 seconds and is used up. Try again in 7 seconds.'
  )
})

t.test('the detail says so of every quota that refused', async t => {
  const daily = { ...burst, name: 'daily', quota: 1, window: 86_400_000 }
  t.equal(
    refusalDetail({ policies: [burst, daily], retryAfter: 1, never: false }),
    'Quota "burst" allows 20 requests per 10 seconds and is used up. ' +
      'Quota "daily" allows 1 request per day and is used up. Try again in 1 second.'
  )
})

t.test('a quota that has something left, but not enough, is not called used up', async t => {
  t.equal(
    refusalDetail({ policies: [{ ...burst, cost: 5 }], retryAfter: 1, never: false }),
    'Quota "burst" allows 20 requests per 10 seconds and has less left than this request costs. Try again in 1 second.'
  )
})

t.test('a request that can never fit is told so', async t => {
  t.equal(
    refusalDetail({ policies: [{ ...burst, cost: 30 }], retryAfter: undefined, never: true }),
    'This request costs 30 units, more than the 20 that quota "burst" can ever hold: sending it again will not help.'
  )
  const tokens = { name: 'tpm', quota: 1000, unit: 'tokens', window: 60_000, cost: 5000 }
  t.equal(
    refusalDetail({ policies: [burst, tokens], retryAfter: undefined, never: true }),
    'This request costs 5000 tokens, more than the 1000 that quota "tpm" can ever hold: sending it again will not help.'
  )
})

t.test('a quota of 0 allows nothing, and no wait helps', async t => {
  t.equal(
    refusalDetail({ policies: [{ ...burst, quota: 0 }], retryAfter: undefined, never: true }),
    'Quota "burst" allows 0 requests: sending this request again will not help.'
  )
})

t.test('internal policies are not named', async t => {
  t.equal(
    refusalDetail({ policies: [], retryAfter: 90, never: false }),
    'A limit of this service has been reached. Try again in 90 seconds.'
  )
  t.equal(
    refusalDetail({ policies: [burst], retryAfter: undefined, never: true }),
    'This service cannot accept this request: sending it again will not help.'
  )
})

t.test('a wait nobody knows is later', async t => {
  const inflight = { name: 'inflight', quota: 8, unit: 'concurrent-requests', window: undefined, cost: 1 }
  t.equal(
    refusalDetail({ policies: [inflight], retryAfter: undefined, never: false }),
    'Quota "inflight" allows 8 requests at a time and is used up. Try again later.'
  )
})

t.test('units are in the right number', async t => {
  const cases: readonly (readonly [number, string, string])[] = [
    [1, 'requests', '1 request'],
    [2, 'requests', '2 requests'],
    [1, 'content-bytes', '1 byte'],
    [2, 'content-bytes', '2 bytes'],
    [1, 'concurrent-requests', '1 request at a time'],
    [1, 'tokens', '1 unit of tokens'],
    [2, 'tokens', '2 tokens']
  ]
  for (const [quota, unit, amount] of cases) {
    const policy = { ...burst, quota, unit, window: undefined }
    t.match(
      refusalDetail({ policies: [policy], retryAfter: 1, never: false }),
      `allows ${amount} and is used up.`
    )
  }
})

t.test('a window is told exactly, in the longest unit that divides it', async t => {
  const cases: readonly (readonly [number, string])[] = [
    [1, 'millisecond'],
    [500, '500 milliseconds'],
    [1000, 'second'],
    [10_000, '10 seconds'],
    [60_000, 'minute'],
    [90_000, '90 seconds'],
    [7_200_000, '2 hours'],
    [86_400_000, 'day'],
    [2_592_000_000, '30 days']
  ]
  for (const [window, text] of cases) {
    const detail = refusalDetail({ policies: [{ ...burst, window }], retryAfter: 1, never: false })
    t.match(detail, `allows 20 requests per ${text} and is`)
  }
})

t.test('a wait is told in a readable unit and never too short', async t => {
  const cases: readonly (readonly [number, string])[] = [
    [1, '1 second'],
    [90, '90 seconds'],
    [119, '119 seconds'],
    [120, '2 minutes'],
    [121, '3 minutes'],
    [7199, '120 minutes'],
    [7200, '2 hours'],
    [10_800, '3 hours'],
    [172_801, '3 days']
  ]
  for (const [retryAfter, text] of cases) {
    t.match(refusalDetail({ policies: [], retryAfter, never: false }), `Try again in ${text}.`)
  }
})
