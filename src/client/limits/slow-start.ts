/**
 * How many requests go out at once to a quota that others may spend too: one, and when its response is there two, then
 * four. Who starts slowly sees who else is there.
 */
export class SlowStart {
  #most = 1
  #sent = 0

  /** Whether responses have to come first. */
  get waits(): boolean {
    return this.#sent >= this.#most
  }

  /** A request is sent. */
  sent(): void {
    this.#sent++
  }

  /** Nothing is on its way any more. */
  settled(): void {
    if (this.waits) this.#most *= 2
    this.#sent = 0
  }

  /** One was refused. */
  refused(): void {
    this.#most = Math.max(1, this.#most / 2)
    this.#sent = 0
  }
}
