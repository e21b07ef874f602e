import { DRAFT_11 } from '../wire-names.js'
import { readLegacy } from './legacy.js'
import { parseRateLimit, parseRateLimitPolicy } from './rate-limit.js'
import type { RateLimitItem, RateLimitPolicyItem } from './rate-limit.js'
import { nothingTold } from './told.js'
import type { Head, Told } from './told.js'
import { parseRetryAfter } from './waits.js'
import type { Clocks } from './waits.js'

/** What a response says about quotas. */
export interface Reading {
  readonly status: number
  /** Whether the request was refused for a quota, or for a shortage of the server. */
  readonly refused: boolean
  /** What is told about each policy. */
  readonly told: readonly Told[]
  /** Whether `told` names all policies that the request falls under, as `RateLimit-Policy` does. */
  readonly complete: boolean
  /** Whether policies are told by their names: the older forms have none. */
  readonly named: boolean
  /** Milliseconds; `undefined`: no wait is known. */
  readonly retryAfter: number | undefined
  /** Whether it comes from a cache: the server has not seen the request. */
  readonly cached: boolean
  /** Whether the server asks not to be asked again: `x-should-retry: false`. */
  readonly final: boolean
}

/**
 * Reads the head of a response: `RateLimit` and `RateLimit-Policy`, or the forms that came before them, and
 * `Retry-After`. What is malformed is ignored (draft §7), and all of it if the response comes from a cache (§7.3).
 *
 * @param now the client's time, in milliseconds of the epoch.
 */
export function read(head: Head, now: number): Reading {
  const { status } = head
  const silent = {
    status,
    refused: REFUSALS.has(status),
    told: [],
    complete: false,
    named: true,
    retryAfter: undefined,
    cached: true,
    final: false
  }
  if (isCached(head)) return silent
  const clocks = { date: head.field('date'), now }
  const { told, complete, named } = readDraft(head) ?? readOlder(head, clocks)
  return {
    status,
    refused: silent.refused || isExhausted(status, told),
    told,
    complete,
    named,
    cached: false,
    retryAfter: parseRetryAfter(head.field(DRAFT_11.field.retryAfter), clocks),
    final: head.field('x-should-retry') === 'false'
  }
}

/** Over a quota (RFC 6585 §4), and short of capacity (RFC 9110 §15.6.4). */
const REFUSALS: ReadonlySet<number> = new Set([429, 503])

/** Some APIs say 403 to a client that is over its quota: it is a refusal if nothing is left. */
function isExhausted(status: number, told: readonly Told[]): boolean {
  return status === 403 && told.some(({ available }) => available === 0)
}

const isCached = (head: Head): boolean => /^0*[1-9]\d*$/.test(head.field('age')?.trim() ?? '')

type Policies = Pick<Reading, 'told' | 'complete' | 'named'>

function readOlder(head: Head, clocks: Clocks): Policies {
  const told = readLegacy(head, clocks)
  return { told, complete: false, named: told.length === 0 }
}

/** The first ones are the closest to their end; who tells of more than so many keeps clients busy with nothing else. */
const MOST_TOLD = 100

function readDraft(head: Head): Policies | undefined {
  const limits = parseRateLimit(head.field(DRAFT_11.field.limit))?.slice(0, MOST_TOLD)
  const listed = parseRateLimitPolicy(head.field(DRAFT_11.field.policy))
  if (limits === undefined && listed === undefined) return undefined
  const policies = listed?.slice(0, MOST_TOLD) ?? []
  const pairs = (limits ?? []).map(limit => ({ limit, policy: policyOf(limit, policies) }))
  const untold = policies.filter(policy => !pairs.some(pair => pair.policy === policy))
  return {
    told: [
      ...pairs.map(({ limit, policy }) => tell(limit, policy, limit)),
      ...untold.map(policy => tell(policy, policy))
    ],
    complete: listed?.length === policies.length,
    named: true
  }
}

/** The policy a limit belongs to: of its name, and of its partition key if there is one for each. */
function policyOf(
  limit: RateLimitItem,
  policies: readonly RateLimitPolicyItem[]
): RateLimitPolicyItem | undefined {
  const namesakes = policies.filter(({ policy }) => policy === limit.policy)
  return namesakes.find(policy => keyOf(policy) === keyOf(limit)) ?? namesakes[0]
}

function tell(
  item: RateLimitItem | RateLimitPolicyItem,
  policy: RateLimitPolicyItem | undefined,
  limit?: RateLimitItem
): Told {
  return {
    ...nothingTold(item.policy),
    partitionKey: keyOf(item),
    unit: policy?.unit,
    quota: policy?.quota,
    window: milliseconds(policy?.window),
    available: limit?.available,
    effectiveWindow: milliseconds(limit?.effectiveWindow)
  }
}

const milliseconds = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000

const keyOf = ({ partitionKey = new Uint8Array() }: RateLimitItem | RateLimitPolicyItem): string =>
  Array.from(partitionKey, byte => String.fromCharCode(byte)).join('')
