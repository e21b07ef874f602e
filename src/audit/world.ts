/** A request as it is sent to the target. */
export interface Outgoing {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

/** What came of a request. Times are milliseconds of the epoch. */
export interface Answer {
  /** When its first byte may have left. */
  readonly sent: number
  /** When the head of the answer had arrived, or it was clear that none would. */
  readonly arrived: number
  /** `undefined`: there was no answer. */
  readonly status: number | undefined
  /** Header fields by their names in lower case; the values of several lines joined by `, `. */
  readonly fields: Readonly<Record<string, string>>
  /** The beginning of the body. */
  readonly body: string
  /** Why there was no answer. */
  readonly failure: string | undefined
}

/** Where an audit takes place: real time and a socket, or a clock that stands still and an app in this process. */
export interface World {
  /** Milliseconds of the epoch; never goes back. */
  readonly now: () => number
  /** Ends at that time, or at once if it has passed; rejects when the audit is called off. */
  readonly until: (time: number) => Promise<void>
  /** Gets ready for so many requests at the same time. */
  readonly warm: (count: number) => Promise<void>
  /** Never rejects. */
  readonly send: (request: Outgoing) => Promise<Answer>
  /** Milliseconds after which a burst can be trusted to have been counted, as long as none was seen. */
  readonly precision: number
  /** Milliseconds by which a window of so many may look longer than the server takes it to be. */
  readonly tolerance: (window: number) => number
  readonly close: () => Promise<void>
}
