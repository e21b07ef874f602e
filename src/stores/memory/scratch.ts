/** Longer lists are not kept. */
const LONGEST = 96

/** Lists that states are read into, one of each length: what is read is soon forgotten, and need not be collected. */
export class Scratch {
  readonly #lists: number[][] = []

  /** A list of a length, the same each time if it is not very long; what is in it means nothing. */
  of(length: number): number[] {
    if (length > LONGEST) return listOf(length)
    return (this.#lists[length] ??= listOf(length))
  }
}

/** A list that grew of fractions has no holes and room for any number: it is never made anew, and as quick to read as can be. */
function listOf(length: number): number[] {
  const list: number[] = []
  while (list.length < length) list.push(0.5)
  return list
}
