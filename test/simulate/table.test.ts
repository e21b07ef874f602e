import t from 'tap'
import { readStudies } from '../../src/simulate/options.js'
import type { Given } from '../../src/simulate/values.js'
import { report } from '../../src/simulate/report.js'
import { asJson, asText } from '../../src/simulate/table.js'

const refuse = (message: string): never => {
  throw new Error(message)
}
const plain = (_style: string, text: string): string => text
const marked = (style: string, text: string): string => `<${style}>${text}</${style}>`
const run = (given: Given, text = ''): ReturnType<typeof report>[] =>
  readStudies(refuse, given, () => text).map(report)

t.test('phases stand side by side, waits once for all of them', async t => {
  const given: Given = {
    quota: '10',
    window: '60s',
    rate: '5/s',
    for: '120s',
    phase: ['0', '30s'],
    algorithm: ['sliding-window', 'fixed-window']
  }
  t.equal(
    asText(run(given), plain),
    `\
Your requests: quota 10 per 1m
600 requests: 5/s for 2m

                                    phase 0s                              phase 30s
algorithm                           admitted  any 1m  excess  1st second  admitted  any 1m  excess  1st second    true waits
sliding-window, precision 10              20      10   1.00x           5        20      10   1.00x           5  1160 of 1160
fixed-window                              20      10   1.00x           5        20      10   1.00x           5  1160 of 1160
fixed-window, aligned to the clock        20      10   1.00x           5        30      20   2.00x           5  1150 of 1150

admitted     units admitted in all
any …        the most in any interval of that length, wherever it starts
excess       that, divided by the quota
1st second   units admitted in the second after the first request
true waits   refusals after whose wait the request is admitted, and 1ms earlier is not
`
  )
})

t.test('what is rare has a column and an explanation where it occurs', async t => {
  const given: Given = {
    quota: '10',
    window: '1s',
    file: 'x',
    drained: true,
    maxDelay: '2s',
    algorithm: ['token-bucket', 'leaky-bucket']
  }
  t.equal(
    asText(run(given, '0 11\n5000 10'), plain),
    `\
Your requests: quota 10 per 1s
2 requests of 21 units: 2 of x

algorithm                            admitted  any 1s  excess  1st second  true waits  never
token-bucket, burst 10, drained            10      10   1.00x           0      0 of 0      1
leaky-bucket, max delay 2s, drained        10      10   1.00x           0      1 of 1      0

admitted     units admitted in all
any …        the most in any interval of that length, wherever it starts
excess       that, divided by the quota
1st second   units admitted in the second after the first request
true waits   refusals after whose wait the request is admitted, and 1ms earlier is not
never        requests that cost more than can ever be held
max delay    counted when they start, which is later than they are admitted
drained      everything was spent just before the first request
`
  )
})

t.test(
  'on a terminal an excess is red and a promise kept is green, without a change of the columns',
  async t => {
    const reports = run({ scenario: ['B'], algorithm: ['fixed-window'] })
    const text = asText(reports, marked)
    t.match(text, '<bold>B. Window edge</bold>: quota 10 per 1s')
    t.match(text, '<green> 1.00x</green>')
    t.match(text, '<red> 2.00x</red>')
    t.match(text, '<green>  10 of 10</green>')
    t.match(text, '<dim>excess       that, divided by the quota</dim>')
    t.equal(text.replaceAll(/<\/?(bold|dim|green|red)>/g, ''), asText(reports, plain))
  }
)

t.test('an excess is rounded up, so that one of a thousandth shows', async t => {
  const requests = { window: '10s', burstOf: ['1200', '1'], at: ['0', '10s'], algorithm: ['token-bucket'] }
  t.match(asText(run({ ...requests, quota: '1000', burst: '1001' }), plain), / 1001 {3}1\.01x /)
  t.match(asText(run({ ...requests, quota: '100', burst: '110' }), plain), / 110 {3}1\.10x /)
})

t.test('a wait that was not true is red', async t => {
  const [study] = run({ scenario: ['B'], algorithm: ['token-bucket'] })
  const results = study!.results.map(({ contender, outcomes }) => ({
    contender,
    outcomes: outcomes.map(outcome => ({ ...outcome, waits: { given: 10, true: 9 } }))
  }))
  t.match(asText([{ ...study!, results }], marked), '<red>   9 of 10</red>')
})

t.test('what was left out is said below the table', async t => {
  const [study] = run({ scenario: ['B'] })
  t.match(
    asText([{ ...study!, notes: ['Something was left out.'] }], plain),
    '\n\nSomething was left out.\n\nadmitted '
  )
})

t.test('JSON has the same numbers, times in milliseconds', async t => {
  const [first, ...others] = (
    JSON.parse(asJson(run({ scenario: ['C', 'B'], algorithm: ['token-bucket'] }))) as { scenarios: unknown[] }
  ).scenarios
  t.strictSame(first, {
    scenario: 'B',
    title: 'Window edge',
    about: '10 requests at 990ms and 10 at 1010ms',
    quota: 10,
    window: 1000,
    requests: 20,
    notes: [],
    algorithms: [
      {
        algorithm: 'token-bucket',
        label: 'token-bucket, burst 10',
        phases: [
          {
            shift: 0,
            admitted: 10,
            mostInAnyWindow: 10,
            excess: 1,
            firstSecond: 10,
            waits: { given: 10, true: 10 },
            refusedForEver: 0
          }
        ]
      }
    ]
  })
  t.match(others, [
    { algorithms: [{ phases: [{ perTenth: [100, 19, 10, 10, 10, 10, 10, 10, 10, 10] }] }, {}] }
  ])
})
