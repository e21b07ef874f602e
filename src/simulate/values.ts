import { asDuration, asInteger, show } from '../options.js'
import type { Refuse } from '../options.js'

/** What stood on the command line, as text. */
export interface Given {
  readonly scenario?: readonly string[]
  readonly algorithm?: readonly string[]
  readonly precision?: readonly string[]
  readonly burst?: string
  readonly maxDelay?: string
  readonly drained?: boolean
  readonly quota?: string
  readonly window?: string
  readonly rate?: string
  readonly for?: string
  readonly burstOf?: readonly string[]
  readonly at?: readonly string[]
  readonly file?: string
  readonly phase?: readonly string[]
}

/** Refuses the first of the options that is given, for it means nothing without its partner. */
export function absent(
  refuse: Refuse,
  given: Given,
  options: readonly (keyof Given)[],
  partner: string
): void {
  for (const option of options) {
    const value = given[option]
    if (value !== undefined) refuse(`--${option} goes with ${partner}, got ${show(String(value))} alone`)
  }
}

export function required(
  refuse: Refuse,
  value: string | undefined,
  option: string,
  expected: string
): string {
  return value ?? refuse(`${option} is required: ${expected}`)
}

export function readInteger(
  refuse: Refuse,
  option: string,
  text: string,
  least: number,
  most: number
): number {
  return asInteger(refuse, option, /^-?\d{1,16}$/.test(text) ? Number(text) : text, least, most)
}

/** Whole seconds may be written without a unit. */
export function readDuration(refuse: Refuse, option: string, text: string): number {
  return asDuration(refuse, option, /^\d{1,16}$/.test(text) ? Number(text) : text)
}

/** A time on the virtual clock, which starts at 0. */
export function readTime(refuse: Refuse, option: string, text: string): number {
  return /^0{1,9}(ms|s|m|h|d)?$/.test(text) ? 0 : readDuration(refuse, option, text)
}
