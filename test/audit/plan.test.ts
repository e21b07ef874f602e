import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import { longestWait, makePlan } from '../../src/audit/plan.js'
import type { Plan } from '../../src/audit/plan.js'
import type { Outgoing } from '../../src/audit/world.js'
import { USUAL } from './kit.js'

const TERMS = { quota: 10, window: 2000, precision: 20 }
const BOUNDS = { maxRequests: 50_000, maxTime: 3_600_000 }

interface Wishes {
  readonly names: readonly string[]
  readonly bounds?: Partial<typeof BOUNDS>
  readonly usual?: Outgoing
}

function plan({ names, bounds = {}, usual = USUAL }: Wishes): Plan {
  const attacks = ATTACKS.filter(({ name }) => names.includes(name))
  return makePlan(attacks, TERMS, usual, { ...BOUNDS, ...bounds })
}

t.test('a plan adds up requests and time, idleness and waits included', async t => {
  const { attacks, requests, time } = plan({ names: ['drained', 'obedient'] })
  const [drained, obedient] = attacks
  t.equal(drained?.requests, drained?.sends.length)
  t.ok(drained!.watches > 2000)
  t.equal(drained?.time, 1.1 * 2000 + 2000 + drained!.watches)
  t.equal(obedient?.requests, 2 * 11 + 2)
  t.equal(obedient?.time, 1.1 * 2000 + 2 * longestWait(TERMS))
  t.equal(requests, 1 + drained!.requests + obedient!.requests)
  t.equal(time, drained!.time + obedient!.time)
})

t.test('attacks that do not fit are left out, and said why', async t => {
  const { attacks, leftOut } = plan({
    names: ['drained', 'edge-burst', 'parallel'],
    bounds: { maxRequests: 120 }
  })
  t.strictSame(
    attacks.map(({ attack }) => attack.name),
    ['drained', 'parallel']
  )
  t.strictSame(leftOut, [
    { name: 'edge-burst', why: 'it would be more than 120 requests in all (--max-requests)' }
  ])
  const short = plan({ names: ['drained', 'edge-burst'], bounds: { maxTime: 8000 } })
  t.strictSame(short.leftOut, [
    { name: 'edge-burst', why: 'it would take more than 8 s in all (--max-time)' }
  ])
})

t.test('a way around that this target has not is left out', async t => {
  const { leftOut } = plan({
    names: ['drained', 'bypass-slash', 'bypass-case'],
    usual: { ...USUAL, path: '/' }
  })
  t.strictSame(leftOut, [
    { name: 'bypass-slash', why: 'GET / cannot be written so' },
    { name: 'bypass-case', why: 'GET / cannot be written so' }
  ])
})

t.test('a plan that watches no longer than a window cannot measure', async t => {
  t.throws(() => plan({ names: ['parallel', 'cold-start'] }), {
    code: 'CANNOT_MEASURE',
    message: 'no attack watches longer than one window of 2 s'
  })
  t.throws(() => plan({ names: ['drained', 'parallel'], bounds: { maxTime: 3000 } }), {
    message:
      'no attack watches longer than one window of 2 s; drained: it would take more than 3 s in all (--max-time)'
  })
})
