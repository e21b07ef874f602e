import t from 'tap'
import { QuotaOptionError, paced, pacedInterceptor } from '../../src/client/index.js'
import type { PacedOptions } from '../../src/client/index.js'
import { readSettings } from '../../src/client/options.js'

const wrong: readonly (readonly [options: object, message: string])[] = [
  [{ pacing: 'evn' }, 'pacing must be "spend" or "even", got "evn"; did you mean "even"?'],
  [{ headroom: 0 }, 'headroom must be a number more than 0 and at most 1, the part of a quota to use, got 0'],
  [
    { headroom: 70 },
    'headroom must be a number more than 0 and at most 1, the part of a quota to use, got 70'
  ],
  [
    { headroom: '0.7' },
    'headroom must be a number more than 0 and at most 1, the part of a quota to use, got "0.7"'
  ],
  [{ concurrency: 0 }, 'concurrency must be an integer from 1 to 1000000, got 0'],
  [{ queue: -1 }, 'queue must be an integer from 0 to 1000000, got -1'],
  [
    { maxWait: '1 minute' },
    `maxWait must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d, got "1 minute"`
  ],
  [{ retries: 1.5 }, 'retries must be an integer from 0 to 1000000, got 1.5'],
  [
    { retryMethods: 'POST' },
    'retryMethods must be a list of methods in upper case, such as ["GET", "POST"], got "POST"'
  ],
  [
    { retryMethods: ['post'] },
    'retryMethods must be a list of methods in upper case, such as ["GET", "POST"], got ["post"]'
  ],
  [{ jitter: 2 }, 'jitter must be a number from 0 to 1, got 2'],
  [{ jitter: '0' }, 'jitter must be a number from 0 to 1, got "0"'],
  [{ cost: 5 }, 'cost must be a function, got 5'],
  [{ priority: 5 }, 'priority must be a function, got 5'],
  [{ route: '/a' }, 'route must be a function, got "/a"'],
  [{ onWait: true }, 'onWait must be a function, got true'],
  [{ onRefused: true }, 'onRefused must be a function, got true'],
  [{ keys: ['secret'] }, 'keys must be an object with values and apply'],
  [{ keys: 'secret' }, 'keys must be an object with values and apply'],
  [{ keys: null }, 'keys must be an object, got null'],
  [{ apiKey: 'secret' }, 'unknown option "apiKey"; did you mean "keys"?'],
  [
    { keys: { values: [], apply: () => ({}) } },
    'keys.values must be a list of one or more keys, each of them text'
  ],
  [
    { keys: { values: ['secret', 5], apply: () => ({}) } },
    'keys.values must be a list of one or more keys, each of them text'
  ],
  [
    { keys: { values: ['secret', ''], apply: () => ({}) } },
    'keys.values must be a list of one or more keys, each of them text'
  ],
  [
    { keys: { values: 'secret', apply: () => ({}) } },
    'keys.values must be a list of one or more keys, each of them text'
  ],
  [{ keys: { values: ['a', 'a'], apply: () => ({}) } }, 'keys.values must not name a key twice'],
  [{ keys: { values: ['a'] } }, 'keys.apply must be a function, got undefined'],
  [
    { keys: { values: ['a'], aply: 1 } },
    'keys: unknown option "aply" with the value 1; did you mean "apply"?'
  ],
  [{ timing: {} }, 'timing.now must be a function, got undefined'],
  [{ timing: null }, 'timing.now must be a function, got undefined'],
  [{ timing: { now: () => 0, after: () => () => {}, random: 4 } }, 'timing.random must be a function, got 4'],
  [{ headrom: 0.7 }, 'unknown option "headrom" with the value 0.7; did you mean "headroom"?'],
  [{ maxRetries: 3 }, 'unknown option "maxRetries" with the value 3; did you mean "retries"?'],
  [
    { colour: 'red' },
    'unknown option "colour" with the value "red"; expected pacing, headroom, concurrency, queue, maxWait, retries, retryMethods, jitter, cost, priority, route, keys, onWait, onRefused, timing'
  ],
  ['fast' as unknown as object, 'options must be an object, got "fast"']
]

t.test('wrong options are refused with a sentence that helps', async t => {
  for (const [options, message] of wrong) {
    t.throws(() => paced(fetch, options as PacedOptions), {
      name: 'QuotaOptionError',
      message: `paced: ${message}`
    })
  }
})

t.test('a sentence names the function that the options were given to', async t => {
  t.throws(() => pacedInterceptor({ retries: -1 }), {
    message: 'pacedInterceptor: retries must be an integer from 0 to 1000000, got -1'
  })
})

t.test('without a fetch there is nothing to pace', async t => {
  t.throws(() => paced(undefined as never), {
    constructor: QuotaOptionError,
    message: 'paced: fetch must be a function, got undefined'
  })
})

t.test('nothing is required, and undefined is nothing', async t => {
  const { manner, bounds, retries, retryMethods } = readSettings('paced', {
    headroom: undefined,
    keys: undefined
  })
  t.match(manner, { pacing: 'spend', headroom: 1, jitter: 0.1 })
  t.strictSame(bounds, { concurrency: Infinity, queue: 10_000, maxWait: 120_000 })
  t.equal(retries, 5)
  t.strictSame([...retryMethods], ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])
})

t.test('chance is that of the timing', async t => {
  const timing = { now: () => 0, after: () => () => {}, random: () => 0.5 }
  t.equal(readSettings('paced', { timing }).manner.random(), 0.5)
})
