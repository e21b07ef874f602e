import { EMPTY } from '../../algorithm.js'
import type { State, Step } from '../../algorithm.js'
import type { QuotaPolicy } from '../../policy.js'
import { Cells } from './cells.js'
import { NO_ROW } from './rows.js'
import { Table } from './table.js'

/** What a table may hold. */
export interface Bounds {
  readonly partitions: number
  /** Estimated, of partitions and states, from which on nobody new is held; `Infinity`: whatever they take. */
  readonly bytes: number
}

/** The row in which newcomers are counted together while there is no room for them: it is nobody's own. */
export const SHARED_ROW: number = NO_ROW

/** Bytes of a partition, with its share of the buckets, and of each policy that counts it. */
const OF_PARTITION = 40
const OF_CELL = 24
/** Bytes of each word of a state that is too long for a cell. */
const OF_WORD = 4

/** Partitions that are looked at to make room, and of those with quota to spare the first ones compared. */
const LOOKED_AT = 32
const COMPARED = 16

/** Partitions forgotten at most for one newcomer, where bytes are short. */
const TRIES = 4

/** Rows that a sweep looks at in one go. */
const SWEPT_AT_ONCE = 4096

/** Rows that are passed over at most to find one that is taken. */
const PASSED_OVER = 256

/** Somebody who has less than this share of a quota left is not forgotten, or inventing others would get it back. */
const SPARE = 0.5

/**
 * Who is counted: a row for each partition, and in it a cell for each policy. Nobody new is held beyond its bounds. To make
 * room it forgets what has expired, else of a few that have at least half of every quota left the one that has most; if
 * there is none, newcomers are counted together.
 */
export class Partitions {
  readonly #bounds: Bounds
  readonly #forgetting: () => void
  readonly #table = new Table()
  readonly #rows = this.#table.rows
  readonly #cells = new Map<string, Cells>()
  /** The row that was looked at last. */
  #hand = 0
  #evicted = 0
  #shared = 0

  /** `forgetting` is called when something that had not expired is forgotten, or a newcomer found no room. */
  constructor(bounds: Bounds, forgetting: () => void) {
    this.#bounds = bounds
    this.#forgetting = forgetting
  }

  /** Partitions held, expired ones that were not swept yet included. */
  get size(): number {
    return this.#rows.taken
  }

