/** The time and the chance that a guard goes by; tests have their own. */
export interface Timing {
  /** Milliseconds that no clock step disturbs, with fractions. */
  now(): number
  /** Does something later, unless it is cancelled. It keeps no process alive. */
  after(ms: number, work: () => void): () => void
  /** From 0 to less than 1. */
  random(): number
}

export const realTiming: Timing = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms).unref()
    return () => clearTimeout(timer)
  },
  random: Math.random
}
