/** An option is not what it has to be, or a function among the options returned what it must not. */
export class QuotaOptionError extends TypeError {
  override readonly name = 'QuotaOptionError'
  readonly code = 'QUOTA_OPTION'
}

/**
 * A request was not sent, because its quota has no room for it within `maxWait`; or it was refused, and its next try
 * would be later than that.
 */
export class QuotaWaitError extends Error {
  override readonly name = 'QuotaWaitError'
  readonly code = 'QUOTA_WAIT'
  /** When a request like this one can be sent at the earliest, as far as the server has told. */
  readonly retryAt: Date
  /** The policies that have no room for it; empty: the server has named none. */
  readonly policies: readonly string[]

  constructor(retryAt: Date, policies: readonly string[]) {
    const names = policies.map(policy => `"${policy}"`).join(' and ')
    super(
      `${names === '' ? 'The server' : `Quota ${names}`} has no room for this request before ${retryAt.toISOString()}, which is more than maxWait away`
    )
    this.retryAt = retryAt
    this.policies = policies
  }
}

/** A request was not sent, because as many requests as the queue may hold wait for the same server. */
export class QuotaQueueError extends Error {
  override readonly name = 'QuotaQueueError'
  readonly code = 'QUOTA_QUEUE'

  constructor(origin: string, length: number) {
    super(`${length} requests to ${origin} wait already, which is all that queue allows`)
  }
}
