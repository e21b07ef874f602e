import t from 'tap'
import { compilePolicy } from '../src/policy.js'
import type { AlgorithmName, PolicyOptions } from '../src/policy-options.js'
import { figures, fingerprint, readQuota, readTerms, refillsWithinASecond } from '../src/terms.js'
import type { Figures, TermsButQuota } from '../src/terms.js'
import { ALGORITHMS } from './algorithms/names.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

/** Terms as they are read: those of a window of a minute, unless the algorithm has none. */
const read = (algorithm: AlgorithmName, options: object = {}): TermsButQuota =>
  readTerms(refuse, { ...(algorithm !== 'concurrency' && { window: '1m' }), algorithm, ...options })

const compute = (quota: number, algorithm: AlgorithmName, options: object = {}): Figures => {
  const terms = read(algorithm, options)
  return figures(refuse, terms, readQuota(refuse, quota, terms))
}

const WINDOW =
  "must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d"

t.test('every algorithm has its terms', async t => {
  const rest = {
    window: 60_000,
    precision: 10,
    align: false,
    burst: undefined,
    maxDelay: 0,
    holdFor: 30_000,
    maxHold: Infinity,
    exact: false,
    largeLog: false
  }
  const table: readonly (readonly [name: AlgorithmName, options: object, own: object, algorithm?: string])[] =
    [
      ['sliding-window', {}, {}],
      ['sliding-window', { precision: 20 }, { precision: 20 }],
      ['sliding-window', { precision: 'exact' }, { precision: 60_000, exact: true }],
      [
        'sliding-window',
        { precision: 'exact', largeLog: true },
        { precision: 60_000, exact: true, largeLog: true }
      ],
      ['sliding-window', { precision: 'exact', largeLog: false }, { precision: 60_000, exact: true }],
      ['sliding-window-log', {}, { precision: 60_000, exact: true }, 'sliding-window'],
      [
        'sliding-window-log',
        { precision: 'exact', largeLog: true },
        { precision: 60_000, exact: true, largeLog: true },
        'sliding-window'
      ],
      ['sliding-window-counter', { precision: 1 }, { precision: 1 }],
      ['fixed-window', { align: true }, { align: true }],
      ['token-bucket', { burst: 5 }, { burst: 5 }],
      ['leaky-bucket', { burst: 5 }, { burst: 5 }],
      ['leaky-bucket', { maxDelay: '24d' }, { maxDelay: 2_073_600_000 }],
      ['leaky-bucket', { maxDelay: 2 }, { maxDelay: 2000 }],
      ['concurrency', {}, { window: 0 }],
      ['concurrency', { holdFor: '5s', maxHold: '24d' }, { window: 0, holdFor: 5000, maxHold: 2_073_600_000 }]
    ]
  for (const [name, options, own, counted = name] of table) {
    const { algorithm, ...terms } = read(name, options)
    t.equal(algorithm.name, counted)
    t.strictSame(terms, { ...rest, ...own }, `${name} ${JSON.stringify(options)}`)
  }
  t.equal(readTerms(refuse, { window: 1 }).algorithm.name, 'sliding-window', 'the default')
})

t.test('an option is refused with each algorithm that it means nothing to', async t => {
  const table: readonly (readonly [
    option: string,
    value: unknown,
    shown: string,
    owners: readonly AlgorithmName[],
    named: string
  ])[] = [
    [
      'precision',
      10,
      '10',
      ['sliding-window', 'sliding-window-counter', 'sliding-window-log'],
      '"sliding-window", "sliding-window-counter" or "sliding-window-log"'
    ],
    [
      'largeLog',
      true,
      'true',
      ['sliding-window', 'sliding-window-log'],
      '"sliding-window" or "sliding-window-log"'
    ],
    ['align', false, 'false', ['fixed-window'], '"fixed-window"'],
    ['burst', 5, '5', ['token-bucket', 'leaky-bucket'], '"token-bucket" or "leaky-bucket"'],
    ['maxDelay', '1s', '"1s"', ['leaky-bucket'], '"leaky-bucket"'],
    ['holdFor', null, 'null', ['concurrency'], '"concurrency"'],
    ['maxHold', '1h', '"1h"', ['concurrency'], '"concurrency"']
  ]
  for (const [option, value, shown, owners, named] of table) {
    for (const name of ALGORITHMS.filter(name => !owners.includes(name))) {
      t.throws(
        () => read(name, { [option]: value }),
        new RangeError(`${option} belongs to algorithm ${named}, got ${shown} with "${name}"`)
      )
    }
    for (const name of ALGORITHMS) t.doesNotThrow(() => read(name, { [option]: undefined }))
  }
})

