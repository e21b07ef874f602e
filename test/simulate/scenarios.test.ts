import t from 'tap'
import { SCENARIOS } from '../../src/simulate/scenarios.js'
import type { Scenario } from '../../src/simulate/scenarios.js'

const scenario = (name: string): Scenario => SCENARIOS.find(scenario => scenario.name === name)!
const times = (name: string): number[] => scenario(name).arrivals.map(({ at }) => at)

t.test('every request of a scenario costs 1 and comes after those before it', async t => {
  for (const { name, arrivals } of SCENARIOS) {
    t.ok(
      arrivals.every(({ at, units }, i) => units === 1 && at >= (arrivals[i - 1]?.at ?? 0)),
      name
    )
  }
})

t.test('A is 600 requests from 0 to 119.8 s, and the same half a window later', async t => {
  t.equal(times('A').length, 600)
  t.strictSame(times('A').slice(0, 2), [0, 200])
  t.equal(times('A').at(-1), 119_800)
  t.strictSame(
    scenario('A').phases.map(({ shift }) => shift),
    [0, 30_000]
  )
})

t.test('B is ten requests on each side of the edge', async t => {
  t.strictSame(times('B'), [...Array(10).fill(990), ...Array(10).fill(1010)])
})

t.test('C is a request each millisecond of a second', async t => {
  t.strictSame(times('C'), [...Array(1000).keys()])
})

t.test(
  'D is a quota in the last millisecond of a sub-window of every precision, then a window of requests',
  async t => {
    const { quota, window, precisions } = scenario('D')
    const start = times('D')[0]!
    t.strictSame(precisions, [1, 6, 10, 60])
    for (const precision of precisions) t.equal((start + 1) % (window / precision), 0)
    t.strictSame(times('D').slice(0, quota), Array(quota).fill(start))
    t.strictSame(times('D').slice(quota, quota + 2), [start + 5, start + 10])
    t.equal(times('D').at(-1), start + window)
  }
)
