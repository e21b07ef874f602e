import { EMPTY } from '../../algorithm.js'
import type { State, Step } from '../../algorithm.js'
import type { QuotaPolicy } from '../../policy.js'
import { Cells } from './cells.js'

/** What a table may hold. */
export interface Bounds {
  readonly partitions: number
  /** Estimated, of strings, states and their places; `Infinity`: whatever the partitions take. */
  readonly bytes: number
}

/** The row in which newcomers are counted together while there is no room for them. */
export const SHARED_ROW = 0

/** Bytes of a partition besides its string, and of each policy that counts it. */
const OF_PARTITION = 80
const OF_CELL = 24
/** Bytes of each number of a state that is too long for a cell. */
const OF_NUMBER = 8

/** Partitions that are looked at to make room, and of those with quota to spare the first ones compared. */
const LOOKED_AT = 32
const COMPARED = 16

/** Partitions forgotten at most for one newcomer, where bytes are short. */
const TRIES = 4

/** Partitions that a sweep looks at in one go. */
const SWEPT_AT_ONCE = 4096

/** Somebody who has less than this share of a quota left is not forgotten, or inventing others would get it back. */
const SPARE = 0.5

/**
 * Who is counted: a row for each partition, and in it a cell for each policy. It never grows beyond its bounds. To make
 * room it forgets what has expired, else of a few that have at least half of every quota left the one that has most; if
 * there is none, newcomers are counted together.
 */
export class Partitions {
  readonly #bounds: Bounds
  readonly #forgetting: () => void
  readonly #rows = new Map<string, number>()
  readonly #ends: number[] = [0]
  readonly #vacant: number[] = []
  readonly #cells = new Map<string, Cells>()
  #hand: Iterator<[string, number], undefined> | undefined
  #strings = 0
  #evicted = 0
  #shared = 0

  /** `forgetting` is called when something that had not expired is forgotten, or a newcomer found no room. */
  constructor(bounds: Bounds, forgetting: () => void) {
    this.#bounds = bounds
    this.#forgetting = forgetting
  }

  /** Partitions held, expired ones that were not swept yet included. */
  get size(): number {
    return this.#rows.size
  }

  /** What they take, estimated. */
  get bytes(): number {
    let bytes = this.#strings + this.#rows.size * (OF_PARTITION + this.#cells.size * OF_CELL)
    for (const { numbers } of this.#cells.values()) bytes += numbers * OF_NUMBER
    return bytes
  }

  /** Newcomers that found no room, and partitions that were forgotten before they had expired. */
  get forgotten(): { readonly evicted: number; readonly shared: number } {
    return { evicted: this.#evicted, shared: this.#shared }
  }

  /** The row of a partition; `undefined`: it is not held. */
  find(partition: string): number | undefined {
    return this.#rows.get(partition)
  }

  /**
   * The row of a partition, held from now on, or the shared one. `taken` are the rows of the same call, which do not push
   * each other out. What nothing is written to is swept.
   */
  hold(partition: string, now: number, taken: readonly number[]): number {
    const known = this.#rows.get(partition)
    if (known !== undefined) return known
    if (!this.#hasRoom(partition, taken) && !this.#makeRoom(partition, now, taken)) {
      this.#shared++
      this.#forgetting()
      return SHARED_ROW
    }
    const row = this.#vacant.pop() ?? this.#ends.length
    this.#ends[row] = 0
    this.#rows.set(partition, row)
    this.#strings += partition.length
    return row
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
  write(row: number, cells: Cells, capacity: number, now: number, { state, remaining, ttl }: Step): void {
    cells.write(row, state, capacity === 0 ? 0 : Math.min(1, remaining / capacity))
    this.#ends[row] = Math.max(this.#ends[row]!, now + ttl)
    if (state.length === 0) this.#endIfEmpty(row)
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
  sweep(now: () => number, budget: number = this.#rows.size / 4): void {
    const time = now()
    let living = 0
    for (let seen = 0; seen < SWEPT_AT_ONCE; seen++) {
      const entry = this.#advance()
      if (entry === undefined) return this.#tidy()
      if (this.#ends[entry[1]]! <= time) this.#drop(entry)
      else living++
    }
    if (budget > living) setImmediate(() => this.sweep(now, budget - living)).unref()
  }

  /** After a flood, what it took is given back, once nobody is in it any more. */
  #tidy(): void {
    for (const cells of this.#cells.values()) cells.trim()
    if (this.#rows.size > 0) return
    this.#ends.length = 1
    this.#vacant.length = 0
  }

  /** A partition all of whose charges were given back or forgotten is one that may go. */
  #endIfEmpty(row: number): void {
    for (const cells of this.#cells.values()) if (!cells.isEmpty(row)) return
    this.#ends[row] = 0
  }

  #hasRoom({ length }: string, taken: readonly number[]): boolean {
    const { partitions, bytes } = this.#bounds
    if (this.#rows.size <= taken.length) return true
    if (this.#rows.size >= partitions) return false
    return bytes === Infinity || this.bytes + length + OF_PARTITION <= bytes
  }

  #makeRoom(partition: string, now: number, taken: readonly number[]): boolean {
    for (let tries = 0; tries < TRIES; tries++) {
      const victim = this.#victim(now, taken)
      if (victim === undefined) return false
      if (this.#ends[victim[1]]! > now) {
        this.#evicted++
        this.#forgetting()
      }
      this.#drop(victim)
      if (this.#hasRoom(partition, taken)) return true
    }
    return false
  }

  /** What has expired; else who has most to spare, and of those the first to expire. */
  #victim(now: number, taken: readonly number[]): Entry | undefined {
    let victim: Entry | undefined
    let most = SPARE
    let compared = 0
    for (let seen = 0; seen < LOOKED_AT && compared < COMPARED; seen++) {
      const entry = this.#advance()
      if (entry === undefined || taken.includes(entry[1])) continue
      const end = this.#ends[entry[1]]!
      if (end <= now) return entry
      const share = this.#share(entry[1])
      if (share < SPARE) continue
      compared++
      if (share < most || (share === most && victim !== undefined && end >= this.#ends[victim[1]]!)) continue
      victim = entry
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

  #drop([partition, row]: Entry): void {
    for (const cells of this.#cells.values()) cells.write(row, EMPTY, 1)
    this.#rows.delete(partition)
    this.#strings -= partition.length
    this.#vacant.push(row)
  }

  /** The next partition in the order they were made, round and round; `undefined` once a round and when there is none. */
  #advance(): Entry | undefined {
    this.#hand ??= this.#rows.entries()
    const { value, done } = this.#hand.next()
    if (done === true) this.#hand = undefined
    return value
  }
}

type Entry = readonly [partition: string, row: number]
