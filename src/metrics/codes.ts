/** More than Redis, Node.js and the clients have between them. */
const MOST = 50

/** Why something failed, as a label: what comes after the first fifty is `OTHER`, for each one is a series for ever. */
export class Codes {
  readonly #known = new Set<string>()

  of(code: string): string {
    if (this.#known.has(code)) return code
    if (this.#known.size >= MOST) return 'OTHER'
    this.#known.add(code)
    return code
  }
}
