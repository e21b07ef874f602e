import type { Exchange } from './exchange.js'
import type { AttackResult, RequestRecord } from './result.js'
import type { Run } from './runner.js'
import { mostCertain, mostPossible, worstCrowd } from './windows.js'

/** How to measure. */
export interface Measure {
  /** Units. */
  readonly quota: number
  /** Milliseconds: the promised window, less what the clocks may differ by. */
  readonly window: number
  /** Units that a request costs. */
  readonly cost: number
  /** When the audit began, in milliseconds of the epoch. */
  readonly began: number
}

/** The measures of one attack, from the times of its requests alone. */
export function measured({ attack, exchanges }: Run, { quota, window, cost, began }: Measure): AttackResult {
  const admitted = exchanges.filter(({ outcome }) => outcome === 'admitted')
  const refused = exchanges.filter(({ outcome }) => outcome === 'refused')
  const from = exchanges[0]!.sent
  const most = mostCertain(admitted, window) * cost
  const crowd = worstCrowd(admitted, window)
  return {
    name: attack.name,
    about: attack.about,
    from: since(began, from),
    to: since(began, Math.max(...exchanges.map(({ arrived }) => arrived))),
    sent: exchanges.length,
    admitted: admitted.length * cost,
    refused: refused.length,
    failed: exchanges.length - admitted.length - refused.length,
    mostInAnyWindow: most,
    mostPossible: mostPossible(admitted, window) * cost,
    excess: most / quota,
    firstSecond: admitted.filter(({ arrived }) => arrived < from + 1000).length * cost,
    firstRefusalAfter:
      refused.length === 0 ? null : since(from, Math.min(...refused.map(({ arrived }) => arrived))),
    lateness: lateness(exchanges),
    worstWindow: crowd === undefined ? null : { from: since(began, crowd.from), to: since(began, crowd.to) },
    requests: exchanges.map(exchange => record(exchange, began))
  }
}

/** How much later than planned nine of ten requests were sent at most, in milliseconds. */
function lateness(exchanges: readonly Exchange[]): number {
  const late = exchanges.map(({ sent, planned }) => Math.max(0, sent - planned)).sort((a, b) => a - b)
  return since(0, late[Math.ceil(0.9 * late.length) - 1]!)
}

function record({ sent, arrived, status, outcome, send, reading }: Exchange, began: number): RequestRecord {
  const available = reading.told.flatMap(told => told.available ?? [])
  return {
    sent: since(began, sent),
    arrived: since(began, arrived),
    status: status ?? null,
    outcome,
    variant: send.way?.name ?? null,
    available: available.length === 0 ? null : Math.min(...available),
    retryAfter: reading.retryAfter ?? null
  }
}

/** In milliseconds, to the microsecond. */
export const since = (began: number, time: number): number => Math.round((time - began) * 1000) / 1000
