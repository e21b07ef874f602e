import t from 'tap'
import type { Period, Sight } from './bench.js'
import { brokenPromises, missedTimes } from './demands.js'
import { strayIn } from './load.js'
import type { Told } from './load.js'

// A demand that nothing can fail proves nothing: each is shown one sight that fails it, and no other does.

const told = (rest: Partial<Told>): Period['told'] =>
  new Map([
    ['closed', { answers: 1000, sources: {}, admitted: {}, statuses: {}, strays: new Set<string>(), ...rest }]
  ])

const period = (rest: Partial<Period>): Period => ({
  seconds: 1,
  waits: { closed: { p99: 51, max: 55, overdue: 10 } },
  loop: { p99: 2, max: 5 },
  told: told({}),
  ...rest
})

const good: Sight = {
  fault: { name: 'a fault', begin: () => () => {} },
  terms: {
    modes: ['closed'],
    rate: 1000,
    quota: 1500,
    instances: 4,
    deadline: '50ms',
    seconds: { warm: 0, before: 1, during: 1, after: 1 },
    patience: 10
  },
  warm: new Map(),
  periods: {
    before: period({ told: told({ admitted: { redis: 1000 }, statuses: { 200: 1000 } }) }),
    during: period({ told: told({ sources: { closed: 1000 }, statuses: { 503: 1000 } }) }),
    after: period({ told: told({ admitted: { redis: 490 }, statuses: { 200: 490, 429: 510 } }) })
  },
  recovery: 300,
  books: {
    charged: { closed: 1500 },
    changes: [
      { state: 'down', code: 'TIMEOUT' },
      { state: 'up', code: 'OK' }
    ],
    lines: [
      { level: 40, msg: '', code: 'TIMEOUT' },
      { level: 30, msg: '', code: 'OK' }
    ],
    connections: 2,
    warnings: [],
    problems: []
  }
}

const during = (rest: Partial<Period>): Sight => ({
  ...good,
  periods: { ...good.periods, during: period({ ...good.periods.during, ...rest }) }
})
const after = (rest: Partial<Told>): Sight => ({
  ...good,
  periods: { ...good.periods, after: period({ told: told(rest) }) }
})
const books = (rest: Partial<Sight['books']>): Sight => ({ ...good, books: { ...good.books, ...rest } })

t.test('nothing is wrong with a sight where nothing is wrong', async t => {
  t.strictSame(brokenPromises(good), [])
  t.strictSame(missedTimes(good), [])
})

t.test('each broken promise is found', async t => {
  const sights: readonly (readonly [RegExp, Sight])[] = [
    [/does not decide again/, { ...good, recovery: Infinity }],
    [
      /no turns of down and up/,
      books({ changes: good.books.changes.slice(1), lines: good.books.lines.slice(1) })
    ],
    [/nobody has noticed/, books({ changes: [], lines: [] })],
    [/not one line for each change/, books({ lines: [...good.books.lines, { level: 40, msg: 'again' }] })],
    [/has warned of FST_QUOTA_X/, books({ warnings: ['FST_QUOTA_X'] })],
    [/had a problem/, books({ problems: ['unhandledRejection'] })],
    [/connected 50 times/, books({ connections: 50 })],
    [/over the quota/, after({ admitted: { redis: 501 } })],
    [/of its share of 0/, after({ admitted: { redis: 490, local: 1 } })],
    [/has counted 1501 of 1500/, books({ charged: { closed: 1501 } })],
    [/has counted undefined/, books({ charged: {} })],
    [/that Redis has not counted/, books({ charged: { closed: 1489 } })],
    [/an answer is wrong/, after({ admitted: { redis: 490 }, strays: new Set(['500']) })],
    [/nobody is answered/, after({ answers: 0, admitted: { redis: 490 } })],
    [/answered by this mode/, during({ told: told({ sources: { redis: 1000 } }) })]
  ]
  for (const [what, sight] of sights) t.match(brokenPromises(sight).join('\n'), what)
})

t.test('a Redis that forgets may admit the quota once more, not twice', async t => {
  const forgets = (redis: number): Sight => ({
    ...after({ admitted: { redis } }),
    fault: { ...good.fault, forgets: true, momentary: true }
  })
  t.strictSame(brokenPromises(forgets(2000)), [])
  t.match(brokenPromises(forgets(2001)).join(), /over the quota/)
})

t.test('each missed time is found', async t => {
  const waits = (wait: Partial<Period['waits']['closed'] & object>): Sight =>
    during({ waits: { closed: { p99: 51, max: 55, overdue: 10, ...wait } } })
  const sights: readonly (readonly [RegExp, Sight])[] = [
    [/decides again after 2001.0 ms/, { ...good, recovery: 2001 }],
    [/adds 56.1 ms in 99 of 100, more than 56.0 ms/, waits({ p99: 56.1, max: 57 })],
    [/adds up to 62.1 ms, more than 62.0 ms/, waits({ max: 62.1 })],
    [/requests wait until their deadline/, waits({ overdue: 100 })],
    [/500 requests a second are answered/, during({ seconds: 2 })]
  ]
  for (const [what, sight] of sights) {
    t.equal(missedTimes(sight).length, 1)
    t.match(missedTimes(sight)[0], what)
  }
})

t.test('each answer that nobody should get is found', async t => {
  const fields = { ratelimit: 'r', 'ratelimit-policy': 'p' }
  const refused = { ...fields, 'retry-after': '1', 'content-type': 'application/problem+json' }
  const problem = (type: string): string =>
    JSON.stringify({ type: `https://iana.org/assignments/http-problem-types#${type}` })
  const stray = (
    mode: Parameters<typeof strayIn>[0],
    statusCode: number,
    headers: Readonly<Record<string, string>>,
    body: string = ''
  ): string | undefined => strayIn(mode, { statusCode, headers }, body)
  const redis = { 'x-source': 'redis' }
  const closed = {
    'x-source': 'closed',
    'retry-after': '3',
    'content-type': 'application/problem+json; charset=utf-8'
  }
  const unable = problem('temporary-reduced-capacity')
  for (const found of [
    stray('open', 200, { ...redis, ...fields }),
    stray('open', 429, { ...redis, ...refused }, problem('quota-exceeded')),
    stray('open', 200, { 'x-source': 'open' }),
    stray('local', 200, { 'x-source': 'local' }),
    stray('local', 429, { 'x-source': 'local', ...refused }, problem('quota-exceeded')),
    stray('closed', 503, closed, unable)
  ]) {
    t.equal(found, undefined)
  }
  for (const found of [
    stray('open', 500, redis),
    stray('open', 200, redis),
    stray('open', 200, { ...redis, ...fields, 'retry-after': '1' }),
    stray('open', 200, { 'x-source': 'local' }),
    stray('open', 429, { 'x-source': 'open', ...refused }, problem('quota-exceeded')),
    stray('open', 200, { 'x-source': 'open', ...fields }),
    stray('local', 429, { ...redis, ...refused, 'retry-after': '0' }, problem('quota-exceeded')),
    stray('local', 429, { ...redis, ...refused }, '{'),
    stray('closed', 200, { 'x-source': 'closed' }),
    stray('closed', 503, { ...closed, ...fields }, unable),
    stray('closed', 503, { ...closed, 'retry-after': '5' }, unable),
    stray('closed', 503, { ...closed, 'content-type': 'application/json' }, unable),
    stray('closed', 503, closed, problem('quota-exceeded'))
  ]) {
    t.type(found, 'string')
  }
})
