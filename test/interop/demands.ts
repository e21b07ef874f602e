import type { Client } from './client.js'
import { forms } from './forms.js'
import type { Sight } from './servers.js'

/** What was seen of a client. */
export interface Seen {
  /** One for each form, sent without the others. */
  readonly alone: readonly Sight[]
  /** One for each short wait. */
  readonly short: readonly Sight[]
  readonly long: Sight
  /** As `long`, with `sdkHints`. */
  readonly hinted: Sight
}

/** What a client made of a wait: whether it was back in time to be served, or too soon, or not at all. */
export type Verdict = 'waits' | 'early' | 'stops'

export function verdict({ refusals, end }: Sight): Verdict {
  if (refusals > 1) return 'early'
  return end === 'gave up' ? 'stops' : 'waits'
}

/** What is wrong and not for the client to mend. */
export function unmet(client: Client, { alone, short, long, hinted }: Seen): readonly string[] {
  const demands: string[] = []
  const demand = (what: string, sight: Sight, met: boolean): void => {
    if (!met) demands.push(`${client.name}, ${what}: ${told(sight)}`)
  }
  alone.forEach((sight, i) => {
    const { name } = forms[i]!
    if (client.reads.includes(name)) demand(`only ${name}`, sight, verdict(sight) === 'waits')
  })
  for (const sight of short)
    demand('a short wait', sight, verdict(sight) === 'waits' && sight.end === 'served')
  if (client.longWaits === undefined) demand('a long wait', long, verdict(long) === 'waits')
  if (client.heedsHint === true) demand('told not to retry', hinted, verdict(hinted) === 'stops')
  return demands
}

function told(sight: Sight): string {
  const returns = sight.returns.map(ms => `${(ms / 1000).toFixed(2)} s`).join(', ') || 'never'
  return `${verdict(sight)}, refused ${sight.refusals} times, back after ${returns}`
}
