import { setImmediate as turn } from 'node:timers/promises'
import type { Timing } from '../../src/client/index.js'

interface Timer {
  readonly at: number
  readonly order: number
  readonly work: () => void
}

/** A time that jumps to the next thing to happen, and chance that repeats itself: an hour takes no time. */
export class VirtualTime implements Timing {
  static readonly START: number = Date.UTC(2026, 10, 30, 12)
  #now = VirtualTime.START
  #order = 0
  #busy = 0
  #seed: number
  readonly #timers = new Set<Timer>()

  constructor(seed: number = 1) {
    this.#seed = seed
  }

  readonly now = (): number => this.#now

  /** Milliseconds since the start. */
  get passed(): number {
    return this.#now - VirtualTime.START
  }

  readonly after = (ms: number, work: () => void): (() => void) => {
    const timer = { at: this.#now + Math.max(0, ms), order: this.#order++, work }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** mulberry32. */
  readonly random = (): number => {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }

  readonly sleep = (ms: number): Promise<void> => new Promise(resolve => void this.after(ms, resolve))

  /** Something that takes real time, which this one waits for. */
  async whileBusy<T>(work: () => Promise<T>): Promise<T> {
    this.#busy++
    try {
      return await work()
    } finally {
      this.#busy--
    }
  }

  /** Lets time pass until `work` is done. */
  async run<T>(work: Promise<T>): Promise<T> {
    const state = { done: false }
    const finish = (): void => void (state.done = true)
    work.then(finish, finish)
    while (!state.done) {
      await this.#settle()
      if (!state.done) this.#jump()
    }
    return work
  }

  /** Lets so much time pass, and everything happen in it. */
  async pass(ms: number): Promise<void> {
    await this.run(this.sleep(ms))
    await this.#settle()
  }

  async #settle(): Promise<void> {
    do await turn()
    while (this.#busy > 0)
  }

  #jump(): void {
    const [next] = [...this.#timers].toSorted((a, b) => a.at - b.at || a.order - b.order)
    if (next === undefined) throw new Error('nothing will ever happen')
    this.#timers.delete(next)
    this.#now = Math.max(this.#now, next.at)
    next.work()
  }
}
