import { isAscii, isValidKeyStr, serializeBareItem, serializeDecimal, Token } from 'structured-headers'
import { NEVER, UNKNOWN } from './algorithm.js'
import { DRAFT_11 } from './wire-names.js'

/** Field names in lower case, as Node writes them. */
export const FIELD: typeof DRAFT_11.field = DRAFT_11.field

const PARAMETER = DRAFT_11.parameter
const RESERVED: readonly string[] = [...Object.values(PARAMETER), ...Object.values(DRAFT_11.planned)]

/** The largest Integer and, with a minus sign, the smallest (RFC 9651 §3.3.1). */
const INTEGER_LIMIT = 999_999_999_999_999

/** The longest wait announced, in seconds. Node fires a timer of more than 2^31 - 1 ms after 1 ms. */
export const LONGEST_WAIT = 2_147_483

/** A Decimal (RFC 9651 §3.3.2): up to twelve digits, then up to three after a point. */
export interface Decimal {
  readonly decimal: string
}

/** A number is an Integer and a string a String; the other types of RFC 9651 §3.3 have to say so. */
export type ParameterValue = number | string | boolean | Decimal | Token

/** Vendor parameters in the order they are written in. */
export type VendorParameters = readonly (readonly [key: string, value: ParameterValue])[]

/** One member of `RateLimit-Policy` (draft §3). */
export interface PolicyItem {
  readonly name: string
  /** Units per window, `q` (§3.1.1). */
  readonly quota: number
  /** Quota unit, `qu` (§3.1.2); `requests` is left out. */
  readonly unit?: string | undefined
  /** Whole seconds, 1 or more, `w` (§3.1.3). */
  readonly window?: number | undefined
  /** `pk` (§3.1.4). */
  readonly partitionKey?: Uint8Array | undefined
  readonly parameters?: VendorParameters | undefined
}

/** One member of `RateLimit` (draft §4). */
export interface LimitItem {
  /** The name of the policy it belongs to. */
  readonly name: string
  /** Whole units that may still be spent, `r` (§4.1.1). */
  readonly available: number
  /** Whole seconds in which no more than `available` may be spent, `t` (§4.1.2). */
  readonly effectiveWindow?: number | undefined
  /** `pk` (§4.1.3). */
  readonly partitionKey?: Uint8Array | undefined
  readonly parameters?: VendorParameters | undefined
}

/**
 * The value of `RateLimit-Policy`; `''`: send no field.
 * @throws {RangeError} when a value has no form on the wire, or a name appears twice.
 */
export function serializePolicies(items: readonly PolicyItem[]): string {
  refuseTwins(items.map(({ name }) => quoted(name)))
  return items.map(policyText).join(', ')
}

function policyText({ name, quota, unit, window, partitionKey, parameters }: PolicyItem): string {
  return (
    quoted(name) +
    parameter(PARAMETER.quota, integer(name, PARAMETER.quota, quota, 0)) +
    parameter(
      PARAMETER.unit,
      unit === undefined || unit === DRAFT_11.defaultUnit ? undefined : label(`qu of "${name}"`, unit)
    ) +
    parameter(
      PARAMETER.window,
      window === undefined ? undefined : integer(name, PARAMETER.window, window, 1)
    ) +
    parameter(PARAMETER.partitionKey, partitionKey) +
    vendorText(name, parameters)
  )
}

/**
 * The value of `RateLimit`; `''`: send no field.
 * @throws {RangeError} when a value has no form on the wire, or a name appears twice with the same partition key.
 */
export function serializeLimits(items: readonly LimitItem[]): string {
  refuseTwins(items.map(item => quoted(item.name) + parameter(PARAMETER.partitionKey, item.partitionKey)))
  return items.map(limitItemText).join(', ')
}

