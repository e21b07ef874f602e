import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { pauses } from '../bench/pauses/stage.js'
import { inProcesses } from '../bench/processes.js'
import { values } from '../bench/row.js'
import type { Effort } from '../bench/stage.js'
import { byCall, byRequest, check, flood, place } from '../flood/kit.js'
import type { Flood } from '../flood/kit.js'

/*
 * A million made-up addresses: they wash nobody's counter away, take no memory beyond the bound, and keep nobody waiting.
 * Pauses are compared with those of a process without a limiter that has the same to do by turns, with the best of a few tries,
 * for other processes make pauses as well.
 */

t.setTimeout(600_000)

const TERMS: Flood = { strangers: Number(process.env['FLOOD_ADDRESSES'] ?? 1_000_000), room: 10_000 }
const TRIES = 3

/** All there is to do; rounds are for other measures. */
const EFFORT: Effort = {
  rounds: 0,
  warmUp: 0,
  slice: 0,
  batch: 0,
  watch: 0,
  partitions: TERMS.strangers,
  redis: undefined
}

/** Milliseconds of a pause, and bytes beyond those of the store. */
const PAUSE = 10
const BESIDE = 16 * 2 ** 20

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

t.test('a million addresses push nobody out', async t => {
  const here = await place(t, TERMS.room)
  collect()
  const before = process.memoryUsage().heapUsed
  const seen = await flood(here, byCall(here), TERMS)
  check(t, seen, TERMS)
  collect()
  const grown = process.memoryUsage().heapUsed - before
  t.comment(`${seen.partitions} partitions, ${seen.bytes} bytes as estimated, heap grown by ${grown}`)
  t.ok(grown < here.store.use.bytes + BESIDE, `${grown} bytes`)
})

t.test('a million addresses keep nobody waiting', async t => {
  const root = new URL('../../../', import.meta.url).href
  const subjects = ['no limiter', 'ours, flooded'].map(variant => ({ name: variant, variant, root }))
  let least = Infinity
  for (let tries = 0; tries < TRIES && least > PAUSE; tries++) {
    const samples = await pauses.measure(subjects, EFFORT, inProcesses)
    const [base, pause] = subjects.map(({ name }) => values(samples, name, 'p999')[0]!) as [number, number]
    t.comment(`p99.9 of pauses: ${pause.toFixed(1)} ms, without a limiter ${base.toFixed(1)} ms`)
    least = Math.min(least, pause - base)
  }
  t.ok(least <= PAUSE, `${least} ms`)
})

t.test('requests from many addresses push nobody out', async t => {
  const terms = { strangers: 50_000, room: 2000 }
  const here = await place(t, terms.room)
  check(t, await flood(here, byRequest(here), terms), terms)
})
