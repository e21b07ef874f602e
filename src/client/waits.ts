import { parseHttpDate } from './http-date.js'

/** Where a point in time becomes a wait: by the server's clock, if it shows it, and by the client's otherwise. */
export interface Clocks {
  /** The `Date` field of the response. */
  readonly date: string | undefined
  /** The client's time, in milliseconds of the epoch. */
  readonly now: number
}

/** Numbers of seconds from this one on are points in time, of 2001 and later; those below are waits. */
const FIRST_EPOCH = 1e9

/** The same in milliseconds. */
const FIRST_EPOCH_MS = 1e12

/** A reset farther away than this is no reset but a misunderstanding. */
const LONGEST_RESET = 366 * 86_400_000

/** The last moment that a Date can hold, in milliseconds of the epoch (ECMA-262, "Time Values"). */
const LAST_DATE = 8.64e15

/** A moment in milliseconds of the epoch as a date; one that no date can hold, as the last there is. */
export function dateOf(time: number): Date {
  return new Date(Math.min(time, LAST_DATE))
}

const DURATION =
  /^(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d+)?)s)?(?:(\d{1,12}(?:\.\d+)?)ms)?$/
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/

/**
 * `Retry-After` (RFC 9110 §10.2.3) in milliseconds: whole seconds, or the time until an HTTP-date. `undefined` for what
 * it must not be, and for no wait at all: a refusal that says "now" says nothing.
 */
export function parseRetryAfter(field: string | undefined, clocks: Clocks): number | undefined {
  if (field === undefined) return undefined
  const text = field.trim()
  const wait = /^\d{1,15}$/.test(text) ? Number(text) * 1000 : until(parseHttpDate(text, clocks.now), clocks)
  return wait !== undefined && wait > 0 ? wait : undefined
}

/**
 * The reset of one of the older fields in milliseconds from now. Nobody says which kind it is, and no wait looks like a
 * point in time: seconds from now, Unix seconds or milliseconds, a duration such as `6m0s`, RFC 3339, or an HTTP-date.
 * `undefined` for anything else, and for what is over or absurdly far away.
 */
export function parseReset(field: string | undefined, clocks: Clocks): number | undefined {
  if (field === undefined) return undefined
  const wait = resetOf(field.trim(), clocks)
  return wait !== undefined && wait > 0 && wait <= LONGEST_RESET ? wait : undefined
}

function resetOf(text: string, clocks: Clocks): number | undefined {
  if (/^\d+(?:\.\d+)?$/.test(text)) {
    const number = Number(text)
    if (number >= FIRST_EPOCH_MS) return until(number, clocks)
    // A whole second may have been rounded down, so it is over one second later.
    return number >= FIRST_EPOCH ? until(number * 1000 + 1000, clocks) : number * 1000
  }
  if (RFC_3339.test(text)) return until(Date.parse(text), clocks)
  return duration(text) ?? until(parseHttpDate(text, clocks.now), clocks)
}

function duration(text: string): number | undefined {
  const found = DURATION.exec(text)
  if (found === null) return undefined
  const [hours, minutes, seconds, milliseconds] = found.slice(1).map(part => Number(part ?? 0))
  return hours! * 3_600_000 + minutes! * 60_000 + seconds! * 1000 + milliseconds!
}

/** A server's clock shows whole seconds, rounded down, so that the wait is rounded up. */
function until(time: number | undefined, { date, now }: Clocks): number | undefined {
  if (time === undefined) return undefined
  return time - ((date === undefined ? undefined : parseHttpDate(date, now)) ?? now)
}