function limitItemText({ name, available, effectiveWindow, partitionKey, parameters }: LimitItem): string {
  const { available: r, effectiveWindow: t } = PARAMETER
  return (
    quoted(name) +
    parameter(r, integer(name, r, available, 0)) +
    parameter(t, effectiveWindow === undefined ? undefined : integer(name, t, effectiveWindow, 0)) +
    parameter(PARAMETER.partitionKey, partitionKey) +
    vendorText(name, parameters)
  )
}

/** What {@link limitText} starts with; made once per policy. */
export function limitPrefix(name: string): string {
  return `${quoted(name)};${PARAMETER.available}=`
}

/**
 * One member of `RateLimit` without checks, for every response: `available` is an integer from 0 to the quota,
 * `effectiveWindow` whole seconds, 0 for none.
 */
export function limitText(prefix: string, available: number, effectiveWindow: number): string {
  if (effectiveWindow === 0) return prefix + available
  return prefix + available + (WITHIN + effectiveWindow)
}

/** What is short is put together first: it becomes one string, and not a tree of them. */
const WITHIN = `;${PARAMETER.effectiveWindow}=`

/** A partition key as the last parameter of a member (§4.1.3). */
export function partitionKeyText(key: Uint8Array): string {
  return parameter(PARAMETER.partitionKey, key)
}

/** Milliseconds as seconds on the wire: rounded up, for a client must not come early, and never 0. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** Milliseconds of a wait as seconds on the wire, at most {@link LONGEST_WAIT}; a wait in the past is over. */
export function waitSeconds(wait: number, jitter: number): number {
  return Math.min(LONGEST_WAIT, wholeSeconds(Math.max(0, wait) + jitter))
}

/**
 * Milliseconds of an effective window as `t`, 0 where none is known. A wait may be lengthened by `jitter` and ends with
 * {@link LONGEST_WAIT}; the time to spend units in does not: a shorter `t` would invite a higher rate.
 */
export function windowSeconds(ms: number, what: 'wait' | 'window', jitter: number = 0): number {
  if (ms === 0) return 0
  return what === 'wait' ? waitSeconds(ms, jitter) : wholeSeconds(ms)
}

/** So many units in so many seconds: two numbers, for their quotient is rounded. */
export interface Rate {
  readonly units: number
  readonly seconds: number
}

/**
 * What is announced where r / t exceeds a rate (draft §6, §8.5): fewer units, but never 0, or a longer time, which has a form
 * on the wire however low the rate is.
 */
export function capped(
  available: number,
  window: number,
  { units, seconds }: Rate,
  adjust: 'available' | 'window'
): { readonly available: number; readonly window: number } {
  if (window === 0 || available * seconds <= units * window) return { available, window }
  const fewer = adjust === 'window' ? available : Math.max(1, Math.floor((units * window) / seconds))
  const longer = Math.max(window, Math.ceil((fewer * seconds) / units))
  return { available: fewer, window: Math.min(INTEGER_LIMIT, longer) }
}

/** What one refusing policy adds to `Retry-After`. */
export interface Wait {
  /** Milliseconds, {@link NEVER} or {@link UNKNOWN}. Any other number below 0 is a wait that is over. */
  readonly wait: number
  /** The `t` shown for this policy, in seconds. */
  readonly effectiveWindow?: number | undefined
  /** Milliseconds added to the wait, the same as in `t`. */
  readonly jitter?: number | undefined
}

/**
 * Seconds for `Retry-After` (RFC 9110 §10.2.3): the longest known wait of the refusing policies and no earlier than a `t`
 * shown (draft §6); `undefined` when no wait helps or none is known.
 * @throws {RangeError} when a wait is not a number.
 */
export function retryAfter(waits: readonly Wait[]): number | undefined {
  let longest = 0
  let shown = 0
  for (const { wait, effectiveWindow = 0, jitter = 0 } of waits) {
    if (wait === NEVER) return undefined
    if (effectiveWindow > shown) shown = effectiveWindow
    if (wait === UNKNOWN) continue
    const seconds = waitSeconds(wait, jitter)
    if (Number.isNaN(seconds)) throw new RangeError('retry-after: a wait must be milliseconds, got NaN')
    if (seconds > longest) longest = seconds
  }
  return longest === 0 ? undefined : Math.min(LONGEST_WAIT, Math.max(longest, shown))
}

