/** Rows of a chunk, a power of two: tables grow by one chunk, so that nothing is ever copied. */
export const CHUNK_BITS = 14
export const CHUNK: number = 1 << CHUNK_BITS
export const IN_CHUNK: number = CHUNK - 1

/** A row is three doubles: when it ends, a digest of two integers, the next row of its bucket, and whether it is taken. */
const DOUBLES = 3
const INTEGERS = 6
const LOW = 2
const HIGH = 3
const NEXT = 4
const TAKEN = 5

/** No row: the first one is nobody's own. */
export const NO_ROW = 0

/** The same bytes twice. */
interface Chunk {
  readonly doubles: Float64Array
  readonly integers: Int32Array
  /** Rows that are taken. */
  taken: number
  /** Rows that were ever taken: those behind them need not be looked at. */
  begun: number
  /** A row that was given up, which says which one was before; {@link NO_ROW}: none. */
  vacant: number
}

/** Who has which row: twenty-four bytes for each, and none for those of a chunk in which nobody is any more. */
export class Rows {
  readonly #chunks: (Chunk | undefined)[] = [emptyChunk(0)]
  /** Chunks before this one are full. */
  #room = 0
  #taken = 0

  /** Rows that are taken. */
  get taken(): number {
    return this.#taken
  }

  /** The row after this one, of those that may be taken, chunks in which nobody is left out; {@link NO_ROW} after the last. */
  after(row: number): number {
    const next = row + 1
    let number = next >> CHUNK_BITS
    if ((next & IN_CHUNK) < (this.#chunks[number]?.begun ?? 0) && !this.#isDeserted(number)) return next
    for (number++; number < this.#chunks.length; number++) {
      if (!this.#isDeserted(number)) return number << CHUNK_BITS
    }
    return NO_ROW
  }

  /** Takes a row for a digest, before `next` in its bucket; what is in it has expired as yet. */
  take(low: number, high: number, next: number): number {
    while ((this.#chunks[this.#room]?.taken ?? 0) === CHUNK) this.#room++
    const first = this.#room << CHUNK_BITS
    const chunk = (this.#chunks[this.#room] ??= emptyChunk(first))
    const row = chunk.vacant === NO_ROW ? first + chunk.begun++ : chunk.vacant
    const { doubles, integers } = chunk
    const at = (row & IN_CHUNK) * INTEGERS
    if (row === chunk.vacant) chunk.vacant = integers[at + NEXT]!
    doubles[(row & IN_CHUNK) * DOUBLES] = 0
    integers[at + LOW] = low
    integers[at + HIGH] = high
    integers[at + NEXT] = next
    integers[at + TAKEN] = 1
    chunk.taken++
    this.#taken++
    return row
  }

  /** The first row is never anybody's. */
  #isDeserted(chunk: number): boolean {
    return (this.#chunks[chunk]?.taken ?? 0) <= Number(chunk === 0)
  }

  vacate(row: number): void {
    const number = row >> CHUNK_BITS
    const chunk = this.#chunks[number]!
    const at = (row & IN_CHUNK) * INTEGERS
    chunk.integers[at + NEXT] = chunk.vacant
    chunk.integers[at + TAKEN] = 0
    chunk.vacant = row
    chunk.taken--
    this.#taken--
    if (number < this.#room) this.#room = number
  }

  isTaken(row: number): boolean {
    return this.#chunks[row >> CHUNK_BITS]?.integers[(row & IN_CHUNK) * INTEGERS + TAKEN] === 1
  }

  /** When all that is in a row has expired, in milliseconds. */
  end(row: number): number {
    return this.#chunks[row >> CHUNK_BITS]!.doubles[(row & IN_CHUNK) * DOUBLES]!
  }

  setEnd(row: number, time: number): void {
    this.#chunks[row >> CHUNK_BITS]!.doubles[(row & IN_CHUNK) * DOUBLES] = time
  }

  /** The half of its digest that buckets go by. */
  low(row: number): number {
    return this.#chunks[row >> CHUNK_BITS]!.integers[(row & IN_CHUNK) * INTEGERS + LOW]!
  }

  /** The row behind this one in its bucket. */
  next(row: number): number {
    return this.#chunks[row >> CHUNK_BITS]!.integers[(row & IN_CHUNK) * INTEGERS + NEXT]!
  }

  link(row: number, next: number): void {
    this.#chunks[row >> CHUNK_BITS]!.integers[(row & IN_CHUNK) * INTEGERS + NEXT] = next
  }

  /** The first row with this digest, of those that begin with `row`. */
  search(row: number, low: number, high: number): number {
    for (let at = row; at !== NO_ROW;) {
      const { integers } = this.#chunks[at >> CHUNK_BITS]!
      const first = (at & IN_CHUNK) * INTEGERS
      if (integers[first + LOW] === low && integers[first + HIGH] === high) return at
      at = integers[first + NEXT]!
    }
    return NO_ROW
  }

  /** Gives memory back that nobody is in. */
  trim(): void {
    for (let i = 0; i < this.#chunks.length; i++) {
      if (this.#chunks[i]?.taken === 0) this.#chunks[i] = undefined
    }
    while (this.#chunks.at(-1) === undefined) this.#chunks.pop()
  }
}

/** In the first chunk, the first row is taken. */
function emptyChunk(first: number): Chunk {
  const doubles = new Float64Array(DOUBLES * CHUNK)
  const begun = first === NO_ROW ? 1 : 0
  return { doubles, integers: new Int32Array(doubles.buffer), taken: begun, begun, vacant: NO_ROW }
}
