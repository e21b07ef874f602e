import { DRAFT_11 } from '../wire-names.js'
import { parseDictionary, parseList } from './structured-fields.js'
import { nothingTold } from './told.js'
import type { Head, Told } from './told.js'
import { parseReset } from './waits.js'
import type { Clocks } from './waits.js'

/** The three fields of one of the older forms, and what they count. */
interface Trio {
  readonly policy: string
  readonly unit: string
  readonly limit: string
  readonly remaining: string
  readonly reset: readonly string[]
}

const LLM_UNITS = ['requests', 'tokens', 'input-tokens', 'output-tokens']

/** Forms that tell of several quotas at once, and so are read together. */
const LLM: readonly Trio[] = LLM_UNITS.flatMap(unit => [
  trio(`x-ratelimit-${unit}`, unit, name => `x-ratelimit-${name}-${unit}`),
  trio(`anthropic-ratelimit-${unit}`, unit, name => `anthropic-ratelimit-${unit}-${name}`)
])

/** Forms that tell of one quota; the first that is there counts. */
const SINGLE: readonly Trio[] = ['ratelimit', 'x-ratelimit', 'x-rate-limit'].map(prefix =>
  trio(prefix, DRAFT_11.defaultUnit, name => `${prefix}-${name}`)
)

function trio(policy: string, unit: string, field: (name: string) => string): Trio {
  return {
    policy,
    unit,
    limit: field('limit'),
    remaining: field('remaining'),
    reset: [field('reset-after'), field('reset')]
  }
}

/**
 * What the fields say that came before revision 08 of the draft: revision 07, the fields of LLM APIs, revision 06, and
 * `X-RateLimit-*`. Each quota gets the name of its fields.
 */
export function readLegacy(head: Head, clocks: Clocks): readonly Told[] {
  const draft7 = readDraft7(head)
  if (draft7 !== undefined) return [draft7]
  const read = (fields: Trio): Told | undefined => readTrio(fields, head, clocks)
  const several = LLM.map(read).filter(told => told !== undefined)
  if (several.length > 0) return several
  const single = SINGLE.map(read).find(told => told !== undefined)
  return single === undefined ? [] : [withWindow(single, head)]
}

/** `RateLimit: limit=100, remaining=50, reset=50`, with `RateLimit-Policy: 100;w=60`. */
function readDraft7(head: Head): Told | undefined {
  const members = parseDictionary(head.field(DRAFT_11.field.limit) ?? '')
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map(name => members?.get(name)?.value)
  if (!isCount(limit) || !isCount(remaining) || !isCount(reset)) return undefined
  const told = {
    ...nothingTold(DRAFT_11.field.limit),
    unit: DRAFT_11.defaultUnit,
    quota: limit,
    available: remaining,
    effectiveWindow: reset * 1000
  }
  return withWindow(told, head)
}

const isCount = (value: unknown): value is number => typeof value === 'number' && value >= 0

/** The window of revisions 06 and 07, which name a policy by its quota: `100;w=60`. */
function withWindow(told: Told, head: Head): Told {
  const policies = parseList(head.field(DRAFT_11.field.policy) ?? '') ?? []
  const window = policies.find(({ value }) => value === told.quota)?.parameters.get(DRAFT_11.parameter.window)
  return isCount(window) && window > 0 ? { ...told, window: window * 1000 } : told
}

function readTrio(
  { policy, unit, limit, remaining, reset }: Trio,
  head: Head,
  clocks: Clocks
): Told | undefined {
  const available = count(head.field(remaining))
  if (available === undefined) return undefined
  const waits = reset.map(name => parseReset(head.field(name), clocks))
  return {
    ...nothingTold(policy),
    unit,
    // The limit is sometimes followed by others, as in `100, 100;w=10`.
    quota: count(head.field(limit)?.split(',', 1)[0]),
    available,
    effectiveWindow: waits.find(wait => wait !== undefined)
  }
}

/** A number of units, of which some write fractions. */
function count(text: string | undefined): number | undefined {
  const [digits] = /^\d{1,15}(?=(?:\.\d+)?$)/.exec(text?.trim() ?? '') ?? []
  return digits === undefined ? undefined : Number(digits)
}
