import type { FastifyBaseLogger } from 'fastify'
import { refusing } from './decision.js'
import type { Decision } from './decision.js'
import type { ServiceLimit } from './store.js'

/** What a line about a refusal tells. Nothing in it says whose request it was. */
export interface RefusalLine {
  /** The policy that refused. */
  readonly policy: string
  readonly unit: string
  /** The most units that it holds. */
  readonly quota: number
  /** Units that the request asked for, and that were left. */
  readonly asked: number
  readonly remaining: number
  /** Milliseconds until these units are admitted; `NEVER` or `UNKNOWN`. */
  readonly retryAfter: number
  /** Refusals by this policy since its line before this one, which have none. */
  readonly leftOut: number
}

interface Sample {
  /** When its last line was written, in milliseconds of `performance.now()`. */
  last: number
  leftOut: number
}

/**
 * Logs refusals: the first of each policy at once, then a line in so many milliseconds, however many there are, so that
 * who is refused cannot fill a disk.
 */
export class RefusalLog {
  readonly #every: number
  readonly #samples = new Map<string, Sample>()

  /** `every`: milliseconds. */
  constructor(every: number) {
    this.#every = every
  }

  tell(decision: Decision, log: FastifyBaseLogger): void {
    for (const limit of refusing(decision)) this.#tell(limit, log)
  }

  #tell({ policy, units, remaining, retryAfter }: ServiceLimit, log: FastifyBaseLogger): void {
    const now = performance.now()
    const sample = this.#sampleOf(policy.name)
    if (now - sample.last < this.#every) {
      sample.leftOut++
      return
    }
    const line: RefusalLine = {
      policy: policy.name,
      unit: policy.unit,
      quota: policy.capacity,
      asked: units,
      remaining,
      retryAfter,
      leftOut: sample.leftOut
    }
    sample.last = now
    sample.leftOut = 0
    log.info({ refusal: line }, `fastify-quota: refused by policy "${policy.name}"`)
  }

  #sampleOf(policy: string): Sample {
    const known = this.#samples.get(policy)
    if (known !== undefined) return known
    const sample = { last: -Infinity, leftOut: 0 }
    this.#samples.set(policy, sample)
    return sample
  }
}