t.test('a window is required, but of what counts at once', async t => {
  for (const name of ALGORITHMS.filter(name => name !== 'concurrency')) {
    t.throws(
      () => read(name, { window: undefined }),
      new RangeError("window is required: seconds or a duration like '10s'")
    )
    t.throws(() => read(name, { window: '0s' }), new RangeError(`window ${WINDOW}, got "0s"`))
  }
  t.throws(
    () => read('concurrency', { window: '1m' }),
    new RangeError('window means nothing to "concurrency", which counts what runs at once, got "1m"')
  )
  t.throws(
    () => read('concurrency', { window: null }),
    new RangeError('window means nothing to "concurrency", which counts what runs at once, got null')
  )
})

t.test('what is written wrongly is refused with the option, the value and what was expected', async t => {
  const algorithm =
    'algorithm must be "sliding-window", "sliding-window-log", "sliding-window-counter", "fixed-window", ' +
    '"token-bucket", "leaky-bucket" or "concurrency", got'
  const table: readonly (readonly [algorithm: unknown, options: object, message: string])[] = [
    ['sliding-windw', {}, `${algorithm} "sliding-windw"; did you mean "sliding-window"?`],
    ['gcra', {}, `${algorithm} "gcra"`],
    ['constructor', {}, `${algorithm} "constructor"`],
    [null, {}, `${algorithm} null`],
    ['sliding-window', { precision: 0 }, "precision must be an integer from 1 to 1000 or 'exact', got 0"],
    [
      'sliding-window',
      { precision: 1001 },
      "precision must be an integer from 1 to 1000 or 'exact', got 1001"
    ],
    [
      'sliding-window',
      { precision: 'Exact' },
      'precision must be an integer from 1 to 1000 or \'exact\', got "Exact"'
    ],
    [
      'sliding-window',
      { precision: null },
      "precision must be an integer from 1 to 1000 or 'exact', got null"
    ],
    [
      'sliding-window-counter',
      { precision: 'exact' },
      'precision must be an integer from 1 to 1000, got "exact"'
    ],
    ['sliding-window-counter', { precision: 1.5 }, 'precision must be an integer from 1 to 1000, got 1.5'],
    ['sliding-window-log', { precision: 10 }, 'precision of "sliding-window-log" is \'exact\', got 10'],
    ['sliding-window-log', { precision: null }, 'precision of "sliding-window-log" is \'exact\', got null'],
    ['sliding-window-log', { largeLog: 'yes' }, 'largeLog must be true or false, got "yes"'],
    ['sliding-window-log', { largeLog: null }, 'largeLog must be true or false, got null'],
    ['sliding-window', { largeLog: true }, "largeLog goes with precision 'exact' only, got true"],
    [
      'sliding-window',
      { largeLog: false, precision: 10 },
      "largeLog goes with precision 'exact' only, got false"
    ],
    ['fixed-window', { align: 1 }, 'align must be true or false, got 1'],
    ['fixed-window', { align: null }, 'align must be true or false, got null'],
    ['token-bucket', { burst: 0 }, 'burst must be an integer from 1 to 999999999999999, got 0'],
    ['leaky-bucket', { burst: null }, 'burst must be an integer from 1 to 999999999999999, got null'],
    [
      'leaky-bucket',
      { burst: 5, maxDelay: '2s' },
      'burst and maxDelay exclude each other: a queue holds what starts within maxDelay, got burst 5 and maxDelay "2s"'
    ],
    ['leaky-bucket', { maxDelay: 0 }, `maxDelay ${WINDOW}, got 0`],
    ['leaky-bucket', { maxDelay: null }, `maxDelay ${WINDOW}, got null`],
    ['leaky-bucket', { maxDelay: '2073600001ms' }, `maxDelay ${WINDOW}, got "2073600001ms"`],
    [
      'leaky-bucket',
      { maxDelay: '2073601s' },
      'maxDelay must be at most 24d, for no timer waits much longer, got "2073601s"'
    ],
    [
      'concurrency',
      { maxHold: '25d' },
      'maxHold must be at most 24d, for no timer waits much longer, got "25d"'
    ],
    [
      'concurrency',
      { holdFor: 2_073_601 },
      'holdFor must be at most 24d, for no timer waits much longer, got 2073601, which is in seconds'
    ],
    ['concurrency', { holdFor: null }, `holdFor ${WINDOW}, got null`],
    ['concurrency', { maxHold: null }, `maxHold ${WINDOW}, got null`],
    ['concurrency', { maxHold: Infinity }, `maxHold ${WINDOW}, got Infinity`]
  ]
  for (const [name, options, message] of table) {
    t.throws(() => read(name as AlgorithmName, options), new RangeError(message))
  }
})

