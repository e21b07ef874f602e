import type { Exchange } from './exchange.js'

/**
 * Where the windows of the server have an edge, in milliseconds of the epoch: the instant at which a quota that was spent
 * at once is there again, if that is clearly sooner than a window after it was spent. Otherwise the server counts from
 * the requests, or gradually, and there is none to be found.
 */
export function findEdge(exchanges: readonly Exchange[], window: number): number | undefined {
  const [first] = exchanges
  if (first === undefined) return undefined
  const refused = exchanges.findIndex(({ outcome }) => outcome === 'refused')
  const back = exchanges.findIndex(
    ({ outcome, send }, i) => outcome === 'admitted' && i > refused && send.at > 0
  )
  if (refused < 0 || back < 0) return undefined
  const { sent } = exchanges[back]!
  const soon = sent - first.sent < 0.93 * window
  return soon && atOnce(exchanges.slice(back), admittedAtOnce(exchanges))
    ? midway(exchanges, back)
    : undefined
}

/** Admitted until the first burst was through: one that is late may be overtaken by requests that were sent after it. */
export function admittedAtOnce(exchanges: readonly Exchange[]): number {
  const admitted = exchanges.filter(({ outcome }) => outcome === 'admitted')
  const through = Math.max(...admitted.filter(({ send }) => send.at === 0).map(({ arrived }) => arrived))
  return admitted.filter(({ sent }) => sent <= through).length
}

/** Whether as many are admitted one after the other, with hardly a refusal between. */
function atOnce(exchanges: readonly Exchange[], capacity: number): boolean {
  const next = exchanges.slice(0, Math.ceil(1.2 * capacity))
  return capacity > 0 && next.filter(({ outcome }) => outcome === 'admitted').length >= capacity
}

/** Between the last request that came too early and the first that did not. */
function midway(exchanges: readonly Exchange[], back: number): number {
  return (exchanges[back - 1]!.sent + exchanges[back]!.arrived) / 2
}
