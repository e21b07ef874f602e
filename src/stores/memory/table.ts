import { randomBytes } from 'node:crypto'
import { Digest } from './digest.js'
import { CHUNK, CHUNK_BITS, IN_CHUNK, NO_ROW, Rows } from './rows.js'

/** Buckets to a row: with two, hardly any has more than one. */
const BUCKETS_TO_A_ROW = 2

/** Buckets that are joined at most when memory is given back. */
const JOINED_AT_ONCE = 1 << 16

/**
 * The rows of partitions, found by a digest; the partitions themselves are not kept. Linear hashing (Litwin, "Linear hashing:
 * a new tool for file and table addressing", 1980): as rows come and go, buckets are split and joined one by one, so that no
 * request ever waits for a table to grow.
 */
export class Table {
  readonly rows: Rows = new Rows()
  /** The first row of each bucket; a chunk has as many buckets as one of rows has rows. */
  readonly #chunks: Int32Array[] = [new Int32Array(CHUNK)]
  #buckets = CHUNK
  /** Of a digest, the bits that buckets go by, where all buckets of as many bits are there. */
  #mask = CHUNK - 1
  readonly #digest: Digest

  constructor() {
    const secret = randomBytes(8)
    this.#digest = new Digest([secret.readInt32LE(0), secret.readInt32LE(4)])
  }

  /** The row of a partition, or {@link NO_ROW}. */
  find(partition: string): number {
    this.#digest.of(partition)
    const { low, high } = this.#digest
    return this.rows.search(this.#first(this.#bucketOf(low)), low, high)
  }

  /** Takes a row for a partition that has none. */
  add(partition: string): number {
    this.#digest.of(partition)
    const { low, high } = this.#digest
    const bucket = this.#bucketOf(low)
    const row = this.rows.take(low, high, this.#first(bucket))
    this.#setFirst(bucket, row)
    while (this.#buckets < this.rows.taken * BUCKETS_TO_A_ROW) this.#split()
    return row
  }

  /** Gives a row up. */
  drop(row: number): void {
    const bucket = this.#bucketOf(this.rows.low(row))
    const next = this.rows.next(row)
    let before = NO_ROW
    for (let at = this.#first(bucket); at !== row; at = this.rows.next(at)) before = at
    if (before === NO_ROW) this.#setFirst(bucket, next)
    else this.rows.link(before, next)
    this.rows.vacate(row)
  }

  /** Gives memory back that nobody needs: a part of it each time. */
  trim(): void {
    this.rows.trim()
    if (this.rows.taken === 0) return this.#begin()
    const wanted = Math.max(CHUNK, 2 * this.rows.taken * BUCKETS_TO_A_ROW)
    for (let joined = 0; joined < JOINED_AT_ONCE && this.#buckets > wanted; joined++) this.#join()
    this.#chunks.length = Math.ceil(this.#buckets / CHUNK)
  }

  /** Goes back to the first buckets, which are empty when no row is taken. */
  #begin(): void {
    this.#buckets = CHUNK
    this.#mask = CHUNK - 1
    this.#chunks.length = 1
  }

  /** A bucket that is not there yet is still one with that of half as many. */
  #bucketOf(low: number): number {
    const bucket = low & this.#mask
    return bucket < this.#buckets ? bucket : bucket & (this.#mask >> 1)
  }

  /** Adds a bucket, of what one of the others has for it. */
  #split(): void {
    const added = this.#buckets++
    if (added > this.#mask) this.#mask = this.#mask * 2 + 1
    if ((added & IN_CHUNK) === 0) this.#chunks.push(new Int32Array(CHUNK))
    let row = this.#first(added & (this.#mask >> 1))
    let stay = NO_ROW
    let go = NO_ROW
    while (row !== NO_ROW) {
      const next = this.rows.next(row)
      const goes = (this.rows.low(row) & this.#mask) === added
      this.rows.link(row, goes ? go : stay)
      if (goes) go = row
      else stay = row
      row = next
    }
    this.#setFirst(added & (this.#mask >> 1), stay)
    this.#setFirst(added, go)
  }

  /** Takes the last bucket away: its rows go back to where they were split off. */
  #join(): void {
    const removed = --this.#buckets
    const partner = removed & (this.#mask >> 1)
    for (let row = this.#first(removed); row !== NO_ROW;) {
      const next = this.rows.next(row)
      this.rows.link(row, this.#first(partner))
      this.#setFirst(partner, row)
      row = next
    }
    this.#setFirst(removed, NO_ROW)
    if (removed === (this.#mask + 1) >> 1) this.#mask >>= 1
  }

  #first(bucket: number): number {
    return this.#chunks[bucket >> CHUNK_BITS]![bucket & IN_CHUNK]!
  }

  #setFirst(bucket: number, row: number): void {
    this.#chunks[bucket >> CHUNK_BITS]![bucket & IN_CHUNK] = row
  }
}
