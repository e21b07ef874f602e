import { EMPTY } from '../../algorithm.js'
import type { State } from '../../algorithm.js'
import { baseOf } from './near.js'
import { CHUNK, CHUNK_BITS, IN_CHUNK } from './rows.js'
import { Scratch } from './scratch.js'
import { Slots, fits, sizeFor } from './slots.js'

/**
 * How a cell holds its state: nothing, one or two numbers as they are, three that {@link isEntry}, or where it is kept, of
 * numbers that are near one another with their base.
 */
const NONE = 0
const PACKED = 3
const ELSEWHERE = 4
const NEAR = 5

/**
 * A cell is three doubles, so that one line of the processor's cache has all of it: two for the state, and the last for what
 * kind it is and what is left. As integers they are six.
 */
const DOUBLES = 3
const INTEGERS = 6

/** Integers of a cell. */
const COUNT = 2
const BETWEEN = 3
const KIND_AND_SHARE = 4
const LENGTH = 5
/** Where a state is that has no room in the cell; the second double is its base. */
const SIZE = 0
const SLOT = 1
const BASE = 1

const KIND = 0xff
const SHARE_BITS = 8

/** A share of a quota as it is kept, in a byte that halves exactly. */
const WHOLE = 254

/** No row at all: those of newcomers who are counted together have one. */
const NOBODY = -1

/** The same bytes twice. */
interface Chunk {
  readonly doubles: Float64Array
  readonly integers: Uint32Array
  /** Cells that hold a state. */
  used: number
}

/**
 * The states of one policy, by row. What somebody has who came once or twice takes twenty-four bytes, for those are the many;
 * a longer state has a slot of its own.
 */
export class Cells {
  readonly #chunks: (Chunk | undefined)[] = []
  #used = 0
  readonly #slots = new Slots()
  readonly #scratch = new Scratch()
  /** The row whose state was read last from its slot, until one is read or written again, and the list it was read into. */
  #readRow = NOBODY
  #read: State = EMPTY

  /** Whether there is a state. */
  get isUsed(): boolean {
    return this.#used > 0
  }

  /** Words of thirty-two bits that slots have room for, those of them that are in use. */
  get words(): number {
    return this.#slots.words
  }

  /** The state of a row, until the next one is read. */
  read(row: number): State {
    this.#readRow = NOBODY
    const chunk = this.#chunks[row >> CHUNK_BITS]
    if (chunk === undefined) return EMPTY
    const { doubles, integers } = chunk
    const at = (row & IN_CHUNK) * INTEGERS
    const kind = integers[at + KIND_AND_SHARE]! & KIND
    if (kind === NONE) return EMPTY
    if (kind >= ELSEWHERE) {
      const state = this.#scratch.of(integers[at + LENGTH]!)
      const size = integers[at + SIZE]!
      const slot = integers[at + SLOT]!
      if (kind === ELSEWHERE) this.#slots.read(size, slot, state)
      else this.#slots.readNear(size, slot, state, doubles[(row & IN_CHUNK) * DOUBLES + BASE]!)
      this.#readRow = row
      this.#read = state
      return state
    }
    const state = this.#scratch.of(kind)
    const first = doubles[(row & IN_CHUNK) * DOUBLES]!
    if (kind === PACKED) {
      state[0] = integers[at + COUNT]!
      state[1] = first
      state[2] = first + integers[at + BETWEEN]!
      return state
    }
    state[0] = first
    if (kind === 2) state[1] = doubles[(row & IN_CHUNK) * DOUBLES + 1]!
    return state
  }

