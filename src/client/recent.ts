/** What was set last, up to a number of entries: of more, those set longest ago are forgotten. */
export class Recent<V> {
  readonly #most: number
  readonly #entries = new Map<string, V>()

  constructor(most: number) {
    this.#most = most
  }

  get(name: string): V | undefined {
    return this.#entries.get(name)
  }

  values(): Iterable<V> {
    return this.#entries.values()
  }

  set(name: string, value: V): void {
    this.#entries.delete(name)
    this.#entries.set(name, value)
    if (this.#entries.size > this.#most) this.#entries.delete(this.#entries.keys().next().value!)
  }
}
