import t from 'tap'
import { asJson, asText, number } from './report.js'
import type { Report } from './report.js'
import { atLeast, atMost } from './row.js'

const NOTHING: Report = {
  node: '20.19.0',
  rounds: 60,
  seconds: 12.3,
  twins: [],
  results: [],
  changes: [],
  notes: []
}

const ROWS: Report = {
  ...NOTHING,
  twins: [
    {
      stage: 'http',
      metric: 'cpu',
      names: ['bare', 'bare again'],
      unit: 'µs',
      ours: 10.1,
      rival: 10,
      ratio: 1.01,
      alike: true
    }
  ],
  results: [
    {
      name: 'P1',
      stage: 'http',
      measure: 'admitted, to another',
      unit: 'µs CPU',
      ours: 1.234,
      rival: 4.5,
      ratio: 0.2742,
      range: [0.25, 0.31],
      target: atMost(0.5),
      stretch: atMost(0.35),
      verdict: 'met, and the stretch'
    },
    {
      name: 'P12',
      stage: 'redis',
      measure: 'decisions',
      unit: '/s',
      ours: NaN,
      rival: NaN,
      ratio: NaN,
      range: undefined,
      target: atLeast(0.95),
      verdict: 'skipped'
    }
  ],
  notes: ['There is none.']
}

t.test('a table for people has its words at the left and its numbers at the right', async t => {
  t.equal(
    asText(ROWS),
    `
     measure                         ours  rival  unit    ratio   in parts  target  stretch  verdict
P1   admitted, to another            1.23   4.50  µs CPU   0.27  0.25–0.31   ≤ 0.5   ≤ 0.35  met, and the stretch
P12  decisions                          -      -  /s          -             ≥ 0.95           skipped
A/A  http, cpu: bare again, to bare  10.1   10.0  µs       1.01                              alike

There is none.

Node.js 20.19.0, 60 rounds, 12 s. A/A: two that are the same; outside of 0.95 to 1.05, nothing is concluded from it.
`.slice(1)
  )
})

t.test('a comparison has one line for each subject, and marks what has changed', async t => {
  const change = { stage: 'loops', metric: 'ns', unit: 'ns', rival: 100 }
  const text = asText({
    ...NOTHING,
    changes: [
      { ...change, variant: 'ours', ours: 90, ratio: 0.9, verdict: 'better' },
      { ...change, variant: 'ours, fields', ours: 101, ratio: 1.01, verdict: 'same' }
    ]
  })
  t.match(text, /^loops {2}ours: ns {10}90\.0 {3}100 {2}ns {5}0\.90 {2}better$/m)
  t.match(text, /^loops {2}ours, fields: ns {3}101 {3}100 {2}ns {5}1\.01$/m)
})

t.test('JSON for programs has all of it, and no number where there is none', async t => {
  const { results, twins, node } = JSON.parse(asJson(ROWS)) as Report
  t.match(results, [
    {
      name: 'P1',
      ratio: 0.2742,
      range: [0.25, 0.31],
      target: { most: 0.5 },
      verdict: 'met, and the stretch'
    },
    { name: 'P12', ratio: null, verdict: 'skipped' }
  ])
  t.match(twins, [{ alike: true }])
  t.equal(node, '20.19.0')
})

t.test('numbers have about three digits', async t => {
  const written = [0, 0.0123, 0.5, 9.87, 12.34, 123.4, -0.25, 54321, NaN, Infinity].map(number)
  t.strictSame(written, ['0.00', '0.012', '0.50', '9.87', '12.3', '123', '-0.25', '54321', '-', '-'])
})