  /** What they take, estimated. */
  get bytes(): number {
    let bytes = this.size * this.#ofPartition
    for (const { words } of this.#cells.values()) bytes += words * OF_WORD
    return bytes
  }

  /** Bytes of a partition; policies that are no more, or that nobody has met yet, have no cells. */
  get #ofPartition(): number {
    let bytes = OF_PARTITION
    for (const { isUsed } of this.#cells.values()) if (isUsed) bytes += OF_CELL
    return bytes
  }

  /** Newcomers that found no room, and partitions that were forgotten before they had expired. */
  get forgotten(): { readonly evicted: number; readonly shared: number } {
    return { evicted: this.#evicted, shared: this.#shared }
  }

  /** The row of a partition, or {@link NO_ROW}. */
  find(partition: string): number {
    return this.#table.find(partition)
  }

  /**
   * The row of a partition, held from now on, or the shared one. `taken` are the rows of the same call, which make no room for
   * one another. What nothing is written to is swept.
   */
  hold(partition: string, now: number, taken: readonly number[]): number {
    const known = this.#table.find(partition)
    if (known !== NO_ROW) return known
    if (this.#hasRoom(taken) || this.#makeRoom(now, taken)) return this.#table.add(partition)
    this.#shared++
    this.#forgetting()
    return SHARED_ROW
  }

  /** The cells of a policy: those of all policies that count the same. */
  cells({ field }: QuotaPolicy): Cells {
    const known = this.#cells.get(field)
    if (known !== undefined) return known
    const cells = new Cells()
    this.#cells.set(field, cells)
    return cells
  }

  /** Writes what a step leaves behind. */
  write(row: number, cells: Cells, policy: QuotaPolicy, now: number, step: Step): void {
    const { state, ttl } = step
    cells.write(row, state, shareOf(policy, step))
    if (now + ttl > this.#rows.end(row)) this.#rows.setEnd(row, now + ttl)
    if (state.length === 0) this.#endIfEmpty(row)
  }

  /** Writes what is left after a step that leaves the state as it was. */
  setShare(row: number, cells: Cells, policy: QuotaPolicy, step: Step): void {
    cells.setShare(row, shareOf(policy, step))
  }

  /** Keeps a state that a step will follow. */
  keep(row: number, cells: Cells, state: State): void {
    cells.write(row, state, 0)
    if (state.length === 0) this.#endIfEmpty(row)
  }

  /**
   * Drops what has expired, a few thousand partitions in one go, until a quarter of all were met that have not, or the
   * round is over: what expires together goes together, and what lives is looked at every few seconds.
   */
  sweep(now: () => number, budget: number = this.size / 4): void {
    const time = now()
    let living = 0
    for (let seen = 0; seen < SWEPT_AT_ONCE; seen++) {
      const row = this.#advance()
      if (row === NO_ROW) return this.#tidy()
      if (!this.#rows.isTaken(row)) continue
      if (this.#rows.end(row) <= time) this.#drop(row)
      else living++
    }
    if (this.size === 0) return this.#tidy()
    if (budget > living) setImmediate(() => this.sweep(now, budget - living)).unref()
  }

  /** After a flood, what it took is given back, but for chunks that somebody is still in. */
  #tidy(): void {
    for (const cells of this.#cells.values()) cells.trim()
    this.#table.trim()
  }

  /** A partition all of whose charges were given back or forgotten is one that may go. */
  #endIfEmpty(row: number): void {
    for (const cells of this.#cells.values()) if (!cells.isEmpty(row)) return
    this.#rows.setEnd(row, 0)
  }

  #hasRoom(taken: readonly number[]): boolean {
    const { partitions, bytes } = this.#bounds
    if (this.size <= taken.length) return true
    if (this.size >= partitions) return false
    return bytes === Infinity || this.bytes + this.#ofPartition <= bytes
  }

  #makeRoom(now: number, taken: readonly number[]): boolean {
    for (let tries = 0; tries < TRIES; tries++) {
      const victim = this.#victim(now, taken)
      if (victim === NO_ROW) return false
      if (this.#rows.end(victim) > now) {
        this.#evicted++
        this.#forgetting()
      }
      this.#drop(victim)
      if (this.#hasRoom(taken)) return true
    }
    return false
  }

  /** What has expired; else who has most to spare, and of those the first to expire. */
  #victim(now: number, taken: readonly number[]): number {
    let victim = NO_ROW
    let most = SPARE
    let compared = 0
    for (let seen = 0; seen < LOOKED_AT && compared < COMPARED; seen++) {
      const row = this.#advanceToTaken()
      if (row === NO_ROW || taken.includes(row)) continue
      const end = this.#rows.end(row)
      if (end <= now) return row
      const share = this.#share(row)
      if (share < SPARE) continue
      compared++
      if (share < most || (share === most && victim !== NO_ROW && end >= this.#rows.end(victim))) continue
      victim = row
      most = share
    }
    return victim
  }

  /** What is left of the quota of which least is left. */
  #share(row: number): number {
    let least = 1
    for (const cells of this.#cells.values()) least = Math.min(least, cells.share(row))
    return least
  }

  #drop(row: number): void {
    for (const cells of this.#cells.values()) cells.write(row, EMPTY, 1)
    this.#table.drop(row)
  }

  /** The next row of a chunk in which somebody is, round and round; {@link NO_ROW} once a round. */
  #advance(): number {
    this.#hand = this.#rows.after(this.#hand)
    return this.#hand
  }

  #advanceToTaken(): number {
    for (let passed = 0; passed < PASSED_OVER; passed++) {
      const row = this.#advance()
      if (row !== NO_ROW && this.#rows.isTaken(row)) return row
    }
    return NO_ROW
  }
}

const shareOf = ({ capacity }: QuotaPolicy, { remaining }: Step): number =>
  capacity === 0 ? 0 : Math.min(1, remaining / capacity)
