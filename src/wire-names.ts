/** The names on the wire in draft-ietf-httpapi-ratelimit-headers-11. Another revision is another table. */
export const DRAFT_11 = {
  field: { policy: 'ratelimit-policy', limit: 'ratelimit', retryAfter: 'retry-after' },
  parameter: {
    quota: 'q',
    unit: 'qu',
    window: 'w',
    available: 'r',
    effectiveWindow: 't',
    partitionKey: 'pk'
  },
  /** Names a next revision may use in `RateLimit` (its pull request 166): never written, and read where they are clear. */
  planned: { available: 'a', effectiveWindow: 'w', cost: 'c' },
  /** The quota unit that an absent `qu` means (§3.1.2). */
  defaultUnit: 'requests'
} as const
