/**
 * What an audit found: plain data, of which JSON loses nothing. Points in time are milliseconds since the audit began,
 * lengths of time are milliseconds too; only the window of the promise is in seconds, as on the wire and on the command
 * line.
 */
export interface AuditResult {
  /** The URL that was attacked. Of an app: `app` and the path. */
  readonly target: string
  /** When the audit began, as ISO 8601. */
  readonly startedAt: string
  readonly took: number
  readonly promise: AuditPromise
  /** In the order in which they were run. */
  readonly attacks: readonly AttackResult[]
  /** The worst window of all attacks. */
  readonly worst: WorstWindow
  readonly limiter: Limiter
  readonly fields: FieldsReport
  /** Whether no window is sure to have admitted more than the quota. */
  readonly promiseKept: boolean
  /** What a reader should know about how it was measured, as sentences. */
  readonly notes: readonly string[]
}

/** What the API promises: no more than `quota` units in any `window`. */
export interface AuditPromise {
  readonly quota: number
  /** Seconds. */
  readonly window: number
  /** The name of the policy, if the fields told the promise. */
  readonly policy: string | null
  /** Who said so: `RateLimit-Policy` and its older forms, the options, or the one this and the other that. */
  readonly source: 'fields' | 'options' | 'both'
  /** Policies that were announced as well, and not attacked. */
  readonly others: readonly AnnouncedPolicy[]
}

export interface AnnouncedPolicy {
  readonly policy: string
  readonly unit: string
  /** `null`: not told. */
  readonly quota: number | null
  /** Seconds; `null`: not told. */
  readonly window: number | null
}

/** One attack, and what came of it. */
export interface AttackResult {
  readonly name: string
  /** What it does, as a sentence. */
  readonly about: string
  /** When the first request was sent, and when the last answer arrived. */
  readonly from: number
  readonly to: number
  /** Requests. */
  readonly sent: number
  /** Units; as many as requests, unless a request costs more. */
  readonly admitted: number
  readonly refused: number
  /** Requests without an answer, or with one that tells nothing about a limit. */
  readonly failed: number
  /**
   * Units that some window of the promised length is sure to have admitted, whenever between its sending and the arrival
   * of its answer the server counted each request. A window is half-open: what was counted exactly a window earlier is
   * not in it.
   */
  readonly mostInAnyWindow: number
  /** Units that a window admits at most, if the server counted each request at the worst instant. */
  readonly mostPossible: number
  /** `mostInAnyWindow` over the quota: more than 1 is more than was promised. */
  readonly excess: number
  /** Units admitted in the second after the first request was sent. */
  readonly firstSecond: number
  /** From the first sending to the arrival of the first refusal; `null`: nothing was refused. */
  readonly firstRefusalAfter: number | null
  /** How much later than planned requests were sent: nine of ten by no more than this. */
  readonly lateness: number
  /** Where the most were admitted; `null`: nothing was admitted. */
  readonly worstWindow: Span | null
  readonly requests: readonly RequestRecord[]
}

/** From a point in time to another one. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** One request: an admitted one was counted by the server at some instant from `sent` to `arrived`. */
export interface RequestRecord {
  readonly sent: number
  /** When the head of the answer had arrived, or the request had failed. */
  readonly arrived: number
  /** `null`: no answer. */
  readonly status: number | null
  readonly outcome: Outcome
  /** What makes it differ from the others, such as `HEAD` or `X-Forwarded-For: 203.0.113.7`; `null`: nothing. */
  readonly variant: string | null
  /** Units left as the answer says, the fewest of all policies; `null`: nothing was said. */
  readonly available: number | null
  /** What the answer asks to wait; `null`: nothing. */
  readonly retryAfter: number | null
}

/**
 * - `admitted`: the limiter let it through.
 * - `refused`: 429, 503, or a 403 that says that nothing is left.
 * - `failed`: no answer, an error of the server, an answer from a cache, or, from a way around, another one than usual.
 */
export type Outcome = 'admitted' | 'refused' | 'failed'

/** The window in which the most were admitted, and the requests that prove it. */
export interface WorstWindow {
  /** Of the attack. */
  readonly name: string
  readonly mostInAnyWindow: number
  readonly mostPossible: number
  readonly excess: number
  /** `null`: nothing was admitted. */
  readonly window: Span | null
  /** The admitted requests in it. */
  readonly evidence: readonly RequestRecord[]
}

/** The limiter that the admissions resemble most. */
export interface Limiter {
  /**
   * - `fixed`: counts in windows that start anew.
   * - `counter`: estimates from the counts of (sub-)windows.
   * - `log`: knows when each unit was spent; a sliding window looks the same.
   * - `bucket`: fills up steadily; a leaky bucket looks the same.
   * - `none`: refused nothing.
   * - `unknown`: like none of them, or the attacks that would tell were not run.
   */
  readonly kind: 'fixed' | 'counter' | 'log' | 'bucket' | 'none' | 'unknown'
  /** The kind as words, such as `a fixed window`. */
  readonly title: string
  /** Units it admits at once from idle; `null`: not seen. */
  readonly capacity: number | null
  /** Units a second that come back once that is spent; `null`: not seen. */
  readonly refill: number | null
  /** What it was told by, as a sentence. */
  readonly because: string
}

/** Whether what the fields say is true. */
export interface FieldsReport {
  /** Each field about limits that was seen, with an example from an admitted and from a refused request. */
  readonly seen: readonly SeenField[]
  readonly checks: readonly FieldCheck[]
}

export interface SeenField {
  readonly name: string
  /** `null`: not on any. */
  readonly admitted: string | null
  readonly refused: string | null
}

export interface FieldCheck {
  readonly name: CheckName
  /** What was asked, as a question. */
  readonly question: string
  /**
   * - `true`: so it was, whenever it could be seen.
   * - `false`: at least once it was not.
   * - `careful`: nothing false, but less than could be said, or left to chance.
   * - `unseen`: nothing to judge by.
   */
  readonly answer: 'true' | 'false' | 'careful' | 'unseen'
  /** How often it could be seen. */
  readonly seen: number
  /** How often it was false. */
  readonly wrong: number
  /** What was seen, as a sentence; of something false, the first example. */
  readonly detail: string
}

export type CheckName =
  | 'units-left'
  | 'retry-after'
  | 'retry-after-covers-t'
  | 'policy-stable'
  | 'body-names-policy'
  | 'not-cacheable'
  | 'no-identifiers'
