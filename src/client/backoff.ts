/** Milliseconds that a client backs off where no wait is told, by what ran out. */
interface Range {
  readonly shortest: number
  readonly longest: number
}

type Kind = 'requests' | 'tokens' | 'unknown'

const RANGES: Readonly<Record<Kind, Range>> = {
  requests: { shortest: 1000, longest: 8000 },
  tokens: { shortest: 3000, longest: 30_000 },
  unknown: { shortest: 2000, longest: 15_000 }
}

/** The most that jitter adds to a wait, in milliseconds. */
const MOST_JITTER = 10_000

/** How waits are spread. */
export interface Spread {
  /** The most that is added to a wait, as a share of it: 0 to 1. */
  readonly jitter: number
  /** From 0 to less than 1. */
  readonly random: () => number
}

/** The kind of what a unit counts: requests and tokens come back at different speeds. */
export function kindOf(unit: string | undefined): Kind {
  if (unit === 'requests' || unit === 'concurrent-requests') return 'requests'
  return unit !== undefined && /(?:^|-)tokens?$/.test(unit) ? 'tokens' : 'unknown'
}

/**
 * Milliseconds to wait after a refusal, the `strikes`-th in a row: as long as the server asks to, `asked`, and longer if it
 * has refused again after that; without that, longer each time within the range of the unit. Jitter only ever adds.
 */
export function backoff(
  asked: number | undefined,
  unit: string | undefined,
  strikes: number,
  spread: Spread
): number {
  if (asked === undefined) return ownWait(unit, strikes, spread)
  return Math.max(jittered(asked, spread), strikes > 1 ? ownWait(unit, strikes - 1, spread) : 0)
}

function ownWait(unit: string | undefined, strikes: number, spread: Spread): number {
  const { shortest, longest } = RANGES[kindOf(unit)]
  return jittered(Math.min(shortest * 2 ** (strikes - 1), longest / (1 + spread.jitter)), spread)
}

/** A wait of `milliseconds`, spread upwards: clients that were told the same do not come back together. */
export function jittered(milliseconds: number, { jitter, random }: Spread): number {
  return milliseconds + Math.min(MOST_JITTER, milliseconds * jitter) * random()
}
