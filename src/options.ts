import { distance } from 'fastest-levenshtein'

/** Throws the error of one place in the configuration; the message says what is wrong there. */
export type Refuse = (message: string) => never

/** Makes the `Refuse` of one place, such as `policy "daily"`. */
export function refuser(QuotaError: new (message: string) => Error, place: string): Refuse {
  return message => {
    throw new QuotaError(`${place}: ${message}`)
  }
}

/** The largest Integer of a structured field (RFC 9651 §3.3.1), and so the largest quota. */
export const LARGEST_INTEGER = 999_999_999_999_999

/** A value as an error message shows it: short, on one line, its type visible. */
export function show(value: unknown): string {
  const text = describe(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

function describe(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'number' || typeof value === 'symbol') return String(value)
  try {
    if (isObject(value) && !isPlain(value)) return instance(value)
    return JSON.stringify(value) ?? String(value)
  } catch {
    return 'an object' // circular, with a bigint inside, or without a constructor
  }
}

/** Never what is in it: a client of a database has its password there. */
function instance(value: object): string {
  const { name } = value.constructor
  return name === 'Object' ? 'an object that inherits from another one' : `an instance of ${name}`
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether it inherits nothing but what every object does, in this realm or another one. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null
  return prototype === null || Object.hasOwn(prototype, 'isPrototypeOf')
}

/** A copy, which inherits nothing, so that options are what was written and nothing that is true of every object. */
export function asObject(refuse: Refuse, option: string, value: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(value)) return refuse(`${option} must be an object, got ${show(value)}`)
  if (!isPlain(value)) return refuse(`${option} must be a plain object, got ${show(value)}`)
  return Object.assign(Object.create(null) as Record<string, unknown>, value)
}

/** `orElse` names what else it could have been. */
export function asInteger(
  refuse: Refuse,
  option: string,
  value: unknown,
  least: number,
  most: number,
  orElse = ''
): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most)
    return value + 0
  return refuse(`${option} must be an integer from ${least} to ${most}${orElse}, got ${show(value)}`)
}

export function asBoolean(refuse: Refuse, option: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse(`${option} must be true or false, got ${show(value)}`)
}

export function asFunction<F extends (...parameters: never[]) => unknown>(
  refuse: Refuse,
  option: string,
  value: F | undefined
): F {
  return typeof value === 'function' ? value : refuse(`${option} must be a function, got ${show(value)}`)
}

export function asOneOf<T extends string | number | boolean>(
  refuse: Refuse,
  option: string,
  value: unknown,
  values: readonly T[]
): T {
  if (values.includes(value as T)) return value as T
  return refuse(
    `${option} must be ${alternatives(values)}, got ${show(value)}${suggestion(
      value,
      values.filter(word => typeof word === 'string')
    )}`
  )
}

/** `"a", "b" or "c"`. */
export function alternatives(values: readonly unknown[]): string {
  return values
    .map(show)
    .join(', ')
    .replace(/, ([^,]+)$/, ' or $1')
}

const DURATION = /^(\d{1,9})(ms|s|m|h|d)$/
const MILLISECONDS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const LONGEST = 36_525 * MILLISECONDS.d

/** A duration in milliseconds, from seconds as an integer or from text such as `'500ms'`, `'10s'`, `'1m'`, `'2h'`, `'1d'`. */
export function asDuration(refuse: Refuse, option: string, value: unknown): number {
  const duration = milliseconds(value)
  if (duration !== undefined && duration > 0 && duration <= LONGEST) return duration
  return refuse(
    `${option} must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', ` +
      `more than 0 and at most 36525d, got ${show(value)}`
  )
}

/** A duration as an error message shows it, with the unit that nobody has written. */
export function showDuration(value: unknown): string {
  return typeof value === 'number' ? `${value}, which is in seconds` : show(value)
}

function milliseconds(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? value * 1000 : undefined
  const [, count, unit] = (typeof value === 'string' && DURATION.exec(value)) || []
  return unit === undefined ? undefined : Number(count) * MILLISECONDS[unit as keyof typeof MILLISECONDS]
}

/**
 * Refuses keys that are not in `known`, with a suggestion for a near miss. `habits` are keys that people bring from other
 * limiters, each with its name here and perhaps a remark after that.
 */
export function knownKeys(
  refuse: Refuse,
  options: Readonly<Record<string, unknown>>,
  known: readonly string[],
  habits: Readonly<Record<string, string>> = {}
): void {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    const habit = Object.hasOwn(habits, key) ? habits[key]!.replace(/^\w+/, '"$&"') : undefined
    const hint = habit === undefined ? suggestion(key, known) : `; did you mean ${habit}?`
    refuse(
      `unknown option ${show(key)} with the value ${outline(options[key])}${hint || `; expected ${known.join(', ')}`}`
    )
  }
}

/** As {@link show}, but of an object its keys alone: what somebody tries may be a connection with its password. */
export function outline(value: unknown): string {
  if (Array.isArray(value) && value.some(isObject)) return 'a list of objects'
  if (!isObject(value) || !isPlain(value)) return show(value)
  return `an object with ${Object.keys(value).slice(0, 5).map(show).join(', ') || 'no keys'}`
}

/** `; did you mean "quota"?`, or nothing when no word is near. */
export function suggestion(value: unknown, words: readonly string[]): string {
  if (typeof value !== 'string') return ''
  const [nearest] = words
    .map(word => ({ word, edits: distance(value.toLowerCase(), word.toLowerCase()) }))
    .filter(({ word, edits }) => edits <= 2 && edits < word.length)
    .sort((a, b) => a.edits - b.edits)
  return nearest === undefined ? '' : `; did you mean "${nearest.word}"?`
}
