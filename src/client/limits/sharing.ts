/** How fast what was seen earlier fades. */
const MEMORY = 0.95

/** Others are there if they spend more than this part of what this client does. */
const NOTICEABLE = 0.5

/**
 * Finds out whether others spend the same quota: what is left then falls by more than this client has spent. It compares
 * only while nothing is on its way, when nobody can be taken for another.
 */
export class Sharing {
  #left = -Infinity
  #spent = 0
  #own = 0
  #others = 0
  #lastRatio = 0

  /** This client spends so many units; fewer than 0: it has not spent them after all. */
  spent(units: number): void {
    this.#spent += units
  }

  /** So many units are left, and all that this client has spent is counted. More than before: some have come back. */
  settled(left: number): void {
    const others = this.#left - this.#spent - left
    if (others >= 0 && this.#spent > 0) {
      this.#own = this.#own * MEMORY + this.#spent
      this.#others = this.#others * MEMORY + others
      this.#lastRatio = others / this.#spent
    }
    this.#left = left
    this.#spent = 0
  }

  /** Units that others spend while this client spends one. */
  get ratio(): number {
    return this.#own === 0 ? 0 : this.#others / this.#own
  }

  /** Whether others are there. */
  get shared(): boolean {
    return this.ratio >= NOTICEABLE
  }

  /**
   * Units that have to be left for `units` to be spent while `inFlight` are on their way: these, and as many as others
   * spend meanwhile. Who has several on their way hears of others late, and leaves twice as much. With `little` patience others
   * who seem to have left are not waited for.
   */
  needed(units: number, inFlight: number, patience: 'usual' | 'little'): number {
    const ratio = patience === 'little' ? Math.min(this.ratio, this.#lastRatio) : this.ratio
    const spent = units + inFlight
    if (inFlight === 0 || ratio < NOTICEABLE) return units + Math.round(spent * ratio)
    return units + spent + Math.round(2 * spent * ratio)
  }
}
