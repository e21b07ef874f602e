import type { Prometheus, Series, Span } from './prometheus.js'
import { panels, queriesOf } from './watching.js'

/** What a query of a panel showed. */
export interface Shown {
  readonly panel: string
  readonly query: string
  readonly series: readonly Series[]
}

/** What the queries of the dashboard give over a span of time, filled in as Grafana does it, of jobs that match. */
export function show(prometheus: Prometheus, span: Span, jobs: string = '.+'): Promise<readonly Shown[]> {
  const values: Readonly<Record<string, string>> = {
    // At least four scrapes.
    $__rate_interval: `${4 * prometheus.interval}ms`,
    $__range: `${span.to - span.from}ms`,
    $job: jobs
  }
  const filledIn = (query: string): string =>
    query.replaceAll(/\$\w+/g, name => {
      const value = values[name]
      if (value === undefined) throw new Error(`what is ${name}?`)
      return value
    })
  return Promise.all(
    panels().flatMap(panel =>
      queriesOf(panel).map(async query => ({
        panel: panel.title,
        query,
        series: await prometheus.series(filledIn(query), span)
      }))
    )
  )
}

export interface Extent {
  readonly series: number
  readonly points: number
  readonly min: number
  readonly max: number
}

export function extentOf({ series }: Pick<Shown, 'series'>): Extent {
  const numbers = series.flatMap(({ points }) => points.map(([, value]) => value))
  return {
    series: series.filter(({ points }) => points.length > 0).length,
    points: numbers.length,
    min: Math.min(...numbers),
    max: Math.max(...numbers)
  }
}
