/** Uses that lie within this part of a window are one entry, which is how the default algorithm of the server counts. */
const PARTS = 10

interface Entry {
  readonly first: number
  readonly latest: number
  readonly units: number
}

/**
 * What this client has spent in the last window, to know when it comes back at the earliest. An entry counts in full
 * until one window after its latest unit. Times are milliseconds.
 */
export class OwnUse {
  readonly #window: number
  #entries: readonly Entry[] = []

  constructor(window: number) {
    this.#window = window
  }

  add(units: number, now: number): void {
    if (units === 0) return
    const entries = this.#within(now)
    const last = entries.at(-1)
    const joins = last !== undefined && now - last.first < this.#window / PARTS
    this.#entries = joins
      ? [...entries.slice(0, -1), { first: last.first, latest: now, units: last.units + units }]
      : [...entries, { first: now, latest: now, units }]
  }

  /** Units spent within the window that ends now. */
  units(now: number): number {
    this.#entries = this.#within(now)
    return this.#entries.reduce((sum, { units }) => sum + units, 0)
  }

  /** When so many units will have left the window; `undefined`: fewer than that are in it. */
  freedAt(units: number, now: number): number | undefined {
    let freed = 0
    for (const entry of this.#within(now)) {
      freed += entry.units
      if (freed >= units) return entry.latest + this.#window
    }
    return undefined
  }

  #within(now: number): readonly Entry[] {
    return this.#entries.filter(({ latest }) => latest + this.#window > now)
  }
}
