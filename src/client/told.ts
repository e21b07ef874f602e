/** What a response says about one policy. */
export interface Told {
  readonly policy: string
  /** Partition key as text; `''`: none. */
  readonly partitionKey: string
  /** What is counted; `undefined`: nothing was said. */
  readonly unit: string | undefined
  /** Units per window. */
  readonly quota: number | undefined
  /** Milliseconds. */
  readonly window: number | undefined
  /** Units left; `undefined`: nothing was said. */
  readonly available: number | undefined
  /** Milliseconds in which no more than `available` may be spent; `undefined`: nothing was said. */
  readonly effectiveWindow: number | undefined
}

/** The head of a response, as far as it is read here. */
export interface Head {
  readonly status: number
  /** The value of a field, by its name in lower case; those of several lines joined by `, `. */
  readonly field: (name: string) => string | undefined
}

/** What is told when nothing more is. */
export const nothingTold = (policy: string): Told => ({
  policy,
  partitionKey: '',
  unit: undefined,
  quota: undefined,
  window: undefined,
  available: undefined,
  effectiveWindow: undefined
})
