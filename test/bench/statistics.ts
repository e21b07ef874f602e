/** The value below which a share of all lies, between two of them where it has to be. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length - 1) * share
  const below = Math.floor(place)
  const low = sorted[below] ?? NaN
  return low + (sorted[Math.ceil(place)]! - low) * (place - below)
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

/** The median of what two measures of the same rounds make together: what disturbs a round disturbs both. */
export function paired(
  a: readonly number[],
  b: readonly number[],
  together: (a: number, b: number) => number
): number {
  return median(a.map((value, round) => together(value, b[round]!)))
}

/** Values in so many runs of the same length, as far as there are so many values: the first ones of one run, and so on. */
export function blocks<T>(values: readonly T[], count: number): readonly (readonly T[])[] {
  const most = Math.min(count, values.length)
  return Array.from({ length: most }, (_, block) =>
    values.slice(Math.floor((block * values.length) / most), Math.floor(((block + 1) * values.length) / most))
  )
}
