import { EMPTY } from '../../algorithm.js'
import type { State } from '../../algorithm.js'

/** Rows of a chunk: tables grow by one, so that nothing is ever copied. */
const CHUNK = 1024

/** How a cell holds its state: nothing, one or two numbers as they are, three that fit (see {@link fits}), or in a list. */
const NONE = 0
const PACKED = 3
const LISTED = 4

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
 * a longer state is a list.
 */
export class Cells {
  readonly #chunks: Chunk[] = []
  readonly #lists = new Map<number, number[]>()
  #listed = 0

  /** Numbers held in lists, and the lists. */
  get listed(): { readonly numbers: number; readonly lists: number } {
    return { numbers: this.#listed, lists: this.#lists.size }
  }

  /** The state of a row, until the next one is written. */
  read(row: number): State {
    const chunk = this.#chunks[Math.floor(row / CHUNK)]
    if (chunk === undefined) return EMPTY
    const cell = row % CHUNK
    const kind = chunk.kinds[cell]!
    if (kind === NONE) return EMPTY
    if (kind === LISTED) return this.#lists.get(row)!
    const { doubles, integers } = chunk
    const first = doubles[2 * cell]!
    if (kind === PACKED) return [integers[4 * cell + 2]!, first, first + integers[4 * cell + 3]!]
    return kind === 1 ? [first] : [first, doubles[2 * cell + 1]!]
  }

  /** `share`: what is left of the quota, from 0 to 1. */
  write(row: number, state: State, share: number): void {
    const chunk = this.#chunkOf(row)
    const cell = row % CHUNK
    const { length } = state
    const packed = length === 3 && fits(state)
    const kind = length < 3 ? length : packed ? PACKED : LISTED
    if (kind === LISTED || chunk.kinds[cell] === LISTED) this.#list(row, kind === LISTED ? state : EMPTY)
    chunk.kinds[cell] = kind
    chunk.shares[cell] = share * WHOLE
    if (kind === NONE || kind === LISTED) return
    if (packed) {
      chunk.doubles[2 * cell] = state[1]!
      chunk.integers[4 * cell + 2] = state[0]!
      chunk.integers[4 * cell + 3] = state[2]! - state[1]!
      return
    }
    chunk.doubles[2 * cell] = state[0]!
    if (length === 2) chunk.doubles[2 * cell + 1] = state[1]!
  }

  isEmpty(row: number): boolean {
    return (this.#chunks[Math.floor(row / CHUNK)]?.kinds[row % CHUNK] ?? NONE) === NONE
  }

  /** What was left when the state was written, from 0 to 1; 1 of no state. */
  share(row: number): number {
    const chunk = this.#chunks[Math.floor(row / CHUNK)]
    const cell = row % CHUNK
    return chunk === undefined || chunk.kinds[cell] === NONE ? 1 : chunk.shares[cell]! / WHOLE
  }

  /** Writes a list over the one before: lists that live long and are replaced all the time keep the collector busy. */
  #list(row: number, state: State): void {
    const list = this.#lists.get(row)
    this.#listed += state.length - (list?.length ?? 0)
    if (state.length === 0) return void this.#lists.delete(row)
    if (list === undefined) return void this.#lists.set(row, [...state])
    if (list === state) return
    if (list.length !== state.length) list.length = state.length
    for (let i = 0; i < state.length; i++) list[i] = state[i]!
  }

  #chunkOf(row: number): Chunk {
    const index = Math.floor(row / CHUNK)
    return (this.#chunks[index] ??= emptyChunk())
  }
}

/** Whether three numbers are a count, a time, and one not much later, such as the one entry of a sliding window. */
function fits(state: State): boolean {
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
