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
}

/** The decision before anything was decided. */
export const UNDECIDED: Decision = Object.freeze({
  outcome: 'none',
  limits: Object.freeze([]),
  exempt: Object.freeze([]),
  shadow: Object.freeze([]),
  source: 'none'
})

/** A refusal because nobody could decide. */
export function undecidable(source: 'closed', exempt: readonly string[]): Decision {
  return { ...UNDECIDED, outcome: 'refused', exempt, source }
}

/** Makes a decision of a store's answer to `charges`. */
export function decide(
  charges: readonly Pick<Charge, 'policy'>[],
  answer: Answer,
  exempt: readonly string[]
): Decision {
  const limits = answer.limits.filter(limit => !limit.policy.shadow)
  return {
    outcome: limits.every(limit => limit.allowed) ? 'allowed' : 'refused',
    limits,
    exempt,
    shadow:
      limits.length === charges.length ? UNDECIDED.shadow : answer.limits.filter(isShadow).map(shadowReport),
    source: answer.source
  }
}

/** The decision of a request after one more stage: `later` joins what earlier stages decided. */
export function join(earlier: Decision, later: Decision): Decision {
  if (earlier.outcome === 'none') return later
  return {
    outcome: later.outcome,
    limits: [...earlier.limits, ...later.limits],
    exempt: [...earlier.exempt, ...later.exempt],
    shadow: [...earlier.shadow, ...later.shadow],
    source: later.outcome === 'allowed' && later.limits.length === 0 ? earlier.source : later.source
  }
}

/** The limits that refused. */
export function refusing(decision: Decision): readonly ServiceLimit[] {
  return decision.limits.filter(limit => !limit.allowed)
}

const isShadow = (limit: ServiceLimit): boolean => limit.policy.shadow

const shadowReport = (limit: ServiceLimit): Decision['shadow'][number] => ({
  policy: limit.policy.name,
  wouldRefuse: !limit.allowed
})
