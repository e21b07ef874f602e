/** How fast what was seen earlier fades. */
const MEMORY = 0.8

/** Others spend noticeably if they spend more than this part of what this client does. */
const NOTICEABLE = 0.5

/** Finds out whether others spend the same quota: what is left then falls by more than this client has spent. */
export class Sharing {
  #others = 0
  #own = 0

  /** A response tells of `others` units that this client cannot account for; `own` were spent with it. */
  observe(others: number, own: number): void {
    this.#others = this.#others * MEMORY + others
    this.#own = this.#own * MEMORY + own
  }

  /** Units that others spend while this client spends one; 0: none worth mentioning. */
  get ratio(): number {
    return this.#own > 0 && this.#others > this.#own * NOTICEABLE ? this.#others / this.#own : 0
  }
}
