import assert from 'node:assert/strict'
import fc from 'fast-check'
import { runs } from '../algorithms/kit.js'

/** Runs of a property whose inputs take so many times longer than those of most. */
export const sized = (times: number): number => Math.max(20, Math.round(runs / times))

// --- Text -------------------------------------------------------------------------------------------------------------

/** Words that mean something to JavaScript, HTTP, Redis or a terminal. */
const LOADED = [
  '',
  ' ',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'undefined',
  'null',
  'NaN',
  '-1',
  '0x10',
  '1e309',
  '9007199254740993',
  '{x}',
  '}{',
  'q1:{q1}',
  '\0',
  '\r\n',
  '\r\nset-cookie: a=b\r\n\r\n',
  '\ud800',
  '\udfff',
  '\u202e',
  'é',
  '💥',
  '"',
  '\\',
  '\\"',
  '%0d%0a',
  '*',
  '7:user:42',
  '13:route:GET /x',
  'user:42',
  'ip:203.0.113.9',
  '${7*7}',
  '../../etc/passwd',
  "' OR 1=1 --"
] as const

/** Any text, and what lies near the words above. Without huge ones: those are asked for by name. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...LOADED),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 40 }),
  fc.tuple(fc.constantFrom(...LOADED), fc.constantFrom(...LOADED)).map(pair => pair.join('')),
  fc
    .tuple(fc.constantFrom(...LOADED), fc.constantFrom(':', ',', ';', '=', ' '), fc.nat(99))
    .map(all => all.join(''))
)

/** A short piece again and again: what an expression that steps back too often is slow at. */
export const huge = (piece: fc.Arbitrary<string>, most: number): fc.Arbitrary<string> =>
  fc
    .tuple(piece, fc.integer({ min: most >> 3, max: most }), text)
    .map(
      ([piece, length, end]) =>
        piece.repeat(Math.ceil(length / Math.max(1, piece.length))).slice(0, length) + end
    )

/** What Node lets through as the value of a field: neither control characters nor what is not in Latin-1. */
export const fieldValue: fc.Arbitrary<string> = fc
  .oneof(text, fc.string({ unit: 'grapheme', maxLength: 60 }))
  .map(value => value.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, ''))

// --- Values -----------------------------------------------------------------------------------------------------------

/** Trees of anything that JavaScript has, plausible and not. */
export const anything: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(undefined, null, true, false, 0, -0, 1, -1, 0.5, NaN, Infinity) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(2 ** 31, 2 ** 53, 1e15, 1e300, 10n, Symbol('s'), '100/1m', '1m', '10s')
  },
  { weight: 2, arbitrary: text },
  { weight: 2, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.double() },
  {
    weight: 1,
    arbitrary: fc.constantFrom(() => 1, new Date(0), /x/, new Map(), new Error('no'), Object, Array(1))
  },
  { weight: 2, arbitrary: fc.array(fc.oneof(text, fc.integer(), fc.constant(undefined)), { maxLength: 3 }) },
  {
    weight: 2,
    arbitrary: fc.dictionary(text, fc.oneof(text, fc.integer(), fc.constant({})), { maxKeys: 3 })
  },
  { weight: 1, arbitrary: fc.anything() }
)

/** A word with one letter left out, doubled, or changed for its neighbour. */
export const nearMiss = (word: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.tuple(word, fc.nat(), fc.constantFrom('drop', 'double', 'swap', 'case')).map(([word, place, how]) => {
    const at = place % word.length
    const [before, letter, after] = [word.slice(0, at), word[at]!, word.slice(at + 1)]
    if (how === 'drop') return before + after
    if (how === 'double') return before + letter + letter + after
    if (how === 'case')
      return before + (letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase()) + after
    return before + after.slice(0, 1) + letter + after.slice(1)
  })

// --- Time -------------------------------------------------------------------------------------------------------------

interface Timed {
  readonly ms: number
  readonly size: number
  readonly work: () => unknown
}

/** How often an input is tried before it is accused: whatever else the machine did, it did not do each time. */
const TRIES = 7
const TIMES_MEDIAN = 50
const SUSPECTS = 5

/** Measures what each input of a group costs. */
export class Costs {
  readonly #taken: number[] = []
  #slowest: Timed[] = []

  /** Does what an input of `size` characters asks for. */
  time<T>(size: number, work: () => T): T {
    const begun = performance.now()
    const result = work()
    const ms = performance.now() - begun
    this.#taken.push(ms)
    if (this.#slowest.length < SUSPECTS || ms > this.#slowest.at(-1)!.ms) {
      this.#slowest = [...this.#slowest, { ms, size, work }]
        .toSorted((a, b) => b.ms - a.ms)
        .slice(0, SUSPECTS)
    }
    return result
  }

  /** How many inputs there were. */
  get inputs(): number {
    return this.#taken.length
  }

  /** @throws if an input costs more than 50 times the median, and more than 5 ms and what reading it takes. */
  check(): void {
    const median = this.#taken.toSorted((a, b) => a - b)[this.#taken.length >> 1]!
    for (const { size, work } of this.#slowest) {
      const allowed = Math.max(TIMES_MEDIAN * median, 5 + size / 512)
      let least = Infinity
      for (let i = 0; i < TRIES && least > allowed; i++) {
        const begun = process.cpuUsage()
        work()
        const { user, system } = process.cpuUsage(begun)
        least = Math.min(least, (user + system) / 1000)
      }
      assert.ok(
        least <= allowed,
        `an input of ${size} characters takes ${least} ms, at most ${allowed} ms expected`
      )
    }
  }
}
