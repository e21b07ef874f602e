import { wholeSeconds } from './fields.js'

/** The `X-RateLimit-*` fields that came before the draft. */
export interface XRateLimit {
  readonly style: 'x-ratelimit'
  /** `X-RateLimit-Reset` in seconds from now, or in seconds of the epoch: no client can tell which by itself. */
  readonly reset: 'delta' | 'epoch'
}

/** Names of the fields {@link xRateLimit} gives values for, in its order. */
export const LEGACY_NAMES: readonly [limit: string, remaining: string, reset: string] = [
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset'
]

/** The service limit closest to exhaustion, not capped. */
export interface LegacyLimit {
  readonly quota: number
  readonly remaining: number
  /** Milliseconds; 0: none is known. */
  readonly effectiveWindow: number
}

/**
 * Values of the `X-RateLimit-*` fields, each a bare integer. `now` is the wall clock in milliseconds of the epoch, for it
 * is compared with `Date`. A reset is rounded up and lies after the second that `now` is in; `undefined`: leave it out.
 */
export function xRateLimit(
  reset: XRateLimit['reset'],
  { quota, remaining, effectiveWindow }: LegacyLimit,
  now: number
): readonly [limit: string, remaining: string, reset: string | undefined] {
  const resetText = effectiveWindow === 0 ? undefined : String(seconds(reset, effectiveWindow, now))
  return [String(quota), String(remaining), resetText]
}

function seconds(reset: XRateLimit['reset'], effectiveWindow: number, now: number): number {
  if (reset === 'delta') return wholeSeconds(effectiveWindow)
  return Math.max(Math.ceil((now + effectiveWindow) / 1000), Math.floor(now / 1000) + 1)
}
