/** The time and the chance that a client goes by. Tests have their own. */
export interface Timing {
  /** Milliseconds of the epoch, with fractions, that no clock step disturbs. */
  now(): number
  /** Does something in `ms` milliseconds, unless the function it returns is called before. */
  after(ms: number, work: () => void): () => void
  /** From 0 to less than 1. */
  random(): number
}

/** The longest that timers can wait: a longer one fires at once. */
const LONGEST_TIMER = 2 ** 31 - 1

/** A wait longer than a timer can be ends early; whoever waits looks at the time then. */
export const realTiming: Timing = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, Math.min(Math.ceil(ms), LONGEST_TIMER))
    return () => clearTimeout(timer)
  },
  random: Math.random
}