  /** `share`: what is left of the quota, from 0 to 1. */
  write(row: number, state: State, share: number): void {
    const { length } = state
    if (length === 0 && this.#chunks[row >> CHUNK_BITS] === undefined) return
    const known = row === this.#readRow ? this.#read : EMPTY
    this.#readRow = NOBODY
    const chunk = (this.#chunks[row >> CHUNK_BITS] ??= emptyChunk())
    const { doubles, integers } = chunk
    const at = (row & IN_CHUNK) * INTEGERS
    const before = integers[at + KIND_AND_SHARE]! & KIND
    if (before === NEAR && length > PACKED && this.#rewrite(chunk, row & IN_CHUNK, state, known)) {
      integers[at + KIND_AND_SHARE] = joined(NEAR, share)
      return
    }
    const isShort = length < PACKED || (length === PACKED && isEntry(state))
    const base = isShort ? NaN : baseOf(state)
    const kind = isShort ? length : Number.isNaN(base) ? ELSEWHERE : NEAR
    if (kind >= ELSEWHERE) this.#writeElsewhere(chunk, row & IN_CHUNK, state, base)
    else if (before >= ELSEWHERE) this.#vacate(integers, at)
    integers[at + KIND_AND_SHARE] = joined(kind, share)
    const more = Number(kind !== NONE) - Number(before !== NONE)
    chunk.used += more
    this.#used += more
    if (kind === NONE || kind >= ELSEWHERE) return
    const first = (row & IN_CHUNK) * DOUBLES
    if (kind === PACKED) {
      doubles[first] = state[1]!
      integers[at + COUNT] = state[0]!
      integers[at + BETWEEN] = state[2]! - state[1]!
      return
    }
    doubles[first] = state[0]!
    if (kind === 2) doubles[first + 1] = state[1]!
  }

  /** Writes anew what is left of the quota, from 0 to 1, where there is a state. */
  setShare(row: number, share: number): void {
    const kind = this.#kindAndShare(row) & KIND
    if (kind === NONE) return
    const { integers } = this.#chunks[row >> CHUNK_BITS]!
    integers[(row & IN_CHUNK) * INTEGERS + KIND_AND_SHARE] = joined(kind, share)
  }

  /** Gives memory back that no state is in. */
  trim(): void {
    for (let i = 0; i < this.#chunks.length; i++) if (this.#chunks[i]?.used === 0) this.#chunks[i] = undefined
    this.#slots.trim()
  }

  isEmpty(row: number): boolean {
    return (this.#kindAndShare(row) & KIND) === NONE
  }

  /** What was left when the state was written, from 0 to 1; 1 of no state. */
  share(row: number): number {
    const both = this.#kindAndShare(row)
    return (both & KIND) === NONE ? 1 : (both >> SHARE_BITS) / WHOLE
  }

  #kindAndShare(row: number): number {
    return this.#chunks[row >> CHUNK_BITS]?.integers[(row & IN_CHUNK) * INTEGERS + KIND_AND_SHARE] ?? NONE
  }

  /** `base`: of numbers that are near one another; else `NaN`. */
  #writeElsewhere({ doubles, integers }: Chunk, cell: number, state: State, base: number): void {
    const at = cell * INTEGERS
    const isNear = !Number.isNaN(base)
    const words = isNear ? state.length : 2 * state.length
    const isThere = (integers[at + KIND_AND_SHARE]! & KIND) >= ELSEWHERE
    if (!isThere || !fits(integers[at + SIZE]!, words)) {
      if (isThere) this.#vacate(integers, at)
      const size = sizeFor(words)
      integers[at + SIZE] = size
      integers[at + SLOT] = this.#slots.take(size)
    }
    integers[at + LENGTH] = state.length
    doubles[cell * DOUBLES + BASE] = base
    if (isNear) this.#slots.writeNear(integers[at + SIZE]!, integers[at + SLOT]!, state, base)
    else this.#slots.write(integers[at + SIZE]!, integers[at + SLOT]!, state)
  }

  /**
   * Writes a state where the one before is, by the same base; `false`: it does not fit there. What it has in common with the one
   * before, if that is `known`, is not written again: most charges change the end of a long state.
   */
  #rewrite({ doubles, integers }: Chunk, cell: number, state: State, known: State): boolean {
    const at = cell * INTEGERS
    const size = integers[at + SIZE]!
    if (!fits(size, state.length)) return false
    integers[at + LENGTH] = state.length
    const base = doubles[cell * DOUBLES + BASE]!
    return this.#slots.writeNear(size, integers[at + SLOT]!, state, base, inCommon(state, known))
  }

  #vacate(integers: Uint32Array, at: number): void {
    this.#slots.vacate(integers[at + SIZE]!, integers[at + SLOT]!)
  }
}

/** A kind and a share as they are kept. */
const joined = (kind: number, share: number): number => kind | ((share * WHOLE) << SHARE_BITS)

/** How many numbers two states begin with that are the same. */
function inCommon(one: State, other: State): number {
  const most = Math.min(one.length, other.length)
  let same = 0
  while (same < most && one[same] === other[same]) same++
  return same
}

/** Whether three numbers are a count, a time, and one not much later, as is the one entry of a sliding window. */
function isEntry(state: State): boolean {
  const between = state[2]! - state[1]!
  return isUint32(state[0]!) && isUint32(between)
}

const isUint32 = (number: number): boolean => number >>> 0 === number

function emptyChunk(): Chunk {
  const doubles = new Float64Array(DOUBLES * CHUNK)
  return { doubles, integers: new Uint32Array(doubles.buffer), used: 0 }
}
