/**
 * Reads Structured Fields (RFC 9651) as strictly as its §4.2 asks: one syntax error anywhere, and there is no value. It
 * keeps apart what the fields of the draft keep apart, an Integer from a Decimal such as `5.0`, and reads parameters of
 * all other types as well, for others may have added them. Inner Lists are refused: none of these fields has them.
 */

/** An Integer, a String or a Byte Sequence; `null`: a value of one of the other types, which no parameter of ours has. */
export type BareItem = number | string | Uint8Array | null

export interface Item {
  readonly value: BareItem
  readonly parameters: ReadonlyMap<string, BareItem>
}

/** The members of a List (§4.2.1); `undefined`: it is none. */
export function parseList(field: string): readonly Item[] | undefined {
  return members(new Cursor(field), item)
}

/** The members of a Dictionary (§4.2.2), of which the last one of a name counts; `undefined`: it is none. */
export function parseDictionary(field: string): ReadonlyMap<string, Item> | undefined {
  const entries = members(new Cursor(field), cursor => {
    const name = cursor.take(KEY)?.[0]
    if (name === undefined) return undefined
    const member = cursor.take(EQUALS) === undefined ? parameterized(cursor, null) : item(cursor)
    return member && ([name, member] as const)
  })
  return entries && new Map(entries)
}

const SPACES = / */y
const OPTIONAL_WHITESPACE = /[ \t]*/y
const COMMA = /,/y
const SEMICOLON = /; */y
const EQUALS = /=/y
const KEY = /[a-z*][a-z\d_\-.*]*/y

const STRING = String.raw`"(?<string>(?:[ !#-\[\]-~]|\\["\\])*)"`
const BYTES = String.raw`:(?<bytes>[A-Za-z\d+/]*=*):`
const DECIMAL = String.raw`-?\d{1,12}\.\d{1,3}`
const INTEGER = String.raw`(?<integer>-?\d{1,15})`
const DATE = String.raw`@-?\d{1,15}`
const BOOLEAN = String.raw`\?[01]`
const TOKEN = "[A-Za-z*][\\w:/!#$%&'*+\\-.^`|~]*"
const DISPLAY_STRING = String.raw`%"(?<display>(?:[ !#$&-~]|%[\da-f]{2})*)"`
const BARE_ITEM = new RegExp(
  [STRING, BYTES, DECIMAL, INTEGER, DATE, BOOLEAN, TOKEN, DISPLAY_STRING].join('|'),
  'y'
)

/** A place in a text that is read from left to right. */
class Cursor {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get ended(): boolean {
    return this.#at === this.#text.length
  }

  /** What a sticky pattern finds here; the cursor is then behind it. */
  take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found === null) return undefined
    this.#at = pattern.lastIndex
    return found
  }
}

function members<T>(cursor: Cursor, member: (cursor: Cursor) => T | undefined): readonly T[] | undefined {
  const found: T[] = []
  cursor.take(SPACES)
  while (!cursor.ended) {
    const next = member(cursor)
    if (next === undefined) return undefined
    found.push(next)
    cursor.take(OPTIONAL_WHITESPACE)
    if (cursor.ended) return found
    if (cursor.take(COMMA) === undefined) return undefined
    cursor.take(OPTIONAL_WHITESPACE)
    if (cursor.ended) return undefined
  }
  return found
}

function item(cursor: Cursor): Item | undefined {
  const value = bareItem(cursor)
  return value === undefined ? undefined : parameterized(cursor, value)
}

function parameterized(cursor: Cursor, value: BareItem): Item | undefined {
  const parameters = new Map<string, BareItem>()
  while (cursor.take(SEMICOLON) !== undefined) {
    const key = cursor.take(KEY)?.[0]
    const parameter = key !== undefined && cursor.take(EQUALS) !== undefined ? bareItem(cursor) : null
    if (key === undefined || parameter === undefined) return undefined
    parameters.set(key, parameter)
  }
  return { value, parameters }
}

function bareItem(cursor: Cursor): BareItem | undefined {
  const groups = cursor.take(BARE_ITEM)?.groups
  if (groups === undefined) return undefined
  const { string, bytes, integer, display } = groups
  if (string !== undefined) return string.replaceAll(/\\(.)/g, '$1')
  if (integer !== undefined) return Number(integer) + 0
  if (bytes !== undefined) return decoded(bytes)
  return display === undefined || isUtf8(display) ? null : undefined
}

/** Padding may be left out and pad bits need not be zero: parsers are asked to let that pass (§4.2.7). */
function decoded(base64: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(base64), character => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

/** The bytes of a Display String are UTF-8 (§4.2.10). */
function isUtf8(percentEncoded: string): boolean {
  try {
    return decodeURIComponent(percentEncoded) !== undefined
  } catch {
    return false
  }
}
