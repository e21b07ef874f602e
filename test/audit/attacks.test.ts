import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import type { Attack, Send, Terms } from '../../src/audit/attacks.js'

const TERMS: Terms = { quota: 10, window: 2000, precision: 20 }

function attack(name: string): Attack {
  return ATTACKS.find(attack => attack.name === name)!
}

const sends = (name: string): readonly Send[] => attack(name).sends(TERMS)
const at = (time: number) => (send: Send) => send.at === time

t.test('every attack says what it does, sends in order, and begins after idleness', async t => {
  t.equal(new Set(ATTACKS.map(({ name }) => name)).size, ATTACKS.length)
  for (const { name, about, idle, sends } of ATTACKS) {
    for (const terms of [
      TERMS,
      { quota: 1, window: 500, precision: 1 },
      { quota: 900, window: 60_000, precision: 20 }
    ]) {
      const times = sends(terms).map(({ at }) => at)
      t.strictSame(
        times,
        times.toSorted((a, b) => a - b),
        name
      )
      t.ok(
        times.every(time => time >= 0 && time <= 2.1 * terms.window),
        name
      )
    }
    t.ok(idle > 1 && about.length > 20 && !about.endsWith('.'), name)
  }
})

t.test('the ways around are the only ones that have to be asked for', async t => {
  for (const { name, bypass, sends } of ATTACKS) {
    t.equal(bypass === true, name.startsWith('bypass-'), name)
    t.equal(
      bypass === true,
      sends(TERMS).some(({ way }) => way !== undefined),
      name
    )
  }
})

t.test('an edge burst opens a window, fills its end and then the start of the next one', async t => {
  const { start } = attack('edge-burst')
  t.strictSame(start?.(TERMS), { after: 'found', offset: 25 })
  t.equal(sends('edge-burst').filter(at(0)).length, 1)
  t.equal(sends('edge-burst').filter(at(1900)).length, 10)
  t.equal(sends('edge-burst').filter(at(2100)).length, 10)
  t.equal(sends('edge-burst').filter(send => send.at < 1900).length, 1)
})

t.test('the burst at the end of a sub-window comes as late as it can be trusted to come in time', async t => {
  const { start } = attack('sub-window-burst')
  t.strictSame(start?.(TERMS), { after: 'clock', offset: -20 })
  t.strictSame(start?.({ ...TERMS, precision: 300 }), { after: 'clock', offset: -40 })
  t.equal(sends('sub-window-burst').filter(at(0)).length, 10)
  const last = sends('sub-window-burst').filter(({ at }) => at > 1800 && at < 1980)
  t.ok(last.length > 50, 'it asks the more the nearer a window has passed')
})

t.test('shifted attacks begin at parts of a window, and the aligned one at its edge', async t => {
  for (const [name, offset] of [
    ['aligned', 0],
    ['shifted-25', 500],
    ['shifted-50', 1000],
    ['shifted-75', 1500]
  ] as const) {
    t.strictSame(attack(name).start?.(TERMS), { after: 'found', offset })
  }
})

t.test('a cold start lasts a second, or a window that is shorter', async t => {
  t.equal(sends('cold-start').length, 40)
  t.equal(sends('cold-start').at(-1)?.at, 975)
  t.equal(
    attack('cold-start')
      .sends({ ...TERMS, window: 400 })
      .at(-1)?.at,
    390
  )
})
