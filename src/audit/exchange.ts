import { read } from '../client/reading.js'
import type { Reading } from '../client/reading.js'
import type { Send } from './attacks.js'
import type { Outcome } from './result.js'
import type { Answer, Outgoing } from './world.js'

/** A request that was sent, and what its answer says. */
export interface Exchange extends Answer {
  readonly request: Outgoing
  /** What it was planned to be; of the first request, which only asks for the promise, nothing. */
  readonly send: Send
  /** Milliseconds of the epoch at which it was planned to be sent. */
  readonly planned: number
  readonly reading: Reading
  readonly outcome: Outcome
}

/** @param usual the status of an answer that was let through; a way around with another one leads elsewhere. */
export function exchange(
  request: Outgoing,
  send: Send,
  planned: number,
  answer: Answer,
  usual: number | undefined
): Exchange {
  const { status = 0, fields, arrived } = answer
  const reading = read({ status, field: name => fields[name] }, arrived)
  return { ...answer, request, send, planned, reading, outcome: outcome(answer, send, reading, usual) }
}

function outcome({ status }: Answer, { way }: Send, reading: Reading, usual: number | undefined): Outcome {
  if (status === undefined || reading.cached) return 'failed'
  if (reading.refused) return 'refused'
  if (status >= 500) return 'failed'
  return way !== undefined && usual !== undefined && status !== usual ? 'failed' : 'admitted'
}
