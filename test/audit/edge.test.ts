import t from 'tap'
import { admittedAtOnce, findEdge } from '../../src/audit/edge.js'
import type { Exchange } from '../../src/audit/exchange.js'
import { EPOCH, exchanged } from './kit.js'

const WINDOW = 2000

/** A burst of six, of which three are admitted, and then a request each 40 ms, of which those are that `admits`. */
function drained(admits: (at: number) => boolean): readonly Exchange[] {
  const burst = [200, 200, 200, 429, 429, 429].map(status => exchanged({ at: 0, status }))
  const later = Array.from({ length: 65 }, (_, i) => 40 * (i + 1))
  return [...burst, ...later.map(at => exchanged({ at, status: admits(at) ? 200 : 429 }))]
}

const three = (from: number) => (at: number) => at >= from && at < from + 120

t.test('the edge is where all is back at once, sooner than a window after it was spent', async t => {
  t.equal(findEdge(drained(three(1320)), WINDOW), EPOCH + (1280 + 1321) / 2)
})

t.test('what is back a window later, bit by bit or never, shows no edge', async t => {
  t.equal(findEdge(drained(three(2000)), WINDOW), undefined)
  t.equal(
    findEdge(
      drained(at => at % 680 === 0),
      WINDOW
    ),
    undefined
  )
  t.equal(
    findEdge(
      drained(() => false),
      WINDOW
    ),
    undefined
  )
  t.equal(
    findEdge(
      drained(() => true).filter(({ outcome }) => outcome === 'admitted'),
      WINDOW
    ),
    undefined
  )
  t.equal(findEdge([], WINDOW), undefined)
})

t.test('requests that overtake a late one of the burst count with it', async t => {
  const late = exchanged({ at: 0, took: 50 })
  const refused = exchanged({ at: 0, took: 90, status: 429 })
  const between = exchanged({ at: 40 })
  t.equal(admittedAtOnce([exchanged({ at: 0 }), late, refused, between, exchanged({ at: 80 })]), 3)
  t.equal(admittedAtOnce([refused, exchanged({ at: 80 })]), 0)
})