t.test('a quota is one that can be counted', async t => {
  const quota = 'quota must be an integer from 0 to 999999999999999, got'
  const most =
    'quota must be at most 1000 for an exact log, which keeps a number for each unit, unless largeLog is true, got'
  const window = read('sliding-window')
  const log = read('sliding-window-log')
  const table: readonly (readonly [terms: TermsButQuota, value: unknown, message: string])[] = [
    [window, -1, `${quota} -1`],
    [window, 1.5, `${quota} 1.5`],
    [window, Number.NaN, `${quota} NaN`],
    [window, '5', `${quota} "5"`],
    [window, undefined, `${quota} undefined`],
    [window, 1e15, `${quota} 1000000000000000`],
    [log, 1001, `${most} 1001`],
    [log, 999_999_999_999_999, `${most} 999999999999999`],
    [log, 1e15, `${quota} 1000000000000000`],
    [log, '2000', `${quota} "2000"`],
    [read('sliding-window', { precision: 'exact' }), 2000, `${most} 2000`],
    [read('sliding-window-log', { largeLog: false }), 2000, `${most} 2000`]
  ]
  for (const [terms, value, message] of table) {
    t.throws(() => readQuota(refuse, value, terms), new RangeError(message))
  }
  t.equal(readQuota(refuse, 1000, log), 1000)
  t.equal(readQuota(refuse, 2000, read('sliding-window-log', { largeLog: true })), 2000)
  t.ok(Object.is(readQuota(refuse, -0, window), 0), 'minus zero is zero')
})

