import type { State } from '../../algorithm.js'

/** Numbers below this are written as they are; from this on, as what they are more than a base. */
const HALF = 2 ** 31
const LARGEST = 0x7fffffff
const SIGN = 0x80000000

/**
 * What the large numbers of a state are counted from, so that each number of it fits in thirty-two bits: most states are
 * counts, and times that are not far apart. `NaN`: it has numbers that do not.
 */
export function baseOf(state: State): number {
  let base = Infinity
  let most = 0
  for (let i = 0; i < state.length; i++) {
    const number = state[i]!
    if (!(number >= 0) || Math.floor(number) !== number) return NaN
    if (number < HALF) continue
    if (number < base) base = number
    if (number > most) most = number
  }
  return most - base < HALF ? base : NaN
}

/** What stands for a number, as a signed integer: negative for one that is counted from the base. `NaN`: it is not near. */
export function toWord(number: number, base: number): number {
  const offset = number < HALF ? number : number - base
  if ((offset & LARGEST) !== offset) return NaN
  return number < HALF ? offset : offset | SIGN
}

/** The number that a word stands for. */
export const fromWord = (word: number, base: number): number => (word >= 0 ? word : (word & LARGEST) + base)
