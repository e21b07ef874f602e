import type { Attack, Send, Terms } from './attacks.js'
import { CannotMeasureError } from './errors.js'
import type { AuditPromise } from './result.js'
import type { Outgoing } from './world.js'

/** An attack that will be run. */
export interface PlannedAttack {
  readonly attack: Attack
  readonly sends: readonly Send[]
  /** Requests, at most. */
  readonly requests: number
  /** Milliseconds that it takes at most, the idleness before it included. */
  readonly time: number
  /** Milliseconds from its first request to its last one, without waits that the server asks for. */
  readonly watches: number
}

/** What an audit will do. */
export interface Plan {
  readonly terms: Terms
  readonly attacks: readonly PlannedAttack[]
  /** Names of attacks that were left out, and why. */
  readonly leftOut: readonly { readonly name: string; readonly why: string }[]
  /** Of all attacks, and the first request that asked for the promise. */
  readonly requests: number
  readonly time: number
}

/** A plan, with the promise it is made for. */
export interface AuditPlan {
  readonly target: string
  readonly promise: AuditPromise
  readonly plan: Plan
}

export interface Bounds {
  readonly maxRequests: number
  /** Milliseconds. */
  readonly maxTime: number
}

/**
 * The attacks that fit into the bounds, in their order.
 *
 * @param usual the request that attacks send.
 * @throws {CannotMeasureError} when none of them watches longer than a window.
 */
export function makePlan(attacks: readonly Attack[], terms: Terms, usual: Outgoing, bounds: Bounds): Plan {
  const fitting: PlannedAttack[] = []
  const leftOut: { name: string; why: string }[] = []
  let requests = 1
  let time = 0
  for (const planned of attacks.map(attack => planAttack(attack, terms))) {
    const why = noWay(planned, usual) ?? excess(requests + planned.requests, time + planned.time, bounds)
    if (why !== undefined) {
      leftOut.push({ name: planned.attack.name, why })
      continue
    }
    fitting.push(planned)
    requests += planned.requests
    time += planned.time
  }
  longEnough(fitting, leftOut, terms)
  return { terms, attacks: fitting, leftOut, requests, time }
}

function planAttack(attack: Attack, terms: Terms): PlannedAttack {
  const { idle, start, rounds = 0 } = attack
  const sends = attack.sends(terms)
  const watches = sends.at(-1)!.at
  const untilStart = idle * terms.window + (start === undefined ? 0 : terms.window)
  return {
    attack,
    sends,
    requests: Math.max(1, rounds) * sends.length + rounds,
    time: untilStart + watches + rounds * longestWait(terms),
    watches
  }
}

/** Milliseconds that a server can ask to wait; when it asks for more, it is not waited for. */
export const longestWait = ({ window }: Pick<Terms, 'window'>): number => window + 1000

function noWay({ sends }: PlannedAttack, usual: Outgoing): string | undefined {
  const missing = sends.some(({ way }) => way !== undefined && way.request(usual, 0) === undefined)
  return missing ? `${usual.method} ${usual.path} cannot be written so` : undefined
}

function excess(requests: number, time: number, { maxRequests, maxTime }: Bounds): string | undefined {
  if (requests > maxRequests) return `it would be more than ${maxRequests} requests in all (--max-requests)`
  if (time > maxTime) return `it would take more than ${maxTime / 1000} s in all (--max-time)`
  return undefined
}

function longEnough(fitting: readonly PlannedAttack[], leftOut: Plan['leftOut'], { window }: Terms): void {
  if (fitting.some(({ watches }) => watches > window)) return
  const reasons = leftOut.map(({ name, why }) => `${name}: ${why}`)
  throw new CannotMeasureError(
    [`no attack watches longer than one window of ${window / 1000} s`, ...reasons].join('; ')
  )
}
