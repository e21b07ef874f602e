/** Longer lists are not kept. */
const LONGEST = 96

/** Lists that states are read into, one of each length: what is read is soon forgotten, and need not be collected. */
export class Scratch {
  readonly #lists: number[][] = []

  /** A list of a length, the same each time if it is not very long; what is in it means nothing. */
  of(length: number): number[] {
    if (length > LONGEST) return new Array<number>(length)
    return (this.#lists[length] ??= new Array<number>(length).fill(ROOM_FOR_FRACTIONS))
  }
}

/** A list that was made of fractions has room for any number, and is never made anew for one. */
const ROOM_FOR_FRACTIONS = 0.5
