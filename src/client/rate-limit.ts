import { DRAFT_11 } from '../wire-names.js'
import { parseList } from './structured-fields.js'
import type { BareItem, Item } from './structured-fields.js'

/** A field as a response has it: its value, the values of its lines, or nothing. */
export type FieldValue = string | readonly string[] | null | undefined

/** One member of `RateLimit` (draft §4). */
export interface RateLimitItem {
  /** The name of the policy it belongs to. */
  readonly policy: string
  /** Units that may still be spent: an integer, 0 or more (`r`, §4.1.1). No promise that a request is served. */
  readonly available: number
  /** Seconds in which no more than `available` may be spent: an integer, 0 or more (`t`, §4.1.2). */
  readonly effectiveWindow?: number
  /** Which part of the quota it is about (`pk`, §4.1.3). */
  readonly partitionKey?: Uint8Array
}

/** One member of `RateLimit-Policy` (draft §3). */
export interface RateLimitPolicyItem {
  /** The name of the policy. */
  readonly policy: string
  /** Units per window: an integer, 0 or more (`q`, §3.1.1). */
  readonly quota: number
  /** What is counted (`qu`, §3.1.2); `'requests'` where nothing is said. */
  readonly unit: string
  /** Seconds: an integer, 1 or more (`w`, §3.1.3). */
  readonly window?: number
  /** Which part of the quota it is about (`pk`, §3.1.4). */
  readonly partitionKey?: Uint8Array
}

/**
 * Reads a `RateLimit` field of draft-ietf-httpapi-ratelimit-headers, revisions 08 to 11. `a` and `w`, which a next
 * revision may write for `r` and `t`, are read too; a member that mixes the two is malformed.
 *
 * @param field its value; of several field lines, their values.
 * @returns its members in their order; `undefined` for what has to be ignored (§7): nothing at all, an error of syntax
 * anywhere (RFC 9651 §4.2), or a member that is not a String with the parameters of its kind. Parameters that the draft
 * does not know are comments. It never throws.
 */
export function parseRateLimit(field: FieldValue): readonly RateLimitItem[] | undefined {
  return parsed(field, limitItem)
}

/**
 * Reads a `RateLimit-Policy` field of draft-ietf-httpapi-ratelimit-headers, revisions 08 to 11.
 *
 * @param field its value; of several field lines, their values.
 * @returns its members in their order; `undefined` for what has to be ignored, as {@link parseRateLimit} says. It never
 * throws.
 */
export function parseRateLimitPolicy(field: FieldValue): readonly RateLimitPolicyItem[] | undefined {
  return parsed(field, policyItem)
}

function parsed<T>(
  field: FieldValue,
  read: (policy: string, parameters: Item['parameters']) => T | undefined
): readonly T[] | undefined {
  if (field === undefined || field === null) return undefined
  const members = parseList(typeof field === 'string' ? field : field.join(', '))
  if (members === undefined || members.length === 0) return undefined
  const items = members.map(({ value, parameters }) =>
    typeof value === 'string' ? read(value, parameters) : undefined
  )
  return items.every(item => item !== undefined) ? items : undefined
}

function limitItem(policy: string, parameters: Item['parameters']): RateLimitItem | undefined {
  const names = namesOf(parameters)
  const available = integer(parameters.get(names.available), 0)
  const effectiveWindow = optional(parameters.get(names.effectiveWindow), value => integer(value, 0))
  const partitionKey = optional(parameters.get(DRAFT_11.parameter.partitionKey), bytes)
  if (available === undefined || effectiveWindow === undefined || partitionKey === undefined) return undefined
  if (mixesGenerations(parameters)) return undefined
  return { policy, available, ...present({ effectiveWindow, partitionKey }) }
}

const hasPlanned = (parameters: Item['parameters']): boolean => parameters.has(DRAFT_11.planned.available)

const namesOf = (parameters: Item['parameters']): { available: string; effectiveWindow: string } =>
  hasPlanned(parameters) ? DRAFT_11.planned : DRAFT_11.parameter

/** Nobody can tell which of two numbers is meant. */
function mixesGenerations(parameters: Item['parameters']): boolean {
  const { available, effectiveWindow } = DRAFT_11.parameter
  return hasPlanned(parameters) && (parameters.has(available) || parameters.has(effectiveWindow))
}

function policyItem(policy: string, parameters: Item['parameters']): RateLimitPolicyItem | undefined {
  const names = DRAFT_11.parameter
  const quota = integer(parameters.get(names.quota), 0)
  const unit = optional(parameters.get(names.unit), text)
  const window = optional(parameters.get(names.window), value => integer(value, 1))
  const partitionKey = optional(parameters.get(names.partitionKey), bytes)
  if (quota === undefined || unit === undefined || window === undefined || partitionKey === undefined)
    return undefined
  return { policy, quota, unit: unitName(unit), ...present({ window, partitionKey }) }
}

/** §3.1.2 says `requests` and the registry of §10.3 `request`: they are one unit. */
function unitName(unit: string | null): string {
  return unit === null || unit === 'request' ? DRAFT_11.defaultUnit : unit
}

function integer(value: BareItem | undefined, least: number): number | undefined {
  return typeof value === 'number' && value >= least ? value : undefined
}

const text = (value: BareItem): string | undefined => (typeof value === 'string' ? value : undefined)

const bytes = (value: BareItem): Uint8Array | undefined => (value instanceof Uint8Array ? value : undefined)

/** `null`: the parameter is not there; `undefined`: it is there and wrong. */
function optional<T>(
  value: BareItem | undefined,
  read: (value: BareItem) => T | undefined
): T | null | undefined {
  return value === undefined ? null : read(value)
}

type Present<T> = { readonly [K in keyof T]?: NonNullable<T[K]> }

/** The values that are there. */
function present<T extends object>(values: T): Present<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null)) as Present<T>
}
