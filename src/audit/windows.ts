import { QuotaOptionError } from '../client/errors.js'
import { show } from '../options.js'

/** When a server counted a request: at some instant from its sending to the arrival of its answer, both included. */
export interface Between {
  readonly sent: number
  readonly arrived: number
}

/** Where the most were admitted: those from the one to the other cannot be spread any thinner. */
export interface Crowd {
  readonly from: number
  readonly to: number
}

/**
 * The most that some window is sure to have admitted, wherever it starts. A window is half-open: what was counted exactly
 * one window earlier is not in it. Of requests whose instant is not known it is what they cannot have fallen short of,
 * whenever the server counted each of them.
 *
 * @param admissions what was admitted, in any order: instants, or the times between which the instant was.
 * @param window its length, in the unit of the times.
 * @throws {QuotaOptionError} when they are not that.
 */
export function mostInAnyWindow(admissions: readonly (number | Between)[], window: number): number {
  return mostCertain(admissions.map(checked), length(window))
}

function checked(admission: number | Between): Between {
  const between = typeof admission === 'number' ? { sent: admission, arrived: admission } : admission
  if (Number.isFinite(between.sent) && Number.isFinite(between.arrived) && between.sent <= between.arrived) {
    return between
  }
  throw new QuotaOptionError(
    `mostInAnyWindow: an admission must be a time or { sent, arrived }, got ${show(admission)}`
  )
}

function length(window: number): number {
  if (typeof window === 'number' && window > 0 && window < Infinity) return window
  throw new QuotaOptionError(`mostInAnyWindow: the window must be a number above 0, got ${show(window)}`)
}

/** {@link mostInAnyWindow} for times that are known to be in order. */
export function mostCertain(admissions: readonly Between[], window: number): number {
  const line = inLine(admissions)
  let enough = line.sent.length
  let tooFew = 0
  while (tooFew + 1 < enough) {
    const middle = (tooFew + enough) >> 1
    if (overcrowded(line, window, middle) === undefined) enough = middle
    else tooFew = middle
  }
  return enough
}

/** The most that a window can have admitted, if every request near it was counted in it. */
export function mostPossible(admissions: readonly Between[], window: number): number {
  const { sent, arrived } = inLine(admissions)
  let most = 0
  let reached = 0
  // A window that begins when an answer arrives has all those in it whose answers come later and that are sent before its end.
  arrived.forEach((start, gone) => {
    while (reached < sent.length && sent[reached]! < start + window) reached++
    most = Math.max(most, reached - gone)
  })
  return most
}

/** Where {@link mostCertain} were admitted. */
export function worstCrowd(admissions: readonly Between[], window: number): Crowd | undefined {
  const most = mostCertain(admissions, window)
  return overcrowded(inLine(admissions), window, most - 1)
}

/** Sendings and arrivals, each in order. */
interface Line {
  readonly sent: readonly number[]
  readonly arrived: readonly number[]
}

/**
 * The instants that suit the server best can be taken in the order of both sendings and arrivals: whatever instants fit
 * the requests, the earliest of them is not before the earliest sending nor after the earliest arrival, and so on.
 */
function inLine(admissions: readonly Between[]): Line {
  const ascending = (a: number, b: number): number => a - b
  return {
    sent: admissions.map(({ sent }) => sent).sort(ascending),
    arrived: admissions.map(({ arrived }) => arrived).sort(ascending)
  }
}

/**
 * Takes each request to be counted as late as it must be for no window to have more than `most`, which is a window after
 * the one that is `most` places before it. One that would have to be counted after its answer had arrived proves that
 * there were more, together with those that pushed it there.
 */
function overcrowded({ sent, arrived }: Line, window: number, most: number): Crowd | undefined {
  const instants: number[] = []
  const pushedFrom: number[] = []
  for (const [i, earliest] of sent.entries()) {
    const before = i - most
    const pushed = before >= 0 && most > 0 ? instants[before]! + window : -Infinity
    instants.push(Math.max(earliest, pushed))
    pushedFrom.push(pushed > earliest ? pushedFrom[before]! : earliest)
    if (most <= 0 || instants[i]! > arrived[i]!) return { from: pushedFrom[i]!, to: arrived[i]! }
  }
  return undefined
}
