import t from 'tap'
import { changesOf, judge, twinsOf } from './judging.js'
import type { Result } from './judging.js'
import type { Findings } from './measure.js'
import { atLeast, atMost } from './row.js'
import type { Row } from './row.js'
import { cpuAdded, throughput } from './rows/http.js'
import type { Sample, Stage } from './stage.js'

const STAGE: Stage = {
  name: 'http',
  twins: ['bare', 'bare again'],
  metrics: [{ name: 'cpu', unit: 'µs', better: 'lower' }],
  measure: async () => new Map()
}

const found = (samples: Readonly<Record<string, Sample>>): Findings =>
  new Map([[STAGE, new Map(Object.entries(samples))]])

const ALIKE = { bare: { cpu: [10, 10] }, 'bare again': { cpu: [10.4, 10.4] } }

/** A row of what ours and another add, judged alone. */
function judged(row: Partial<Row>, ours: readonly number[], rival: readonly number[], again = 10.4): Result {
  const samples = {
    bare: { cpu: ours.map(() => 10) },
    'bare again': { cpu: ours.map(() => again) },
    ours: { cpu: ours.map(added => 10 + added) },
    theirs: { cpu: rival.map(added => 10 + added) }
  }
  const findings = found(samples)
  const whole: Row = { name: 'P1', measure: 'cost', ...cpuAdded('ours', 'theirs'), ...row }
  return judge([whole], findings, twinsOf(findings))[0]!
}

t.test('a ratio of what is added to the same base is judged by target and stretch', async t => {
  const bounds = { target: atMost(0.5), stretch: atMost(0.3) }
  t.match(judged(bounds, [2, 2], [4, 4]), { ours: 2, rival: 4, ratio: 0.5, verdict: 'met' })
  t.match(judged(bounds, [1, 1], [4, 4]), { ratio: 0.25, verdict: 'met, and the stretch' })
  t.match(judged(bounds, [3, 3], [4, 4]), { ratio: 0.75, verdict: 'not met' })
  t.match(judged({}, [3, 3], [4, 4]), { ratio: 0.75, verdict: 'reported' })
  t.match(judged({ target: atLeast(0.9) }, [3, 3], [4, 4]), { verdict: 'not met' })
  t.match(judged({ target: atLeast(0.7) }, [3, 3], [4, 4]), { verdict: 'met' })
})

t.test('nothing is concluded where twins are not alike, or a ratio is none', async t => {
  const bounds = { target: atMost(0.5) }
  t.equal(judged(bounds, [1, 1], [4, 4], 10.5).verdict, 'met')
  t.equal(judged(bounds, [1, 1], [4, 4], 10.6).verdict, 'inconclusive')
  t.equal(judged(bounds, [1, 1], [4, 4], 9.4).verdict, 'inconclusive')
  t.equal(judged({}, [1, 1], [4, 4], 9.4).verdict, 'inconclusive')
  t.equal(judged(bounds, [1, 1], [0, 0]).verdict, 'inconclusive')
})

t.test('twins that differ in one metric say nothing of another', async t => {
  const stage: Stage = {
    ...STAGE,
    metrics: [...STAGE.metrics, { name: 'wall', unit: 'µs', better: 'lower' }]
  }
  const sample = (cpu: number, wall: number): Sample => ({ cpu: [cpu], wall: [wall] })
  const samples = {
    bare: sample(10, 20),
    'bare again': sample(10, 30),
    ours: sample(11, 21),
    theirs: sample(14, 24)
  }
  const findings: Findings = new Map([[stage, new Map(Object.entries(samples))]])
  const makings = [cpuAdded('ours', 'theirs'), throughput('ours', 'theirs')]
  const two = makings.map((making): Row => ({ name: 'P1', measure: 'cost', ...making }))
  t.match(judge(two, findings, twinsOf(findings)), [{ verdict: 'reported' }, { verdict: 'inconclusive' }])
})

t.test('a range tells the ratio in parts of the rounds, if there are enough of them', async t => {
  const rounds = Array.from({ length: 10 }, (_, round) => (round < 2 ? 1 : 3))
  const four = rounds.map(() => 4)
  t.strictSame(judged({}, rounds, four).range, [0.25, 0.75])
  t.equal(judged({}, rounds.slice(1), four.slice(1)).range, undefined)
})

t.test('what was not measured is skipped', async t => {
  const row: Row = { name: 'P8', measure: 'cost', ...cpuAdded('ours', 'theirs'), target: atMost(1) }
  for (const findings of [new Map() as Findings, found(ALIKE)]) {
    t.match(judge([row], findings, twinsOf(findings)), [{ ratio: NaN, verdict: 'skipped', range: undefined }])
  }
})

t.test('throughput is a share of the other one', async t => {
  const { figures } = throughput('ours', 'theirs')
  const samples = new Map([
    ['ours', { wall: [50, 40] }],
    ['theirs', { wall: [40, 32] }]
  ])
  const { ours, rival, ratio } = figures(samples)
  t.equal(ratio, 0.8)
  t.equal(Math.round(ours), 22222)
  t.equal(Math.round(rival), 27778)
  t.throws(() => figures(new Map()), /nothing was measured of ours: wall/)
})

t.test('a change is more than a twentieth, and for better or worse by what is measured', async t => {
  const changes = (now: number, better: 'lower' | 'higher', again = 10): unknown => {
    const stage: Stage = { ...STAGE, metrics: [{ name: 'cpu', unit: 'µs', better }] }
    const samples = {
      bare: { cpu: [10] },
      'bare again': { cpu: [again] },
      ours: { cpu: [now] },
      'ours of main': { cpu: [20] }
    }
    const findings: Findings = new Map([[stage, new Map(Object.entries(samples))]])
    return changesOf(findings, ' of main', twinsOf(findings)).map(({ variant, verdict }) => [
      variant,
      verdict
    ])
  }
  t.strictSame(changes(21, 'lower'), [['ours', 'same']])
  t.strictSame(changes(19, 'lower'), [['ours', 'same']])
  t.strictSame(changes(22, 'lower'), [['ours', 'worse']])
  t.strictSame(changes(18, 'lower'), [['ours', 'better']])
  t.strictSame(changes(22, 'higher'), [['ours', 'better']])
  t.strictSame(changes(18, 'higher'), [['ours', 'worse']])
  t.strictSame(changes(18, 'lower', 11), [['ours', 'inconclusive']])
})
