import type { State } from '../../algorithm.js'

/** Numbers of the smallest slot; each larger size has twice as many. */
const SMALLEST = 6

/** Numbers that a chunk of slots has at most, unless one slot has more. */
const CHUNK = 1 << 15

/** The size of slots for states of so many numbers. */
export function sizeFor(length: number): number {
  return Math.max(0, Math.ceil(Math.log2(length / SMALLEST)))
}

/** Whether a slot is large enough for so many numbers, and not far too large. */
export function fits(size: number, length: number): boolean {
  const capacity = SMALLEST << size
  return length <= capacity && (size === 0 || length > capacity >> 2)
}

/**
 * States of any length in slots of a few sizes, outside the heap: lists that live long and grow all the time keep the
 * collector busy.
 */
export class Slots {
  readonly #sizes: Size[] = []

  /** Numbers that the slots in use have room for. */
  get numbers(): number {
    return this.#sizes.reduce((sum, { numbers }) => sum + numbers, 0)
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

  write(size: number, slot: number, state: State): void {
    this.#sizes[size]!.write(slot, state)
  }

  /** Fills `state` with what was written. */
  read(size: number, slot: number, state: number[]): void {
    this.#sizes[size]!.read(slot, state)
  }
}

/** All slots of one size, in chunks, so that nothing is ever moved. */
class Size {
  readonly #capacity: number
  readonly #perChunk: number
  readonly #chunks: (Float64Array | undefined)[] = []
  readonly #vacant: number[] = []
  #made = 0

  constructor(capacity: number) {
    this.#capacity = capacity
    this.#perChunk = Math.max(1, Math.floor(CHUNK / capacity))
  }

  get numbers(): number {
    return (this.#made - this.#vacant.length) * this.#capacity
  }

  take(): number {
    const slot = this.#vacant.pop() ?? this.#made++
    this.#chunks[Math.floor(slot / this.#perChunk)] ??= new Float64Array(this.#capacity * this.#perChunk)
    return slot
  }

  vacate(slot: number): void {
    this.#vacant.push(slot)
    // A slot that fills a chunk may be very large.
    if (this.#perChunk === 1) this.#chunks[slot] = undefined
  }

  trim(): void {
    if (this.#made > this.#vacant.length) return
    this.#made = 0
    this.#vacant.length = 0
    this.#chunks.length = 0
  }

  write(slot: number, state: State): void {
    const chunk = this.#chunkOf(slot)
    const from = this.#startOf(slot)
    for (let i = 0; i < state.length; i++) chunk[from + i] = state[i]!
  }

  read(slot: number, state: number[]): void {
    const chunk = this.#chunkOf(slot)
    const from = this.#startOf(slot)
    for (let i = 0; i < state.length; i++) state[i] = chunk[from + i]!
  }

  #chunkOf(slot: number): Float64Array {
    return this.#chunks[Math.floor(slot / this.#perChunk)]!
  }

  #startOf(slot: number): number {
    return (slot % this.#perChunk) * this.#capacity
  }
}