t.test('every algorithm announces what it can hold and the time that is for, rounded up', async t => {
  const table: readonly (readonly [
    quota: number,
    algorithm: AlgorithmName,
    options: object,
    q: number,
    w: number
  ])[] = [
    ...ALGORITHMS.filter(name => name !== 'concurrency').map(
      name => [10, name, { window: '1m' }, 10, 60] as const
    ),
    [10, 'sliding-window', { window: 1 }, 10, 1],
    [10, 'sliding-window', { window: '500ms' }, 10, 1],
    [10, 'sliding-window-log', { window: '1500ms' }, 10, 2],
    [10, 'sliding-window-counter', { window: '1001ms' }, 10, 2],
    [10, 'fixed-window', { window: '1d' }, 10, 86_400],
    [3, 'token-bucket', { window: '10s', burst: 1 }, 1, 4],
    [3, 'leaky-bucket', { window: '10s', burst: 4 }, 4, 14],
    [1, 'token-bucket', { window: '500ms', burst: 3 }, 3, 2],
    [2, 'token-bucket', { window: '500ms', burst: 8 }, 8, 2],
    [100, 'leaky-bucket', { window: '1s', burst: 1 }, 1, 1],
    // q = ⌊maxDelay·L/W⌋ + 1, w = ⌈q·W/L⌉
    [60, 'leaky-bucket', { window: '1m', maxDelay: '5s' }, 6, 6],
    [60, 'leaky-bucket', { window: '1m', maxDelay: '5999ms' }, 6, 6],
    [60, 'leaky-bucket', { window: '1m', maxDelay: '999ms' }, 1, 1],
    [7, 'leaky-bucket', { window: '1m', maxDelay: '20s' }, 3, 26],
    [2, 'leaky-bucket', { window: '1500ms', maxDelay: '1s' }, 2, 2],
    [1, 'leaky-bucket', { window: '1d', maxDelay: '10s' }, 1, 86_400],
    [3, 'leaky-bucket', { window: '1h', maxDelay: '1h' }, 4, 4800],
    [5, 'concurrency', {}, 5, 0],
    [0, 'concurrency', {}, 0, 0],
    [0, 'sliding-window', {}, 0, 60],
    [0, 'sliding-window-log', {}, 0, 60],
    [0, 'sliding-window-counter', {}, 0, 60],
    [0, 'fixed-window', {}, 0, 60],
    [0, 'token-bucket', {}, 0, 60],
    [0, 'token-bucket', { burst: 5 }, 0, 60],
    [0, 'leaky-bucket', { maxDelay: '5s' }, 0, 60]
  ]
  for (const [quota, algorithm, options, q, w] of table) {
    const { capacity, announcedWindow, ...own } = compute(quota, algorithm, options)
    t.strictSame(
      { quota: own.quota, capacity, announcedWindow },
      { quota, capacity: q, announcedWindow: w },
      `${quota} ${algorithm} ${JSON.stringify(options)}`
    )
  }
})

t.test('the numbers an algorithm computes with are those that were written', async t => {
  const table: readonly (readonly [algorithm: AlgorithmName, options: object, params: readonly number[]])[] =
    [
      ['sliding-window', {}, [10, 60_000, 10]],
      ['sliding-window', { precision: 20 }, [10, 60_000, 20]],
      ['sliding-window-log', {}, [10, 60_000, 60_000]],
      ['sliding-window-counter', { precision: 4 }, [10, 60_000, 4, 1]],
      ['fixed-window', {}, [10, 60_000, 0]],
      ['fixed-window', { align: true }, [10, 60_000, 1]],
      ['token-bucket', {}, [10, 60_000, 600_000, 1, 0]],
      ['leaky-bucket', { burst: 3 }, [10, 60_000, 180_000, 1, 0]],
      ['leaky-bucket', { maxDelay: '3s' }, [10, 60_000, 90_000, 1, 1]],
      ['leaky-bucket', { window: '1h', maxDelay: '3s' }, [10, 3_600_000, 3_630_000, 1, 1]],
      ['concurrency', { holdFor: '5s' }, [10, 5000]]
    ]
  for (const [algorithm, options, params] of table) {
    t.strictSame(compute(10, algorithm, options).params, params, `${algorithm} ${JSON.stringify(options)}`)
  }
})

t.test('the numbers an algorithm computes with cannot be changed', async t => {
  for (const name of ALGORITHMS) t.ok(Object.isFrozen(compute(10, name).params), name)
})

t.test('a state is told apart by its algorithm and window, and by sub-windows where they matter', async t => {
  const table: readonly (readonly [algorithm: AlgorithmName, options: object, fingerprint: string])[] = [
    ['sliding-window', {}, 'sliding-window/60000'],
    ['sliding-window', { precision: 20 }, 'sliding-window/60000'],
    ['sliding-window-log', {}, 'sliding-window/60000'],
    ['sliding-window-counter', {}, 'sliding-window-counter/60000/10'],
    ['sliding-window-counter', { precision: 4 }, 'sliding-window-counter/60000/4'],
    ['fixed-window', { window: 10 }, 'fixed-window/10000'],
    ['token-bucket', { burst: 5 }, 'token-bucket/60000'],
    ['leaky-bucket', {}, 'leaky-bucket/60000'],
    ['leaky-bucket', { maxDelay: '1s' }, 'leaky-bucket/60000/queue'],
    ['concurrency', {}, 'concurrency/0']
  ]
  for (const [algorithm, options, expected] of table) {
    t.equal(fingerprint(read(algorithm, options)), expected)
  }
})

