const MILLISECONDS = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
  y: 31_557_600_000
} as const

/** What a unit may be called, the long and the short names. */
const NAMES: readonly (readonly [unit: keyof typeof MILLISECONDS, names: string])[] = [
  ['ms', 'ms msec msecs millisecond milliseconds'],
  ['s', 's sec secs second seconds'],
  ['m', 'm min mins minute minutes'],
  ['h', 'h hr hrs hour hours'],
  ['d', 'd day days'],
  ['w', 'w wk wks week weeks'],
  ['y', 'y yr yrs year years']
]

const UNITS = new Map(
  NAMES.flatMap(([unit, names]) => names.split(' ').map(name => [name, MILLISECONDS[unit]] as const))
)

/**
 * The milliseconds of a text such as `'1 minute'`, `'30s'`, `'1.5 hours'`, or `'500'`, which is in milliseconds itself.
 * @returns `undefined` for anything else, and for parts of a millisecond.
 */
export function millisecondsOf(text: string): number | undefined {
  const [, count, name = ''] = /^(\d*\.?\d+) *([a-z]*)$/i.exec(text) ?? []
  const unit = name === '' ? 1 : UNITS.get(name.toLowerCase())
  if (count === undefined || unit === undefined) return undefined
  const milliseconds = Number(count) * unit
  return Number.isInteger(milliseconds) ? milliseconds : undefined
}

const LONG_NAMES = [
  ['year', MILLISECONDS.y],
  ['day', MILLISECONDS.d],
  ['hour', MILLISECONDS.h],
  ['minute', MILLISECONDS.m]
] as const

/** Seconds in the largest unit they fill, rounded: 90 is `2 minutes`. */
export function inWords(seconds: number): string {
  const [name, unit] = LONG_NAMES.find(([, unit]) => seconds * 1000 >= unit) ?? ['second', MILLISECONDS.s]
  const count = Math.round((seconds * 1000) / unit)
  return `${count} ${name}${count === 1 ? '' : 's'}`
}
