import { pathToFileURL } from 'node:url'
import { knowing, naive, network, pacing, retrying, run, world } from './pacing-world.js'
import type { Caller, Manner, Outcome, World } from './pacing-world.js'

/*
 * How 500 calls fare against two quotas at once, by client, on a virtual clock. Each row is the middle and the worst of
 * several seeds, in each of which the network takes other times. `node dist/test/client/pacing-table.js` prints it.
 */

/** The second one lets 100 through in 5 s, and the first one the next 100 after 10 s. */
export const TWO = { long: '100/10s', short: '20/1s' } as const

const CALLS = 500
const SEEDS: readonly number[] = [1, 2, 3, 4, 5]

/** What the seeds of a row came to. */
export interface Row {
  readonly clients: number
  readonly manner: Manner
  readonly way: string
  readonly outcomes: readonly Outcome[]
}

/** Ways to call; the first one is the least that is possible. */
const WAYS: Readonly<Record<string, (world: World) => Caller>> = {
  'knows what is left': knowing,
  paced: () => pacing(),
  'tries again after `Retry-After`': () => retrying,
  'tries again after 100 ms': () => naive
}

/** Who does not pace itself is refused thousands of times when all calls are made at once: one seed has to do, or none. */
function seedsOf(manner: Manner, way: string): readonly number[] {
  if (way === 'knows what is left' || way === 'paced') return SEEDS
  return way === 'tries again after 100 ms' && manner === 'at once' ? [] : SEEDS.slice(0, 1)
}

/** So many clients on one key, 5 to 25 ms away from the server. */
export async function rows(clients: number, manner: Manner): Promise<readonly Row[]> {
  const rows: Row[] = []
  for (const [way, caller] of Object.entries(WAYS)) {
    const outcomes: Outcome[] = []
    for (const seed of seedsOf(manner, way)) {
      const one = await world(TWO, network, seed)
      outcomes.push(await run(one, caller(one), clients, CALLS, manner))
    }
    if (outcomes.length > 0) rows.push({ clients, manner, way, outcomes })
  }
  return rows
}

/** The seconds of a row: in the middle, and the most. */
export function seconds({ outcomes }: Row): { readonly middle: number; readonly worst: number } {
  const sorted = outcomes.map(({ seconds }) => seconds).toSorted((one, other) => one - other)
  return { middle: sorted[Math.floor(sorted.length / 2)]!, worst: sorted.at(-1)! }
}

/** The most refusals of a row. */
export function mostRefused({ outcomes }: Row): Outcome {
  return outcomes.reduce((most, outcome) => (outcome.refused > most.refused ? outcome : most))
}

export const TITLES: readonly string[] = ['500 calls', 'Takes', 'at most', 'Refused, at most']

/** A row as it is printed. */
export function cells(row: Row): readonly string[] {
  const { middle, worst } = seconds(row)
  const { refused, refusals } = mostRefused(row)
  const who = row.clients === 1 ? 'one client' : 'four clients on one key'
  const manner = row.manner === 'at once' ? 'all at once' : 'one after the other'
  const share = refused === 0 ? '0' : `${refused} (${refusals.toFixed(2)} %)`
  return [`${who}, ${manner}, ${row.way}`, `${middle.toFixed(1)} s`, `${worst.toFixed(1)} s`, share]
}

async function print(): Promise<void> {
  const line = (cells: readonly string[]): void => console.log(`| ${cells.join(' | ')} |`)
  line(TITLES)
  line(TITLES.map(() => '---'))
  for (const clients of [1, 4]) {
    for (const manner of ['in turn', 'at once'] as const) {
      for (const row of await rows(clients, manner)) line(cells(row))
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await print()
