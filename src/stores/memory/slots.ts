import type { State } from '../../algorithm.js'
import { fromWord, toWord } from './near.js'

/** Words of the smallest slot, each of thirty-two bits; each larger size has twice as many. */
const SMALLEST = 6

/** Words that a chunk of slots has at most, unless one slot has more. */
const CHUNK = 1 << 16

/** The size of slots for so many words. */
export function sizeFor(words: number): number {
  return Math.max(0, Math.ceil(Math.log2(words / SMALLEST)))
}

/** Whether a slot is large enough for so many words, and not far too large. */
export function fits(size: number, words: number): boolean {
  const capacity = SMALLEST << size
  return words <= capacity && (size === 0 || words > capacity >> 2)
}

/**
 * States of any length in slots of a few sizes, outside the heap: lists that live long and grow all the time keep the
 * collector busy.
 */
export class Slots {
  readonly #sizes: Size[] = []

  /** Words that the slots in use have room for. */
  get words(): number {
    return this.#sizes.reduce((sum, { words }) => sum + words, 0)
  }

  /** A slot of a size. */
  take(size: number): number {
    for (let next = this.#sizes.length; next <= size; next++) this.#sizes.push(new Size(SMALLEST << next))
    return this.#sizes[size]!.take()
  }

  /** Gives a slot back. */
  vacate(size: number, slot: number): void {
    this.#sizes[size]!.vacate(slot)
  }

  /** Gives the memory of sizes back of which no slot is in use. */
  trim(): void {
    for (const size of this.#sizes) size.trim()
  }

  /** Writes numbers as they are, two words each. */
  write(size: number, slot: number, state: State): void {
    this.#sizes[size]!.write(slot, state)
  }

  /** Fills `state` with what was written. */
  read(size: number, slot: number, state: number[]): void {
    this.#sizes[size]!.read(slot, state)
  }

  /**
   * Writes numbers that are near a base, a word each, `from` an index on: those before are there already. `false`: one of them
   * is not near, and what was there is lost.
   */
  writeNear(size: number, slot: number, state: State, base: number, from: number = 0): boolean {
    return this.#sizes[size]!.writeNear(slot, state, base, from)
  }

  /** Fills `state` with what was written, by the same base. */
  readNear(size: number, slot: number, state: number[], base: number): void {
    this.#sizes[size]!.readNear(slot, state, base)
  }
}

/** The same bytes twice. */
interface Chunk {
  readonly doubles: Float64Array
  readonly words: Int32Array
}

/** All slots of one size, in chunks, so that nothing is ever moved. */
class Size {
  readonly #capacity: number
  /** Slots of a chunk are a power of two: this one. */
  readonly #chunkBits: number
  readonly #chunks: (Chunk | undefined)[] = []
  readonly #vacant: number[] = []
  #made = 0

  constructor(capacity: number) {
    this.#capacity = capacity
    this.#chunkBits = Math.max(0, Math.floor(Math.log2(CHUNK / capacity)))
  }

  get words(): number {
    return (this.#made - this.#vacant.length) * this.#capacity
  }

  take(): number {
    const slot = this.#vacant.pop() ?? this.#made++
    this.#chunks[slot >> this.#chunkBits] ??= emptyChunk(this.#capacity << this.#chunkBits)
    return slot
  }

  vacate(slot: number): void {
    this.#vacant.push(slot)
    // A slot that fills a chunk may be very large.
    if (this.#chunkBits === 0) this.#chunks[slot] = undefined
  }

  trim(): void {
    if (this.#made > this.#vacant.length) return
    this.#made = 0
    this.#vacant.length = 0
    this.#chunks.length = 0
  }

  write(slot: number, state: State): void {
    const { doubles } = this.#chunkOf(slot)
    const from = this.#startOf(slot) / 2
    for (let i = 0; i < state.length; i++) doubles[from + i] = state[i]!
  }

  read(slot: number, state: number[]): void {
    const { doubles } = this.#chunkOf(slot)
    const from = this.#startOf(slot) / 2
    for (let i = 0; i < state.length; i++) state[i] = doubles[from + i]!
  }

  writeNear(slot: number, state: State, base: number, from: number): boolean {
    const { words } = this.#chunkOf(slot)
    const start = this.#startOf(slot)
    for (let i = from; i < state.length; i++) {
      const word = toWord(state[i]!, base)
      if (Number.isNaN(word)) return false
      words[start + i] = word
    }
    return true
  }

  readNear(slot: number, state: number[], base: number): void {
    const { words } = this.#chunkOf(slot)
    const from = this.#startOf(slot)
    for (let i = 0; i < state.length; i++) state[i] = fromWord(words[from + i]!, base)
  }

  #chunkOf(slot: number): Chunk {
    return this.#chunks[slot >> this.#chunkBits]!
  }

  #startOf(slot: number): number {
    return (slot & ((1 << this.#chunkBits) - 1)) * this.#capacity
  }
}

function emptyChunk(words: number): Chunk {
  const doubles = new Float64Array(words / 2)
  return { doubles, words: new Int32Array(doubles.buffer) }
}
