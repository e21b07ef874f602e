import t from 'tap'
import { readStudies } from '../../src/simulate/options.js'
import type { Given } from '../../src/simulate/values.js'
import { report } from '../../src/simulate/report.js'
import type { Report } from '../../src/simulate/report.js'

const refuse = (message: string): never => {
  throw new Error(message)
}
const reported = (given: Given, text = ''): Report => report(readStudies(refuse, given, () => text)[0]!)

t.test('there is an outcome for each contender and phase', async t => {
  const { results } = reported({
    quota: '10',
    window: '60s',
    rate: '5/s',
    for: '120s',
    phase: ['0', '30s'],
    algorithm: ['fixed-window']
  })
  t.strictSame(
    results.map(({ contender, outcomes }) => [contender.label, ...outcomes.map(({ excess }) => excess)]),
    [
      ['fixed-window', 1, 1],
      ['fixed-window, aligned to the clock', 1, 2]
    ]
  )
})

t.test('the first second and its tenths start with the first request', async t => {
  const { results } = reported({
    quota: '10',
    window: '60s',
    burstOf: ['2', '1', '1', '1'],
    at: ['5s', '5100ms', '5999ms', '6s'],
    algorithm: ['token-bucket']
  })
  t.match(results[0]?.outcomes, [{ admitted: 5, firstSecond: 4, perTenth: [2, 1, 0, 0, 0, 0, 0, 0, 0, 1] }])
})

t.test('everything is counted in units', async t => {
  const { results } = reported(
    { quota: '10', window: '1s', file: 'costs', algorithm: ['sliding-window-log'] },
    '0 6\n10 4\n20 11\n1000 3\n1010 5'
  )
  t.match(results[0]?.outcomes, [
    { admitted: 18, mostInAnyWindow: 10, excess: 1, firstSecond: 10, refusedForEver: 1, waits: { given: 0 } }
  ])
})
