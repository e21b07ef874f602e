import t from 'tap'
import { readStudies } from '../../src/simulate/options.js'
import type { Given } from '../../src/simulate/values.js'
import type { Study } from '../../src/simulate/report.js'

const refuse = (message: string): never => {
  throw new Error(message)
}
const noFile = (): string => {
  throw new Error('ENOENT: no such file or directory')
}
const read = (given: Given, text?: string): Study[] =>
  readStudies(refuse, given, text === undefined ? noFile : () => text)
const own = (given: Given, text?: string): Study => read({ quota: '10', window: '60s', ...given }, text)[0]!
const names = (given: Given): string[] => read(given).map(({ name }) => name)
const labels = ({ contenders }: Study): string[] => contenders.map(({ label }) => label)

t.test('without options all scenarios meet all algorithms', async t => {
  t.strictSame(names({}), ['A', 'B', 'C', 'D'])
  t.strictSame(
    read({}).map(({ contenders }) => contenders.length),
    [7, 7, 8, 13]
  )
})

t.test('scenarios are chosen by name, each once and in their order', async t => {
  t.strictSame(names({ scenario: ['C', 'A', 'C'] }), ['A', 'C'])
  t.strictSame(names({ scenario: ['B', 'all'] }), ['A', 'B', 'C', 'D'])
})

t.test('algorithms and their options apply to scenarios too', async t => {
  const [study] = read({
    scenario: ['C'],
    algorithm: ['token-bucket', 'sliding-window'],
    precision: ['2', '4'],
    burst: '7'
  })
  t.strictSame(labels(study!), [
    'sliding-window, precision 2',
    'sliding-window, precision 4',
    'token-bucket, burst 7',
    'token-bucket, burst 7, drained'
  ])
  const [drained] = read({ scenario: ['C'], algorithm: ['token-bucket'], drained: true })
  t.strictSame(labels(drained!), ['token-bucket, burst 100, drained'])
})

t.test('requests of your own meet all algorithms with the options given', async t => {
  const study = own({
    burstOf: ['1'],
    at: ['0s'],
    precision: ['6'],
    burst: '3',
    maxDelay: '2s'
  })
  t.strictSame(study.notes, [])
  t.strictSame(labels(study), [
    'sliding-window, precision 6',
    'sliding-window-log',
    'sliding-window-counter, precision 6',
    'fixed-window',
    'fixed-window, aligned to the clock',
    'token-bucket, burst 3',
    'leaky-bucket, max delay 2s'
  ])
})

t.test('the log runs only if it is named where that takes minutes', async t => {
  const long = { quota: '1000', burstOf: ['100001'], at: ['0'] }
  t.notOk(labels(own(long)).includes('sliding-window-log'))
  t.strictSame(own(long).notes, [
    'sliding-window-log keeps every unit: with so many requests it takes minutes, so it runs only if --algorithm names it.'
  ])
  t.match(own({ ...long, algorithm: ['sliding-window-log'] }), {
    notes: [],
    contenders: [{ label: 'sliding-window-log' }]
  })
  for (const short of [
    { ...long, quota: '999' },
    { quota: '100000', burstOf: ['1000'], at: ['0'] }
  ]) {
    t.ok(labels(own(short)).includes('sliding-window-log'))
  }
})

const request = { quota: '10', window: '60s', burstOf: ['1'], at: ['0'] }
const INTEGER = 'an integer from 1 to 999999999999999'
const DURATION =
  "whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d"
const ALGORITHMS =
  '"sliding-window", "sliding-window-log", "sliding-window-counter", "fixed-window", "token-bucket" or "leaky-bucket"'
const OWN = 'requests of your own: --rate and --for, --burst-of and --at, or --file'

const wrong: readonly (readonly [Given, string])[] = [
  [{ ...request, precision: ['1001'] }, '--precision must be an integer from 1 to 1000, got 1001'],
  [{ ...request, burst: '0' }, `--burst must be ${INTEGER}, got 0`],
  [{ ...request, maxDelay: '0' }, `--max-delay must be ${DURATION}, got 0`],
  [{ scenario: ['E'] }, '--scenario must be "A", "B", "C", "D" or "all", got "E"'],
  [{ quota: '10' }, `--quota goes with ${OWN}, got "10" alone`],
  [{ window: '10s' }, `--window goes with ${OWN}, got "10s" alone`],
  [{ phase: ['1s', '2s'] }, `--phase goes with ${OWN}, got "1s,2s" alone`],
  [{ for: '5s' }, '--for goes with --rate, the rate of the requests in that time, got "5s" alone'],
  [{ at: ['5s'] }, '--at goes with --burst-of, the number of requests at that time, got "5s" alone'],
  [
    { algorithm: ['token-buckt'] },
    `--algorithm must be ${ALGORITHMS}, got "token-buckt"; did you mean "token-bucket"?`
  ],
  [
    { algorithm: ['concurrency'] },
    '--algorithm "concurrency" counts requests in progress, and times of arrival do not tell how long they last; ' +
      'expected sliding-window, sliding-window-log, sliding-window-counter, fixed-window, token-bucket, leaky-bucket'
  ],
  [
    { algorithm: ['fixed-window', 'token-bucket'], precision: ['1', '2'] },
    '--precision means nothing to fixed-window and token-bucket; it belongs to sliding-window and sliding-window-counter, got "1,2"'
  ],
  [
    { algorithm: ['leaky-bucket'], burst: '3', maxDelay: '2s' },
    '--burst means nothing to leaky-bucket; it belongs to token-bucket and leaky-bucket without --max-delay, got "3"'
  ],
  [
    { algorithm: ['token-bucket'], maxDelay: '2s' },
    '--max-delay means nothing to token-bucket; it belongs to leaky-bucket, got "2s"'
  ],
  [
    { ...request, window: '5ms' },
    'sliding-window-counter cannot count this exactly: 10 sub-windows need a window of as many ms, got 5 ms'
  ]
]

t.test('a wrong option is refused with a sentence that names it, its value and the expectation', async t => {
  for (const [given, message] of wrong) {
    t.throws(() => read(given, '9000000000000'), { message })
  }
})
