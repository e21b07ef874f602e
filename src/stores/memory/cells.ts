import { EMPTY } from '../../algorithm.js'
import type { State } from '../../algorithm.js'
import { Slots, fits, sizeFor } from './slots.js'

/** Rows of a chunk, a power of two: tables grow by one chunk, so that nothing is ever copied. */
const CHUNK = 1024
/** A row is the number of its chunk and, in the low bits, its place there. */
const CHUNK_BITS = Math.log2(CHUNK)
const IN_CHUNK = CHUNK - 1

/** How a cell holds its state: nothing, one or two numbers as they are, three that {@link isEntry}, or where it is kept. */
const NONE = 0
const PACKED = 3
const ELSEWHERE = 4

/** Integers of a cell that say where: the size of the slot, the slot, and the length of the state. */
const SIZE = 0
const SLOT = 1
const LENGTH = 2

/** Two doubles for each row, and the same bytes as integers. */
interface Chunk {
  readonly doubles: Float64Array
  readonly integers: Uint32Array
  readonly kinds: Uint8Array
  readonly shares: Uint8Array
}

/** A share of a quota as it is kept, in a byte that halves exactly. */
const WHOLE = 254

/**
 * The states of one policy, by row. What somebody has who came once or twice takes eighteen bytes, for those are the many;
 * a longer state has a slot of its own.
 */
export class Cells {
  readonly #chunks: Chunk[] = []
  readonly #slots = new Slots()

  /** Numbers that are held, or have room, in slots. */
  get numbers(): number {
    return this.#slots.numbers
  }

  /** A copy of the state of a row. */
  read(row: number): State {
    const chunk = this.#chunks[row >> CHUNK_BITS]
    if (chunk === undefined) return EMPTY
    const cell = row & IN_CHUNK
    const kind = chunk.kinds[cell]!
    if (kind === NONE) return EMPTY
    const { doubles, integers } = chunk
    if (kind === ELSEWHERE) {
      const at = 4 * cell
      return this.#slots.read(integers[at + SIZE]!, integers[at + SLOT]!, integers[at + LENGTH]!)
    }
    const first = doubles[2 * cell]!
    if (kind === PACKED) return [integers[4 * cell + 2]!, first, first + integers[4 * cell + 3]!]
    return kind === 1 ? [first] : [first, doubles[2 * cell + 1]!]
  }

  /** `share`: what is left of the quota, from 0 to 1. */
  write(row: number, state: State, share: number): void {
    const chunk = (this.#chunks[row >> CHUNK_BITS] ??= emptyChunk())
    const cell = row & IN_CHUNK
    const { length } = state
    const kind = length < 3 ? length : length === 3 && isEntry(state) ? PACKED : ELSEWHERE
    chunk.shares[cell] = share * WHOLE
    if (kind === ELSEWHERE) return this.#writeElsewhere(chunk, cell, state)
    if (chunk.kinds[cell] === ELSEWHERE) this.#vacate(chunk, cell)
    chunk.kinds[cell] = kind
    if (kind === NONE) return
    if (kind === PACKED) {
      chunk.doubles[2 * cell] = state[1]!
      chunk.integers[4 * cell + 2] = state[0]!
      chunk.integers[4 * cell + 3] = state[2]! - state[1]!
      return
    }
    chunk.doubles[2 * cell] = state[0]!
    if (length === 2) chunk.doubles[2 * cell + 1] = state[1]!
  }

  isEmpty(row: number): boolean {
    return (this.#chunks[row >> CHUNK_BITS]?.kinds[row & IN_CHUNK] ?? NONE) === NONE
  }

  /** What was left when the state was written, from 0 to 1; 1 of no state. */
  share(row: number): number {
    const chunk = this.#chunks[row >> CHUNK_BITS]
    const cell = row & IN_CHUNK
    return chunk === undefined || chunk.kinds[cell] === NONE ? 1 : chunk.shares[cell]! / WHOLE
  }

  #writeElsewhere(chunk: Chunk, cell: number, state: State): void {
    const { integers, kinds } = chunk
    const at = 4 * cell
    if (kinds[cell] !== ELSEWHERE || !fits(integers[at + SIZE]!, state.length)) {
      if (kinds[cell] === ELSEWHERE) this.#vacate(chunk, cell)
      const size = sizeFor(state.length)
      integers[at + SLOT] = this.#slots.take(size)
      integers[at + SIZE] = size
      kinds[cell] = ELSEWHERE
    }
    integers[at + LENGTH] = state.length
    this.#slots.write(integers[at + SIZE]!, integers[at + SLOT]!, state)
  }

  #vacate({ integers }: Chunk, cell: number): void {
    this.#slots.vacate(integers[4 * cell + SIZE]!, integers[4 * cell + SLOT]!)
  }
}

/** Whether three numbers are a count, a time, and one not much later, as is the one entry of a sliding window. */
function isEntry(state: State): boolean {
  const between = state[2]! - state[1]!
  return isUint32(state[0]!) && isUint32(between)
}

const isUint32 = (number: number): boolean => number >>> 0 === number

function emptyChunk(): Chunk {
  const doubles = new Float64Array(2 * CHUNK)
  return {
    doubles,
    integers: new Uint32Array(doubles.buffer),
    kinds: new Uint8Array(CHUNK),
    shares: new Uint8Array(CHUNK)
  }
}
