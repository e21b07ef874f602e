import t from 'tap'
import { chart } from '../../src/audit/chart.js'
import type { AttackResult, AuditPromise, RequestRecord } from '../../src/audit/result.js'

const promise: AuditPromise = { quota: 2, window: 1, policy: null, source: 'options', others: [] }

const request = (at: number, outcome: RequestRecord['outcome']): RequestRecord => ({
  sent: at,
  arrived: at + 10,
  status: 200,
  outcome,
  variant: null,
  available: null,
  retryAfter: null
})

function attack(requests: readonly RequestRecord[], changes: Partial<AttackResult> = {}): AttackResult {
  const admitted = requests.filter(({ outcome }) => outcome === 'admitted').length
  return {
    name: 'sample',
    about: 'does something',
    from: 1000,
    to: 3000,
    sent: requests.length,
    admitted,
    refused: 0,
    failed: 0,
    mostInAnyWindow: 3,
    mostPossible: 3,
    excess: 1.5,
    firstSecond: 3,
    firstRefusalAfter: null,
    lateness: 0,
    worstWindow: { from: 1000, to: 1500 },
    requests,
    ...changes
  }
}

/** The numbers of a path, point by point. */
function points(svg: string, name: string): readonly (readonly [number, number])[] {
  const [, path = ''] = new RegExp(`class="${name}"\\s+d="([^"]*)"`).exec(svg) ?? []
  return [...path.matchAll(/[ML](-?[\d.]+),(-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)])
}

t.test('the curve counts the window that ends at each instant', async t => {
  const three = [1000, 1000, 1500].map(at => request(at, 'admitted'))
  const svg = chart(attack(three), promise).text
  const heights = points(svg, 'count').map(([, y]) => y)
  const floor = Math.max(...heights)
  const unit = (floor - Math.min(...heights)) / 3
  const units = heights.map(y => Math.round((floor - y) / unit))
  t.strictSame(
    units.filter((count, i) => count !== units[i - 1]),
    [0, 1, 2, 3, 2, 1, 0],
    'up with each admission, and down a window after it'
  )
})

t.test('what is a window old has left when the next one comes', async t => {
  const svg = chart(attack([1000, 2000].map(at => request(at, 'admitted'))), promise).text
  const heights = points(svg, 'count').map(([, y]) => y)
  t.equal(new Set(heights).size, 2, 'never two at once')
})

t.test('a request counts what it costs', async t => {
  const one = chart(attack([request(1000, 'admitted')]), promise).text
  const ten = chart(attack([request(1000, 'admitted')], { admitted: 10 }), promise).text
  t.match(one, />2<\/text>/)
  t.match(ten, />10<\/text>/, 'on the scale')
})

t.test('bars tell how many were sent, and what came of them', async t => {
  const svg = chart(
    attack([
      ...Array.from({ length: 4 }, () => request(1000, 'admitted')),
      request(2000, 'admitted'),
      request(2500, 'refused'),
      request(2600, 'failed')
    ]),
    promise
  ).text
  const bars = (name: string): number[] => {
    const [, path = ''] = new RegExp(`class="${name}"\\s+d="([^"]*)"`).exec(svg) ?? []
    return [...path.matchAll(/v-([\d.]+)/g)].map(([, height]) => Number(height))
  }
  const [four = 0, one = 0] = bars('admitted')
  t.ok(four > one && one > 0)
  t.strictSame([bars('refused'), bars('failed')], [[one], [one]])
})

t.test('the quota and the worst window are marked, and a screen reader is told', async t => {
  const svg = chart(attack([request(1000, 'admitted')]), promise).text
  t.match(svg, /promised: 2/)
  t.match(svg, /<rect\s+class="worst"\s+x="64"\s+width="[\d.]+"/)
  t.match(svg, 'aria-label="sample: up to 3 units in any window of 1 seconds, 2 are promised"')
})

t.test('an attack without an admission is drawn as well', async t => {
  const svg = chart(
    attack([request(1000, 'refused')], { worstWindow: null, admitted: 0, to: 1000 }),
    promise
  ).text
  t.notMatch(svg, 'class="worst"')
  t.notMatch(svg, 'NaN')
})