t.test('a bucket that refills within a second is known', async t => {
  const table: readonly (readonly [
    quota: number,
    algorithm: AlgorithmName,
    options: object,
    within: boolean
  ])[] = [
    [10, 'token-bucket', { window: '1s' }, false],
    [10, 'token-bucket', { window: '1s', burst: 9 }, true],
    [10, 'leaky-bucket', { window: '1s', burst: 10 }, false],
    [10, 'leaky-bucket', { window: '1s', burst: 9 }, true],
    [10, 'leaky-bucket', { window: '1s', maxDelay: '800ms' }, true],
    [10, 'leaky-bucket', { window: '1s', maxDelay: '900ms' }, false],
    [0, 'token-bucket', { window: '1s', burst: 9 }, false],
    [10, 'sliding-window', { window: '999ms' }, false],
    [10, 'concurrency', {}, false]
  ]
  for (const [quota, algorithm, options, within] of table) {
    const terms = read(algorithm, options)
    t.equal(
      refillsWithinASecond(terms, figures(refuse, terms, quota)),
      within,
      `${quota} ${algorithm} ${JSON.stringify(options)}`
    )
  }
})

t.test('terms that cannot be counted with exact integers are refused', async t => {
  const table: readonly (readonly [written: PolicyOptions, message: string])[] = [
    [
      { quota: 999_999_999_999_999, window: '1m' },
      'quota times window in seconds must stay below 2^53, got about 6.0e+16'
    ],
    [
      { quota: 10, window: '1m', algorithm: 'token-bucket', burst: 1e12 },
      'three times burst times window in milliseconds must stay below 2^53, got about 1.8e+17'
    ],
    [
      { quota: 1e9, window: '59m', algorithm: 'leaky-bucket', maxDelay: '24d' },
      'three times quota times maxDelay in milliseconds must stay below 2^53, got about 6.2e+18'
    ],
    [
      { quota: 10, window: '3600500ms', algorithm: 'token-bucket' },
      'a bucket with a window of an hour or more counts whole seconds, got 3600500 ms'
    ],
    [
      { quota: 10, window: '9ms', algorithm: 'sliding-window-counter' },
      '10 sub-windows need a window of as many ms, got 9 ms'
    ],
    [
      { quota: 10, window: '3600500ms', algorithm: 'sliding-window-counter' },
      'a weighted window of an hour or more must be whole seconds, got 3600500 ms'
    ],
    [
      { quota: () => 1, window: '9ms', algorithm: 'sliding-window-counter' },
      '10 sub-windows need a window of as many ms, got 9 ms'
    ]
  ]
  for (const [written, message] of table) {
    t.throws(() => compilePolicy('daily', written, []), {
      code: 'FST_QUOTA_POLICY',
      message: `policy "daily": it cannot be counted exactly: ${message}`
    })
  }
  t.doesNotThrow(() => compute(10, 'sliding-window', { window: '36525d', precision: 1000 }))
  t.doesNotThrow(() => compute(10, 'sliding-window-counter', { window: '10ms', precision: 10 }))
  t.doesNotThrow(() => compute(1000, 'sliding-window-log', { window: '36525d' }))
  t.doesNotThrow(() => compute(10, 'leaky-bucket', { window: '3600500ms', maxDelay: '500ms' }))
})

t.test('a fault of an algorithm is not taken for a mistake of the operator', async t => {
  const terms = read('sliding-window')
  const params = (): never => {
    throw new TypeError('a bug')
  }
  t.throws(
    () => figures(refuse, { ...terms, algorithm: { ...terms.algorithm, params } }, 10),
    new TypeError('a bug')
  )
})
