/** What a limiter let through: when, and how many units. */
export interface Admission {
  readonly at: number
  readonly units: number
}

/**
 * The measure: the most units admitted in any window, wherever it starts. For each admission at a time p, those in
 * (p − window, p] are counted; one exactly a window earlier counts no longer. It needs no knowledge of the limiter, so it
 * can judge any limiter.
 */
export function mostInAnyWindow(admissions: readonly Admission[], window: number): number {
  const sorted = admissions.toSorted((a, b) => a.at - b.at)
  let most = 0
  let count = 0
  let oldest = 0
  for (const { at, units } of sorted) {
    count += units
    while (sorted[oldest]!.at <= at - window) count -= sorted[oldest++]!.units
    most = Math.max(most, count)
  }
  return most
}

/** Units admitted from `from`, before `from + milliseconds`. */
export function admittedWithin(admissions: readonly Admission[], from: number, milliseconds: number): number {
  return total(admissions.filter(({ at }) => at >= from && at < from + milliseconds))
}

/** Units admitted in each of the `count` intervals of a length that follow one another from `from`. */
export function admittedPer(
  admissions: readonly Admission[],
  from: number,
  milliseconds: number,
  count: number
): number[] {
  return Array.from({ length: count }, (_, i) =>
    admittedWithin(admissions, from + i * milliseconds, milliseconds)
  )
}

export function total(units: readonly { readonly units: number }[]): number {
  return units.reduce((sum, { units }) => sum + units, 0)
}
