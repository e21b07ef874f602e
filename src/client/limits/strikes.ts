/**
 * Counts the refusals in a row. Requests that were on their way when a refusal came in prove nothing new: if they are
 * refused too, that is the same refusal, and if they are served, they were decided before it.
 */
export class Strikes {
  #count = 0
  #lastSent = -1
  #settled = -1

  /** A request was sent. */
  sent(sequence: number): void {
    this.#lastSent = Math.max(this.#lastSent, sequence)
  }

  /** A request was refused. Returns which refusal in a row that is, 1 or more. */
  refused(sequence: number): number {
    if (sequence > this.#settled) this.#count++
    this.#settled = this.#lastSent
    return this.#count
  }

  /** A request was served. Returns whether it was sent after the last refusal was known. */
  served(sequence: number): boolean {
    if (sequence <= this.#settled) return false
    this.#count = 0
    return true
  }
}
