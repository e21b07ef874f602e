import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import { measured } from '../../src/audit/measures.js'
import { resemblance } from '../../src/audit/resemblance.js'
import type { Limiter } from '../../src/audit/result.js'
import type { Run } from '../../src/audit/runner.js'
import { EPOCH, exchanged } from './kit.js'

const TERMS = { quota: 10, window: 2000, precision: 1 }

/** Whether the n-th request of an attack is admitted that is sent at a time, of which so many were admitted before. */
type Limit = (at: number, admitted: number) => boolean

function run(name: string, limit: Limit): Run {
  const attack = ATTACKS.find(attack => attack.name === name)!
  let admitted = 0
  const exchanges = attack.sends(TERMS).map(({ at }) => {
    const passes = limit(at, admitted)
    if (passes) admitted++
    return exchanged({ at, took: 0, status: passes ? 200 : 429 })
  })
  return { attack, exchanges, notes: [] }
}

function limiter(runs: readonly Run[], cost = 1): Limiter {
  const results = runs.map(run => measured(run, { quota: 10 * cost, window: 2000, cost, began: EPOCH }))
  return resemblance({ window: 2000, cost, runs, results })
}

const ten: Limit = (_at, admitted) => admitted < 10

t.test('a bucket gives back one after the other', async t => {
  const bucket: Limit = (at, admitted) => admitted < 10 + Math.floor(at / 200)
  t.match(limiter([run('drained', bucket)]), {
    kind: 'bucket',
    title: 'a token bucket',
    capacity: 10,
    refill: 5,
    because: 'after 10 at once it admitted one every 200 ms'
  })
  t.match(limiter([run('drained', bucket)], 3), { capacity: 30, refill: 15 }, 'in units')
})

t.test('a window on the clock gives all back sooner than a window later', async t => {
  const clock: Limit = (at, admitted) => admitted < (at < 1300 ? 10 : 20)
  t.match(limiter([run('drained', clock)]), {
    kind: 'fixed',
    title: 'a fixed window on the clock',
    because: '1320 ms after 10 at once it admitted as many again'
  })
})

t.test('a window of the first request is seen around its end', async t => {
  const window: Limit = (at, admitted) => admitted < (at < 2000 ? 10 : 20)
  t.match(limiter([run('drained', window), run('edge-burst', window)]), {
    kind: 'fixed',
    title: 'a fixed window',
    because: 'it admitted 9 at the end of a window and 10 at the start of the next one'
  })
})

t.test('a counter is told by its own attack, and a log by having been through it', async t => {
  const log: Limit = (at, admitted) => admitted < (at < 2000 ? 10 : 20)
  const counter: Limit = (at, admitted) => admitted < (at < 1900 ? 10 : 20)
  const edge = run('edge-burst', (at, admitted) => admitted < (at < 2000 ? 10 : 11))
  t.match(limiter([run('drained', log), edge, run('sub-window-burst', counter)]), { kind: 'counter' })
  t.match(limiter([run('drained', log), edge, run('sub-window-burst', log)]), {
    kind: 'log',
    title: 'a log or sliding window',
    because: '10 at once came back 2000 ms later, and never was more in 2000 ms'
  })
  t.match(limiter([run('drained', log), edge]), {
    kind: 'unknown',
    capacity: 10,
    because: 'it does not admit as any known kind'
  })
})

t.test('what cannot be told is not guessed', async t => {
  t.match(limiter([run('drained', () => true)]), {
    kind: 'none',
    because: 'nothing was refused',
    capacity: null
  })
  t.match(limiter([run('drained', () => false)]), {
    kind: 'unknown',
    because: 'nothing was admitted after idleness'
  })
  t.match(limiter([run('shifted-50', ten)]), { kind: 'unknown', because: 'the attack drained was not run' })
  t.match(limiter([run('drained', ten), run('sub-window-burst', ten)]), { kind: 'unknown', capacity: 10 })
})