/** `Retry-After` as an IMF-fixdate (RFC 9110 §5.6.7), rounded up to the second; `now` in milliseconds of the epoch. */
export function retryAfterDate(seconds: number, now: number): string {
  return new Date((Math.ceil(now / 1000) + seconds) * 1000).toUTCString()
}

/** What {@link closestFirst} looks at. */
export interface Closeness {
  readonly remaining: number
  readonly quota: number
  /** In any unit, the same for all; 0: the policy has none. */
  readonly window: number
}

/**
 * Orders the members of `RateLimit`: the lowest share left first (a quota of 0 before all), then the longer window (none
 * after all). Clients that read one member read the first.
 */
export function closestFirst(a: Closeness, b: Closeness): number {
  return share(a) - share(b) || b.window - a.window
}

function share({ remaining, quota }: Closeness): number {
  return quota === 0 ? -1 : remaining / quota
}

/** Whether a response carries the fields: not on 1xx, nor on 3xx, where a low `r` could stop a client following (§6). */
export function carriesFields(statusCode: number): boolean {
  return statusCode >= 400 || (statusCode >= 200 && statusCode < 300) || statusCode === 304
}

/** Adds `own` to the list a field already has, by others, on the same response. */
export function joinField(existing: number | string | readonly string[] | undefined, own: string): string {
  return [existing ?? '', own]
    .flat()
    .filter(value => value !== '')
    .join(', ')
}

function refuseTwins(identities: readonly string[]): void {
  const twin = identities.find((identity, index) => identities.indexOf(identity) !== index)
  if (twin !== undefined) throw new RangeError(`${twin} appears twice in one field`)
}

function parameter(key: string, value: ParameterValue | Uint8Array | undefined): string {
  if (value === undefined) return ''
  if (value === true) return `;${key}`
  return `;${key}=${typeof value === 'object' && 'decimal' in value ? decimalText(value) : serializeBareItem(value)}`
}

/** structured-headers ends a whole Decimal with its point; RFC 9651 §4.1.5 wants a digit after it. */
function decimalText({ decimal }: Decimal): string {
  return serializeDecimal(Number(decimal)).replace(/\.$/, '.0')
}

function vendorText(name: string, parameters: VendorParameters = []): string {
  const keys = parameters.map(([key]) => key)
  return parameters
    .map(([key, value], index) => {
      if (isValidKeyStr(key) && !RESERVED.includes(key) && keys.indexOf(key) === index) {
        return parameter(key, vendorValue(name, key, value))
      }
      throw new RangeError(
        `"${name}": a vendor parameter needs a lower-case key of its own, such as "acme-burst", got "${key}"`
      )
    })
    .join('')
}

function vendorValue(name: string, key: string, value: ParameterValue): ParameterValue {
  if (typeof value === 'number') return integer(name, key, value, -INTEGER_LIMIT)
  if (typeof value === 'boolean' || value instanceof Token) return value
  if (typeof value === 'string' ? isAscii(value) : /^-?\d{1,12}(\.\d{1,3})?$/.test(value.decimal))
    return value
  throw new RangeError(
    `"${name}": ${key} must be printable ASCII or a decimal such as "1.5", got ${JSON.stringify(value)}`
  )
}

function integer(name: string, key: string, value: number, least: number): number {
  if (Number.isInteger(value) && value >= least && value <= INTEGER_LIMIT) return value
  throw new RangeError(
    `"${name}": ${key} must be an integer from ${least} to ${INTEGER_LIMIT}, got ${String(value)}`
  )
}

function quoted(name: string): string {
  return serializeBareItem(label('a policy name', name))
}

function label(what: string, value: string): string {
  if (value !== '' && isAscii(value)) return value
  throw new RangeError(`${what} must be one or more printable ASCII characters, got ${JSON.stringify(value)}`)
}
