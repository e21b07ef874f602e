import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import { makePlan } from '../../src/audit/plan.js'
import type { Exchange } from '../../src/audit/exchange.js'
import { probe, runAll } from '../../src/audit/runner.js'
import type { Run } from '../../src/audit/runner.js'
import { virtualWorld } from '../../src/audit/virtual-world.js'
import type { InjectedResponse } from '../../src/audit/virtual-world.js'
import { EPOCH, USUAL } from './kit.js'

/** Runs attacks against a function of the time since the epoch; a quota of 2 per 2 s. */
async function run(
  names: readonly string[],
  answer: (at: number) => { readonly status: number; readonly retryAfter?: number }
): Promise<{ readonly first: Exchange; readonly runs: readonly Run[] }> {
  const clock = { now: EPOCH + 130 }
  const inject = async (): Promise<InjectedResponse> => {
    const { status, retryAfter } = answer(clock.now - EPOCH)
    const headers = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }
    return { statusCode: status, headers, payload: '' }
  }
  const world = virtualWorld({ inject }, clock, undefined)
  const attacks = ATTACKS.filter(({ name }) => names.includes(name))
  const terms = { quota: 2, window: 2000, precision: 1 }
  const plan = makePlan(attacks, terms, USUAL, { maxRequests: 10_000, maxTime: 3_600_000 })
  const first = await probe(world, USUAL)
  const runs = await runAll(world, { plan, usual: USUAL, first, onProgress: () => undefined })
  return { first, runs }
}

const starts = (runs: readonly Run[]): readonly number[] =>
  runs.map(({ exchanges }) => exchanges[0]!.sent - EPOCH)

t.test('each attack begins after idleness, where in a window it has to', async t => {
  const { first, runs } = await run(['drained', 'cold-start'], () => ({ status: 200 }))
  t.equal(first.sent, EPOCH + 130)
  const [drained = 0, cold = 0] = starts(runs)
  t.equal(drained, 2700, 'at 35 % of a window, 1.1 windows after the first request')
  const last = runs[0]!.exchanges.at(-1)!.arrived - EPOCH
  t.equal(cold, last + 2200)
})

t.test('an edge that the first attack finds is where the others begin', async t => {
  let admitted = 0
  // All is back at once at 900 ms of the clock's windows, whoever asks.
  let opened = 0
  const { runs } = await run(['drained', 'edge-burst'], at => {
    const window = Math.floor((at - 900) / 2000)
    if (window !== opened) admitted = 0
    opened = window
    return { status: ++admitted <= 2 ? 200 : 429 }
  })
  const begin = starts(runs)[1]! % 2000
  t.ok(begin > 900 && begin < 970, `${begin}`)
})

t.test('the obedient attack waits as long as it is told, and asks once, twice over', async t => {
  const { runs } = await run(['drained', 'obedient'], () => ({ status: 429, retryAfter: 3 }))
  const [begin = 0] = starts(runs.slice(1))
  const times = runs[1]!.exchanges.map(({ sent }) => sent - EPOCH - begin)
  t.strictSame(times, [0, 0, 0, 3000, 3000, 3000, 3000, 6000])
})

t.test('it does not wait for longer than a window and a second, nor for nothing', async t => {
  const long = await run(['drained', 'obedient'], () => ({ status: 429, retryAfter: 4 }))
  t.equal(long.runs[1]!.exchanges.length, 3)
  t.strictSame(long.runs[1]!.notes, ['was told to wait 4 s, which is longer than the window, and did not'])
  const silent = await run(['drained', 'obedient'], () => ({ status: 429 }))
  t.match(silent.runs[1], { exchanges: { length: 3 }, notes: [] })
  const never = await run(['drained', 'obedient'], () => ({ status: 200 }))
  t.match(never.runs[1], { exchanges: { length: 3 }, notes: [] })
})

t.test('a way around is one only where it ends as the usual way does', async t => {
  let asked = 0
  const { runs } = await run(['drained', 'bypass-slash'], () => ({ status: asked++ === 0 ? 429 : 200 }))
  const around = runs[1]!.exchanges.filter(({ send }) => send.way !== undefined)
  t.strictSame(
    around.map(({ request, outcome }) => [request.path, outcome]),
    [
      ['/items/', 'admitted'],
      ['/items/', 'admitted']
    ],
    'nobody knows how the usual way ends if it was refused'
  )
})
