import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { quantile } from '../bench/statistics.js'
import { byCall, byRequest, check, flood, place } from '../flood/kit.js'
import type { Flood } from '../flood/kit.js'

/*
 * A million made-up addresses: they wash nobody's counter away, take no memory beyond the bound, and keep nobody waiting.
 * Pauses are compared with those of the same loop without a store, and with the best of a few tries, for other processes
 * make pauses as well.
 */

t.setTimeout(600_000)

const TERMS: Flood = { strangers: Number(process.env['FLOOD_ADDRESSES'] ?? 1_000_000), room: 10_000 }
const TRIES = 3

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
  // The list of turns is ours, not the store's.
  t.ok(grown < here.store.use.bytes + seen.turns.length * 8 + BESIDE, `${grown} bytes`)
})

t.test('a million addresses keep nobody waiting', async t => {
  let least = Infinity
  for (let tries = 0; tries < TRIES && least > PAUSE; tries++) {
    const idle = await place(t, TERMS.room)
    const without = await flood(idle, withoutStore(), TERMS)
    const here = await place(t, TERMS.room)
    const within = await flood(here, byCall(here), TERMS)
    const [base, pause] = [without, within].map(({ turns }) => quantile(turns, 0.999)) as [number, number]
    t.comment(`p99.9 of turns: ${pause.toFixed(1)} ms, without a store ${base.toFixed(1)} ms`)
    least = Math.min(least, pause - base)
  }
  t.ok(least <= PAUSE, `${least} ms`)
})

t.test('requests from many addresses push nobody out', async t => {
  const terms = { strangers: 50_000, room: 2000 }
  const here = await place(t, terms.room)
  check(t, await flood(here, byRequest(here), terms), terms)
})

/** Answers as a store would, as far as a loop can tell. */
function withoutStore(): (address: string) => Promise<boolean> {
  return async address => address.length > 0
}
