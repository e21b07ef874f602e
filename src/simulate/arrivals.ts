import { LARGEST_INTEGER, show } from '../options.js'
import type { Refuse } from '../options.js'

/** One request: when it comes, and what it costs. */
export interface Arrival {
  /** Milliseconds on the limiter's clock. */
  readonly at: number
  readonly units: number
}

/** The latest time of a request. Up to here the arithmetic of every algorithm is exact at every precision. */
export const LATEST = 9_000_000_000_000

/** So many requests per so many milliseconds. */
export interface Rate {
  readonly requests: number
  readonly per: number
}

/** `count` requests of cost 1 at an even rate, the first at `from`. */
export function evenly(from: number, count: number, { requests, per }: Rate): Arrival[] {
  return Array.from({ length: count }, (_, i) => ({ at: from + Math.floor((i * per) / requests), units: 1 }))
}

/** `count` requests of cost 1 in the same millisecond. */
export function burst(at: number, count: number): Arrival[] {
  return Array.from({ length: count }, () => ({ at, units: 1 }))
}

/** The same requests, later. */
export function later(arrivals: readonly Arrival[], milliseconds: number): Arrival[] {
  return arrivals.map(({ at, units }) => ({ at: at + milliseconds, units }))
}

/** In the order they come; those of the same millisecond stay as they are. */
export function inOrder(arrivals: readonly Arrival[]): Arrival[] {
  return arrivals.toSorted((a, b) => a.at - b.at)
}

/** Milliseconds since the epoch, or a date and time with its zone, since a reader's own zone must not change the result. */
const TIME = /^(?<ms>\d{1,16})$|^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/
const COST = /^\d{1,15}$/

/**
 * Reads requests, one a line: its time, then, if it is not 1, its cost, with white space, a comma or a semicolon between.
 * Empty lines and what follows a `#` say nothing.
 */
export function parseArrivals(refuse: Refuse, text: string): Arrival[] {
  return text.split(/\r\n|\n|\r/).flatMap((line, i) => {
    const content = line.replace(/#.*/, '').trim()
    return content === '' ? [] : [parseArrival(refuse, i + 1, content)]
  })
}

function parseArrival(refuse: Refuse, line: number, content: string): Arrival {
  const [time = '', cost = '1', ...rest] = content.split(/\s*[,;]\s*|\s+/)
  const at = parseTime(time)
  if (!(at >= 0 && at <= LATEST)) {
    refuse(
      `--file line ${line}: a time must be milliseconds from 0 to ${LATEST} or like 2026-11-30T12:00:00.000Z, got ${show(time)}`
    )
  }
  const units = COST.test(cost) ? Number(cost) : 0
  if (units < 1) {
    refuse(`--file line ${line}: a cost must be an integer from 1 to ${LARGEST_INTEGER}, got ${show(cost)}`)
  }
  if (rest.length > 0) refuse(`--file line ${line}: a line is a time and a cost, got ${show(content)}`)
  return { at, units }
}

/** NaN if it is no time. */
function parseTime(text: string): number {
  const match = TIME.exec(text)
  if (match === null) return Number.NaN
  if (match.groups?.['ms'] !== undefined) return Number(text)
  const [year = 0, month = 0, day = 0] = text.split(/\D/).map(Number)
  return day > new Date(Date.UTC(year, month, 0)).getUTCDate() ? Number.NaN : Date.parse(text)
}
