import { NEVER, UNKNOWN } from './algorithm.js'
import type { Answer, Charge, ServiceLimit, Source } from './store.js'

/** What was decided about one request, or one call of `app.quota`. */
export interface Decision {
  /** `none`: nothing was decided: before the hook, with `quota: false`, for a preflight. */
  readonly outcome: 'allowed' | 'refused' | 'none'
  /** The limits of the policies that took part, in configured order. */
  readonly limits: readonly ServiceLimit[]
  /** Names of the policies this request was exempt from. */
  readonly exempt: readonly string[]
  /** Policies in shadow mode, and whether each would have refused. */
  readonly shadow: readonly { readonly policy: string; readonly wouldRefuse: boolean }[]
  /** Who decided. */
  readonly source: Source
  /** Of a refusal because nobody could decide (`closed`): milliseconds until that is tried again. */
  readonly retryAfter?: number
}

/** The decision before anything was decided. */
export const UNDECIDED: Decision = Object.freeze({
  outcome: 'none',
  limits: Object.freeze([]),
  exempt: Object.freeze([]),
  shadow: Object.freeze([]),
  source: 'none'
})

/** A refusal because nobody could decide; `retryAfter` in milliseconds. */
export function undecidable(source: 'closed', exempt: readonly string[], retryAfter: number = 0): Decision {
  return { ...UNDECIDED, outcome: 'refused', exempt, source, retryAfter }
}

/** Makes a decision of a store's answer to `charges`. */
export function decide(
  charges: readonly Pick<Charge, 'policy'>[],
  answer: Answer,
  exempt: readonly string[]
): Decision {
  if (answer.source === 'closed') return undecidable('closed', exempt, answer.retryAfter)
  const limits = enforced(answer.limits)
  const allowed = allAllowed(limits)
  return {
    outcome: allowed ? 'allowed' : 'refused',
    limits: allowed ? limits : limits.map(hopeful),
    exempt,
    shadow:
      limits.length === charges.length ? UNDECIDED.shadow : answer.limits.filter(isShadow).map(shadowReport),
    source: answer.source
  }
}

function enforced(limits: readonly ServiceLimit[]): readonly ServiceLimit[] {
  for (const { policy } of limits) if (policy.shadow) return limits.filter(limit => !limit.policy.shadow)
  return limits
}

function allAllowed(limits: readonly ServiceLimit[]): boolean {
  for (const { allowed } of limits) if (!allowed) return false
  return true
}

/** The decision of a request after one more stage: `later` joins what earlier stages decided. */
export function join(earlier: Decision, later: Decision): Decision {
  if (earlier.outcome === 'none') return later
  return {
    outcome: later.outcome,
    limits: [...earlier.limits, ...later.limits],
    exempt: [...earlier.exempt, ...later.exempt],
    shadow: [...earlier.shadow, ...later.shadow],
    source: later.outcome === 'refused' ? later.source : lessCertain(earlier.source, later.source),
    ...(later.retryAfter === undefined ? {} : { retryAfter: later.retryAfter })
  }
}

/** A refusal for ever is none if it is the reduced quota that cannot hold the units: that ends. */
function hopeful(limit: ServiceLimit): ServiceLimit {
  const { policy, retryAfter, units } = limit
  if (retryAfter !== NEVER || policy.reduction === undefined || units > policy.reduction.capacity)
    return limit
  return { ...limit, retryAfter: UNKNOWN }
}

/** Whether a decision was made as it is while nothing fails: only then there are true numbers to tell. */
export const isCertain = ({ source }: Decision): boolean => DOUBTS[source] < DOUBTS.open

const DOUBTS: Readonly<Record<Source, number>> = {
  none: 0,
  memory: 1,
  redis: 1,
  open: 2,
  local: 3,
  closed: 4
}

/** A request that one stage could not decide was not decided for certain, whatever the others did. */
const lessCertain = (one: Source, other: Source): Source => (DOUBTS[other] >= DOUBTS[one] ? other : one)

/** The limits that refused. */
export function refusing(decision: Decision): readonly ServiceLimit[] {
  return decision.limits.filter(limit => !limit.allowed)
}

const isShadow = (limit: ServiceLimit): boolean => limit.policy.shadow

const shadowReport = (limit: ServiceLimit): Decision['shadow'][number] => ({
  policy: limit.policy.name,
  wouldRefuse: !limit.allowed
})
