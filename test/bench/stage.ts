import type { Hire } from './worker.js'

/** One thing that is measured, in a process of its own. */
export interface Subject {
  /** What it is called in samples: its variant, or with another library than that of this tree, something of its own. */
  readonly name: string
  /** What the process does. */
  readonly variant: string
  /** The folder of the project whose build is measured, a URL with `/` at its end. */
  readonly root: string
}

/** How much is done. */
export interface Effort {
  readonly rounds: number
  /** Rounds before these that are not counted: functions are compiled meanwhile. */
  readonly warmUp: number
  /** Requests in one round to one server. */
  readonly slice: number
  /** Milliseconds of one round of one loop. */
  readonly batch: number
  /** Milliseconds of one part of what has to be watched for some time. */
  readonly watch: number
  /** Partitions, at most: rows ask for up to a million. */
  readonly partitions: number
  /** Port of a Redis for this run, if there is one. */
  readonly redis: number | undefined
}

/** What was measured of one subject, by metric: a number for each round, or one for all. */
export type Sample = Readonly<Record<string, readonly number[]>>

/** By the names of subjects. */
export type Samples = ReadonlyMap<string, Sample>

/** What one commit is compared with another by. */
export interface Metric {
  readonly name: string
  readonly unit: string
  readonly better: 'lower' | 'higher'
}

/** Names of two variants. */
export type Pair = readonly [string, string]

/** A way of measuring that some rows share. */
export interface Stage {
  readonly name: string
  /** Two variants that are the same, measured along with the others: where they differ, the machine was not quiet. */
  readonly twins?: Pair
  /** What twins, and commits, are compared by. */
  readonly metrics: readonly Metric[]
  measure(subjects: readonly Subject[], effort: Effort, hire: Hire): Promise<Samples>
}

/** How much of so many partitions there is in this run. */
export function partitionsOf(wanted: number, { partitions }: Pick<Effort, 'partitions'>): number {
  return Math.min(wanted, partitions)
}
