import { exchange } from '../../src/audit/exchange.js'
import type { Exchange } from '../../src/audit/exchange.js'
import type { Way } from '../../src/audit/ways.js'
import type { Outgoing } from '../../src/audit/world.js'

export const USUAL: Outgoing = {
  method: 'GET',
  path: '/items',
  headers: { accept: '*/*' },
  body: undefined
}

/** A point in time: whole windows of every length begin here. */
export const EPOCH: number = Date.UTC(2026, 10, 30)

export interface Told {
  /** Milliseconds after the epoch above. */
  readonly at: number
  /** Milliseconds until the answer arrived; default 1. */
  readonly took?: number
  /** Default 200; `undefined`: no answer. */
  readonly status?: number | undefined
  readonly fields?: Readonly<Record<string, string>>
  readonly body?: string
  readonly way?: Way
  readonly headers?: Readonly<Record<string, string>>
  /** When it was planned to be sent, in milliseconds after the beginning of its attack; default `at`. */
  readonly planned?: number
}

/** An exchange as a server would have made it. */
export function exchanged(told: Told): Exchange {
  const { at, took = 1, fields = {}, body = '', way, headers = USUAL.headers, planned = at } = told
  const status = 'status' in told ? told.status : 200
  const answer = {
    sent: EPOCH + at,
    arrived: EPOCH + at + took,
    status,
    fields,
    body,
    failure: status === undefined ? 'reset' : undefined
  }
  const send = { at: planned, ...(way === undefined ? {} : { way }) }
  return exchange({ ...USUAL, headers }, send, EPOCH + planned, answer, 200)
}

/** Fields of the draft for one policy. */
export function fields(r: number, t: number, policy = '"p";q=10;w=2'): Readonly<Record<string, string>> {
  return { 'ratelimit-policy': policy, ratelimit: `"p";r=${r};t=${t}` }
}
