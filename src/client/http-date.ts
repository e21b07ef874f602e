const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const WEEKDAY = '(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)'
const MONTH = `(?<month>${MONTHS.join('|')})`
const TIME = String.raw`(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d):(?<second>[0-5]\d|60)`

/** The form to write, and the two old ones that every reader has to accept (RFC 9110 §5.6.7). */
const FORMS = [
  String.raw`${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  String.raw`${WEEKDAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  String.raw`${DAY} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})`
].map(form => new RegExp(`^${form}$`))

/**
 * An HTTP-date in milliseconds of the epoch; `undefined` for anything else, such as the almost-dates that `Date.parse`
 * makes something of. `now` places a year of two digits: it is not more than fifty years ahead.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const groups = FORMS.map(form => form.exec(text)?.groups).find(found => found !== undefined)
  if (groups === undefined) return undefined
  const part = (name: string): number => Number(groups[name])
  const year = groups['year']!.length === 2 ? century(part('year'), now) : part('year')
  const month = MONTHS.indexOf(groups['month']!)
  return Date.UTC(year, month, part('day'), part('hour'), part('minute'), part('second'))
}

function century(year: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear()
  const full = thisYear - (thisYear % 100) + year
  return full > thisYear + 50 ? full - 100 : full
}
