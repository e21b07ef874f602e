/** What time it is at a server, as its replies have told. */
export class ServerTime {
  /** The server's time less this process', in milliseconds; `undefined`: not known. */
  #offset: number | undefined
  #roundTrip = Infinity

  /** The time `due` on the server's clock, rounded up; 0: not known. */
  at(due: number): number {
    return this.#offset === undefined ? 0 : Math.ceil(due + this.#offset)
  }

  /**
   * Learns the server's time from a reply: it was that in the middle of the round trip. A fast one tells it best; what it
   * told is believed less and less.
   */
  learn(serverTime: number, sent: number, received: number): void {
    const roundTrip = received - sent
    if (roundTrip > this.#roundTrip) {
      this.#roundTrip *= 1.05
      return
    }
    this.#roundTrip = roundTrip
    this.#offset = serverTime - (sent + received) / 2
  }

  /** Learns it anew from a reply that proves what was known wrong: the clock was stepped, or it is another server. */
  relearn(serverTime: number, sent: number, received: number): void {
    this.#roundTrip = Infinity
    this.learn(serverTime, sent, received)
  }
}
