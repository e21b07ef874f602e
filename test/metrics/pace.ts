/*
 * The minutes of Prometheus, made shorter: those of rules, scrapes and evaluations, all by one factor. What an app, a store
 * or a client does keeps its own time: deadlines, probes, the windows of quotas. So the expressions are the same, a minute
 * has as many scrapes, and fewer requests are made in it.
 */

const UNITS: Readonly<Record<string, number>> = { ms: 1 / 60_000, s: 1 / 60, m: 1, h: 60, d: 1440 }

/** A range, the step of a subquery, an offset, or what a rule waits for, and the duration that follows. */
const DURATIONS = /(\[|(?<=\[\w+):|\boffset |\b(?:keep_firing_)?for: )((?:\d+(?:ms|[smhd]))+)\b/g

/** Rules, or a query, in which what took a minute takes so many milliseconds; nothing else is changed. */
export const hastened = (text: string, minute: number): string =>
  text.replaceAll(DURATIONS, (_, before: string, duration: string) => {
    return `${before}${Math.round(minutesOf(duration) * minute)}ms`
  })

/** Minutes of a duration of Prometheus. */
export const minutesOf = (duration: string): number =>
  [...duration.matchAll(/(\d+)(ms|[smhd])/g)].reduce(
    (sum, [, count, unit = '']) => sum + Number(count) * UNITS[unit]!,
    0
  )
