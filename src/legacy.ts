import { wholeSeconds } from './fields.js'

/** The `X-RateLimit-*` fields that came before the draft. */
export interface XRateLimit {
  readonly style: 'x-ratelimit'
  /** `X-RateLimit-Reset` in seconds from now, or in seconds of the epoch: no client can tell which by itself. */
  readonly reset: 'delta' | 'epoch'
}

/**
 * Older forms of the fields: `X-RateLimit-*`; those of draft revisions 6 and 7; or those that the SDKs of language models
 * know, `X-RateLimit-*` with the quota unit at the end.
 */
export type Legacy = XRateLimit | 'draft-6' | 'draft-7' | 'llm'

/** A service limit as it is, not as it may be announced. */
export interface LegacyLimit {
  readonly quota: number
  readonly unit: string
  readonly remaining: number
  /** Milliseconds; 0: none is known. */
  readonly effectiveWindow: number
}

/** A policy with a window in whole seconds; 0: it has none. */
export interface LegacyPolicy {
  readonly quota: number
  readonly window: number
}

/** What an older form is made of. */
export interface LegacyTerms {
  /** The service limits, the closest to exhaustion first. */
  readonly limits: readonly LegacyLimit[]
  /** The policies of the route, in their order. */
  readonly policies: readonly LegacyPolicy[]
  /** The wall clock in milliseconds of the epoch, for it is compared with `Date`. */
  readonly now: number
  /** Whether the fields of the present draft are sent beside: then its `RateLimit-Policy` is. */
  readonly beside: boolean
}

export type LegacyFields = readonly (readonly [name: string, value: string])[]

/** The fields of an older form; none without a service limit that it can tell. */
export function legacyFields(legacy: Legacy, terms: LegacyTerms): LegacyFields {
  if (legacy === 'llm') return terms.limits.filter(isFirstOfUnit).flatMap(ofUnit)
  if (typeof legacy === 'object') {
    return terms.limits.slice(0, 1).flatMap(closest => xRateLimit(legacy.reset, closest, terms.now))
  }
  // In these revisions a limit has to have a reset.
  const closest = terms.limits.find(({ effectiveWindow }) => effectiveWindow > 0)
  if (closest === undefined) return []
  return legacy === 'draft-6' ? draft6(closest, terms) : draft7(closest, terms)
}

/** A reset is rounded up and, of the epoch, lies after the second that `now` is in. */
function xRateLimit(reset: XRateLimit['reset'], limit: LegacyLimit, now: number): LegacyFields {
  const { quota, remaining, effectiveWindow } = limit
  const seconds =
    reset === 'delta'
      ? wholeSeconds(effectiveWindow)
      : Math.max(Math.ceil((now + effectiveWindow) / 1000), Math.floor(now / 1000) + 1)
  return [
    ['x-ratelimit-limit', String(quota)],
    ['x-ratelimit-remaining', String(remaining)],
    ...known(effectiveWindow, 'x-ratelimit-reset', String(seconds))
  ]
}

/** Revision 6: three Items and, as it differs from the present one's, a policy field only where that is not sent. */
function draft6({ quota, remaining, effectiveWindow }: LegacyLimit, terms: LegacyTerms): LegacyFields {
  return [
    ['ratelimit-limit', String(quota)],
    ['ratelimit-remaining', String(remaining)],
    ['ratelimit-reset', String(wholeSeconds(effectiveWindow))],
    ...(terms.beside ? [] : integerPolicies(terms.policies))
  ]
}

/** Revision 7: one Dictionary under the name that is a List now, so it cannot stand beside that. */
function draft7({ quota, remaining, effectiveWindow }: LegacyLimit, terms: LegacyTerms): LegacyFields {
  const limit = `limit=${quota}, remaining=${remaining}, reset=${wholeSeconds(effectiveWindow)}`
  return [['ratelimit', limit], ...integerPolicies(terms.policies)]
}

/** Until revision 7 a policy was its quota and its window, which it had to have, and two could not have the same quota. */
function integerPolicies(policies: readonly LegacyPolicy[]): LegacyFields {
  const windowed = policies.filter(({ window }) => window > 0)
  const listed = windowed.filter(({ quota }, i) => windowed.findIndex(other => other.quota === quota) === i)
  const text = listed.map(({ quota, window }) => `${quota};w=${window}`).join(', ')
  return text === '' ? [] : [['ratelimit-policy', text]]
}

function ofUnit({ unit, quota, remaining, effectiveWindow }: LegacyLimit): LegacyFields {
  return [
    [`x-ratelimit-limit-${unit}`, String(quota)],
    [`x-ratelimit-remaining-${unit}`, String(remaining)],
    ...known(effectiveWindow, `x-ratelimit-reset-${unit}`, goDuration(effectiveWindow))
  ]
}

/** A field that is left out where nobody knows its value. */
const known = (effectiveWindow: number, name: string, value: string): LegacyFields =>
  effectiveWindow === 0 ? [] : [[name, value]]

const isFirstOfUnit = ({ unit }: LegacyLimit, index: number, limits: readonly LegacyLimit[]): boolean =>
  limits.findIndex(other => other.unit === unit) === index

/** Milliseconds as Go prints a duration: `12ms`, `1.5s`, `6m0s`, `1h0m0s`. */
export function goDuration(ms: number): string {
  if (ms < 1000) return `${ms}ms`
  const minutes = Math.floor(ms / 60_000)
  const seconds = `${(ms - minutes * 60_000) / 1000}s`
  if (minutes === 0) return seconds
  const hours = Math.floor(minutes / 60)
  return hours === 0 ? `${minutes}m${seconds}` : `${hours}h${minutes - hours * 60}m${seconds}`
}
