/** Whether waiting helps: an outage is over some day, a fault is somebody's mistake. */
export type FailureKind = 'outage' | 'fault'

/** Why a store did not answer. A value, not an error: an outage is nobody's mistake, and no stack explains it. */
export class StoreFailure {
  /** As in {@link StoreChange}. */
  readonly code: string
  readonly kind: FailureKind
  /** Milliseconds until the store is tried again; 0: at once. */
  readonly retryAfter: number
  /** `none`: nothing was done. What was sent and not answered may have been. */
  readonly effect: 'none' | 'unknown'

  constructor(
    code: string,
    kind: FailureKind = 'outage',
    retryAfter: number = 0,
    effect: StoreFailure['effect'] = 'unknown'
  ) {
    this.code = code
    this.kind = kind
    this.retryAfter = retryAfter
    this.effect = effect
  }
}

/** A failure of what was never sent, or was refused before it did anything. */
export const withoutEffect = (code: string, retryAfter: number = 0): StoreFailure =>
  new StoreFailure(code, 'outage', retryAfter, 'none')

/** The words of Redis for a state that passes. Servers before 7 put them in the middle of an error of a script. */
const OUTAGES =
  /\b(READONLY|OOM|LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|MOVED|ASK)\b/

/** Messages of clients that have no code. */
const CONNECTION =
  /Connection is closed|Stream isn't writeable|max retries per request|Cluster (isn't ready|redirections)|slots cache|startup nodes|sentinels are unreachable|Socket timeout|Command timed out/

/** Servers since 7 say no more than ERR when a script does what its user may not. */
const FORBIDDEN = /^ERR The user executing the script can't\b/

/**
 * What a client rejected with, as a code. Never more than that: an error of a client holds its command, and with it the keys
 * it was sent for.
 */
export function diagnose(error: unknown): StoreFailure {
  const { message = '', code } = (error ?? {}) as { readonly message?: string; readonly code?: unknown }
  const [, outage] = OUTAGES.exec(message) ?? []
  if (outage !== undefined) return withoutEffect(outage)
  if (typeof code === 'string') return new StoreFailure(code)
  if (CONNECTION.test(message)) return new StoreFailure('CONNECTION')
  if (FORBIDDEN.test(message)) return new StoreFailure('NOPERM', 'fault')
  const [, word] = /^([A-Z]{2,})\b/.exec(message) ?? []
  return new StoreFailure(word ?? 'UNEXPECTED', 'fault')
}
