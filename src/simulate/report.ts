import { later } from './arrivals.js'
import type { Arrival } from './arrivals.js'
import type { Contender } from './contenders.js'
import { admittedPer, admittedWithin, mostInAnyWindow, total } from './measure.js'
import { run } from './run.js'
import type { Waits } from './run.js'
import type { Phase, Scenario } from './scenarios.js'

/** A scenario and who meets it. */
export interface Study extends Scenario {
  readonly contenders: readonly Contender[]
  /** What was left out of it and why, as sentences. */
  readonly notes: readonly string[]
}

/** A study when it was run. */
export interface Report extends Study {
  /** One for each contender, in their order. */
  readonly results: readonly Result[]
}

export interface Result {
  readonly contender: Contender
  /** One for each phase of the scenario. */
  readonly outcomes: readonly Outcome[]
}

/** What a contender admitted, in units. */
export interface Outcome {
  readonly admitted: number
  readonly mostInAnyWindow: number
  /** The most in any window over the quota; more than 1 is more than was promised. */
  readonly excess: number
  /** In the second that starts with the first request. */
  readonly firstSecond: number
  /** In each tenth of that second. */
  readonly perTenth: readonly number[]
  readonly waits: Waits
  readonly refusedForEver: number
}

export function report(study: Study): Report {
  const results = study.contenders.map(contender => ({
    contender,
    outcomes: study.phases.map(phase => outcome(study, contender, phase))
  }))
  return { ...study, results }
}

function outcome({ quota, window, arrivals }: Study, contender: Contender, { shift }: Phase): Outcome {
  const shifted = later(arrivals, shift)
  const { admissions, waits, refusedForEver } = run(contender, shifted)
  const most = mostInAnyWindow(admissions, window)
  const from = start(shifted)
  return {
    admitted: total(admissions),
    mostInAnyWindow: most,
    excess: most / quota,
    firstSecond: admittedWithin(admissions, from, 1000),
    perTenth: admittedPer(admissions, from, 100, 10),
    waits,
    refusedForEver
  }
}

const start = ([first]: readonly Arrival[]): number => first!.at
