/** What an audit is doing. */
export interface Progress {
  /** `waiting`: for what was before an attack to be forgotten; `attacking`; or `done`. */
  readonly stage: 'waiting' | 'attacking' | 'done'
  /** Of the attack; of what is done, `''`. */
  readonly name: string
  /** How many attacks were run before. */
  readonly index: number
  readonly of: number
  /** Milliseconds until the next stage, as planned. */
  readonly remaining: number
}
