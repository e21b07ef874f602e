import type { Progress } from './progress.js'
import { roughly } from './words.js'

/** Where a line can be written over: standard error, on a terminal. */
export interface Terminal {
  readonly write: (text: string) => void
}

/** Often enough to count seconds. */
const REPAINTED = 250

/** One line on a terminal that says what an audit is doing, and vanishes when it is done. */
export class ProgressLine {
  readonly #terminal: Terminal
  readonly #timer: NodeJS.Timeout
  #progress: Progress | undefined
  #since = 0

  constructor(terminal: Terminal) {
    this.#terminal = terminal
    this.#timer = setInterval(() => this.#paint(), REPAINTED)
    // A program that has nothing else to do is done.
    this.#timer.unref()
  }

  readonly show: (progress: Progress) => void = progress => {
    this.#progress = progress
    this.#since = performance.now()
    this.#paint()
  }

  end(): void {
    clearInterval(this.#timer)
    if (this.#progress !== undefined) this.#terminal.write(CLEARED)
  }

  #paint(): void {
    if (this.#progress === undefined) return
    const passed = performance.now() - this.#since
    this.#terminal.write(CLEARED + lineOf(this.#progress, passed))
  }
}

/** Back to the start of the line, and everything behind it gone. */
const CLEARED = '\r\u001b[K'

/** What is going on, `passed` milliseconds after it began. */
export function lineOf({ stage, name, index, of, remaining }: Progress, passed: number): string {
  if (stage === 'done') return 'done'
  const left = roughly(Math.max(0, remaining - passed))
  const doing = stage === 'waiting' ? `${name} begins in ${left}` : `${name} asks for ${left} more`
  return `attack ${index + 1} of ${of}: ${doing}`
}
