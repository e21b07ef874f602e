import t from 'tap'
import { hasRequests, readOwn } from '../../src/simulate/own.js'
import type { Scenario } from '../../src/simulate/scenarios.js'
import type { Given } from '../../src/simulate/values.js'

const refuse = (message: string): never => {
  throw new Error(message)
}
const noFile = (): string => {
  throw new Error('ENOENT: no such file or directory')
}
const own = (given: Given, text?: string): Scenario =>
  readOwn(refuse, { quota: '10', window: '60s', ...given }, text === undefined ? noFile : () => text)
const times = ({ arrivals }: Scenario): number[] => arrivals.map(({ at }) => at)

t.test('a rate, a burst or a file makes requests', async t => {
  t.equal(hasRequests({ rate: '5/s' }), true)
  t.equal(hasRequests({ burstOf: ['5'] }), true)
  t.equal(hasRequests({ file: 'x' }), true)
  t.equal(hasRequests({ quota: '5', window: '10s', for: '5s', at: ['1s'], phase: ['1s'] }), false)
})

t.test('a rate lasts from 0 on for its time, the end excluded', async t => {
  t.strictSame(times(own({ rate: '5/s', for: '1s' })), [0, 200, 400, 600, 800])
  t.strictSame(times(own({ rate: '5/s', for: '1001ms' })), [0, 200, 400, 600, 800, 1000])
  t.strictSame(times(own({ rate: '2/10s', for: '11' })), [0, 5000, 10_000], 'seconds without a unit')
})

t.test('a rate, bursts and a file come together in the order of time', async t => {
  const study = own(
    { rate: '1/s', for: '2s', burstOf: ['2', '1'], at: ['1500ms', '0'], file: 'x.txt' },
    '1200 3\n10'
  )
  t.strictSame(times(study), [0, 0, 10, 1000, 1200, 1500, 1500])
  t.equal(study.about, '7 requests of 9 units: 1/s for 2s; 2 at 1500ms; 1 at 0s; 2 of x.txt')
  t.equal(own({ burstOf: ['1'], at: ['5'] }).about, '1 request: 1 at 5s')
})

t.test('requests of your own come once for each phase, which has a name', async t => {
  const scenario = own({ burstOf: ['1'], at: ['0s'], phase: ['0', '30s'] })
  t.match(scenario, { name: 'own', quota: 10, window: 60_000, precisions: [10], tenths: false })
  t.strictSame(scenario.phases, [
    { name: 'phase 0s', shift: 0 },
    { name: 'phase 30s', shift: 30_000 }
  ])
  t.strictSame(own({ burstOf: ['1'], at: ['0s'] }).phases, [{ name: '', shift: 0 }])
})

const request = { quota: '10', window: '60s', burstOf: ['1'], at: ['0'] }
const INTEGER = 'an integer from 1 to 999999999999999'
const DURATION =
  "whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', more than 0 and at most 36525d"

const wrong: readonly (readonly [Given, string])[] = [
  [{ ...request, quota: '-1' }, `--quota must be ${INTEGER}, got -1`],
  [{ ...request, quota: 'ten' }, `--quota must be ${INTEGER}, got "ten"`],
  [{ window: '60s', burstOf: ['1'], at: ['0'] }, '--quota is required: an integer from 1'],
  [{ quota: '10', burstOf: ['1'], at: ['0'] }, "--window is required: a duration like '10s'"],
  [{ ...request, window: '1 day' }, `--window must be ${DURATION}, got "1 day"`],
  [{ ...request, window: '-60s' }, `--window must be ${DURATION}, got "-60s"`],
  [{ ...request, phase: ['-1s'] }, `--phase must be ${DURATION}, got "-1s"`],
  [{ ...request, at: ['noon'] }, `--at must be ${DURATION}, got "noon"`],
  [{ ...request, burstOf: ['1000001'] }, '--burst-of must be an integer from 1 to 1000000, got 1000001'],
  [
    { ...request, burstOf: ['1', '2'] },
    '--burst-of and --at go in pairs, so many requests at such a time, got 2 of the one and 1 of the other'
  ],
  [{ ...request, rate: '5' }, "--rate must be requests per time like '5/s' or '100/1m', got \"5\""],
  [{ ...request, rate: '0/s' }, "--rate must be requests per time like '5/s' or '100/1m', got \"0/s\""],
  [{ ...request, rate: '5/0s' }, `--rate must be ${DURATION}, got "0s"`],
  [{ ...request, rate: '5/s' }, "--for is required: a duration like '120s', with --rate"],
  [
    { ...request, rate: '1000/s', for: '1001s' },
    '--rate and --for must make at most 1000000 requests, got 1001000'
  ],
  [
    { ...request, for: '5s' },
    '--for goes with --rate, the rate of the requests in that time, got "5s" alone'
  ],
  [
    { ...request, burstOf: ['600000', '600000'], at: ['0', '0'] },
    'there must be at most 1000000 requests in all, got 1200000'
  ],
  [
    {
      ...request,
      burstOf: Array.from({ length: 100 }, () => '1000000'),
      at: Array.from({ length: 100 }, () => '0')
    },
    'there must be at most 1000000 requests in all, got 100000000'
  ],
  [
    { ...request, at: ['36525d'], phase: ['36525d', '0'], rate: '1/36525d', for: '36525d', file: 'x' },
    'the last request must come at 9000000000000 ms or before, got 12155760000000 ms'
  ],
  [{ ...request, scenario: ['A', 'B'] }, '--scenario has its own requests and goes without others, got "A,B"']
]

t.test('a wrong option is refused with a sentence that names it, its value and the expectation', async t => {
  for (const [given, message] of wrong) {
    t.throws(() => readOwn(refuse, given, () => '9000000000000'), { message })
  }
})

t.test('a file that cannot be read, or has no times, is refused', async t => {
  t.throws(() => own({ file: 'gone.txt' }), {
    message: '--file must be a file that can be read, got "gone.txt": ENOENT: no such file or directory'
  })
  t.throws(() => own({ file: 'empty.txt' }, '# nothing\n'), {
    message: '--file must have a time on at least one line, got none in "empty.txt"'
  })
})
