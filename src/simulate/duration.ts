const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000]
] as const

/** Milliseconds as the options write them: `'1m'`, `'90s'`, `'1500ms'`. */
export function duration(milliseconds: number): string {
  if (milliseconds === 0) return '0s'
  const [unit, length] = UNITS.find(([, length]) => milliseconds % length === 0) ?? ['ms', 1]
  return `${milliseconds / length}${unit}`
}
