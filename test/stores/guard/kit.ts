import type { Timing } from '../../../src/stores/guard/timing.js'

interface Due {
  readonly at: number
  readonly work: () => void
}

/** A time that moves when a test says so, and a chance that it sets. */
export class TestTiming implements Timing {
  time = 1000
  /** What `random` gives. */
  chance = 0.5
  #due: readonly Due[] = []

  now(): number {
    return this.time
  }

  random(): number {
    return this.chance
  }

  after(ms: number, work: () => void): () => void {
    const due: Due = { at: this.time + ms, work }
    this.#due = [...this.#due, due].sort((a, b) => a.at - b.at)
    return () => {
      this.#due = this.#due.filter(other => other !== due)
    }
  }

  /** When the next work is due; `undefined`: there is none. */
  get next(): number | undefined {
    return this.#due[0]?.at
  }

  /** How much work waits for its time. */
  get waiting(): number {
    return this.#due.length
  }

  /** Lets time pass. What becomes due is done at its time, and so is what that brings about. */
  async pass(ms: number): Promise<void> {
    const end = this.time + ms
    await settled()
    while (this.next !== undefined && this.next <= end) {
      this.time = Math.max(this.time, this.next)
      this.#doDue()
      await settled()
    }
    this.time = end
  }

  #doDue(): void {
    const due = this.#due.filter(({ at }) => at <= this.time)
    this.#due = this.#due.slice(due.length)
    for (const { work } of due) work()
  }
}

/** Resolves when what is under way in this process is done: promises, and what was put off to the end of the turn. */
export const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
