import { readFileSync } from 'node:fs'
import { Token } from 'structured-headers'
import t from 'tap'
import { UNKNOWN } from '../src/algorithm.js'
import type { Algorithm, State, Terms } from '../src/algorithm.js'
import { tokenBucket } from '../src/algorithms/bucket.js'
import { fixedWindow } from '../src/algorithms/fixed-window.js'
import {
  carriesFields,
  closestFirst,
  measuredLimit,
  retryAfter,
  retryAfterDate,
  serializeLimits,
  serializePolicies,
  wholeSeconds
} from '../src/fields.js'
import type { LimitItem, ParameterValue, PolicyItem } from '../src/fields.js'
import { problem } from '../src/problem.js'
import type { ProblemType } from '../src/problem.js'

/** A vector as fields.json writes it: the forms of the inputs overlap, so every member of them may be missing. */
interface Vector {
  readonly name: string
  readonly kind: 'policy' | 'limit' | 'problem' | 'retry-after' | 'parse-bad'
  readonly input: Input
  readonly expect: string
  readonly basis: string
}

interface Input {
  readonly parse?: unknown
  readonly policies?: readonly WirePolicy[]
  readonly limits?: readonly WireLimit[]
  readonly name?: string
  readonly algorithm?: AlgorithmState
  readonly select?: 'all' | 'violated' | 'closest'
  readonly statusCode?: number
  readonly states?: readonly WireState[]
  readonly type?: string
  readonly httpStatus?: number
  readonly status?: number
  readonly detail?: string
  readonly violatedPolicies?: readonly string[]
  readonly violated?: readonly { waitMs: Numeric | null; t?: number; jitterMs?: number }[]
  readonly format?: 'http-date'
  readonly now?: string
}

type Numeric = number | { readonly number: string }
type Bytes = { readonly utf8: string } | { readonly hex: string }
type WireValue = number | string | boolean | { readonly decimal: string } | { readonly token: string }

interface WireItem {
  readonly name: string
  readonly pk?: Bytes
  readonly params?: readonly (readonly [string, WireValue])[]
}

interface WirePolicy extends WireItem {
  readonly q: Numeric
  readonly qu?: string
  readonly w?: Numeric
  readonly windowMs?: number
}

interface WireLimit extends WireItem {
  readonly r: Numeric
  readonly t?: Numeric
  readonly remaining?: number
  readonly windowLeftMs: number
  readonly jitterMs?: number
}

interface WireState {
  readonly name: string
  readonly q: number
  readonly r: number
  readonly t: number
  readonly violated?: boolean
}

interface AlgorithmState {
  readonly type: string
  readonly quota: number
  readonly windowMs: number
  readonly used: number
  readonly windowLeftMs: number
  readonly capacity: number
  readonly refillPerSecond: number
  readonly tokens: number
  readonly deniedCost?: number
  readonly cap?: unknown
}

/** Vectors that are not run here, and why. */
const NOT_HERE: readonly (readonly [reason: string, applies: (input: Input) => boolean])[] = [
  ['the fields are only written, not parsed', ({ parse }) => parse !== undefined],
  ['select: closest comes with the wire', ({ select }) => select === 'closest'],
  ['the cap on r/t comes with the wire', ({ algorithm }) => algorithm?.cap !== undefined],
  ['no GCRA: the token bucket is the same algorithm', ({ algorithm }) => algorithm?.type === 'gcra'],
  [
    'the state of a log is not that of the sliding window',
    ({ algorithm }) => algorithm?.type === 'sliding-log'
  ],
  ['no sliding counter yet', ({ algorithm }) => algorithm?.type === 'sliding-counter'],
  ['no concurrency yet', ({ algorithm }) => algorithm?.type === 'concurrency']
]

const NOW = 1_800_000_000_000

function number(value: Numeric): number {
  return typeof value === 'object' ? Number(value.number) : value
}

function bytes(value: Bytes): Uint8Array {
  return 'hex' in value ? Buffer.from(value.hex, 'hex') : Buffer.from(value.utf8)
}

function parameterValue(value: WireValue): ParameterValue {
  return typeof value === 'object' && 'token' in value ? new Token(value.token) : value
}

function extras({ pk, params }: WireItem): Pick<PolicyItem, 'partitionKey' | 'parameters'> {
  return {
    partitionKey: pk && bytes(pk),
    parameters: params?.map(([key, value]) => [key, parameterValue(value)] as const)
  }
}

function policyItem(policy: WirePolicy): PolicyItem {
  const { name, q, qu, w, windowMs } = policy
  // A window of 0 ms does not exist: it stays 0 and is refused, instead of being rounded up to a second.
  const measured = windowMs === 0 ? 0 : windowMs && wholeSeconds(windowMs)
  return {
    name,
    quota: number(q),
    unit: qu,
    window: w === undefined ? measured : number(w),
    ...extras(policy)
  }
}

function limitItem(limit: WireLimit): LimitItem {
  const { name, r, t: effectiveWindow, remaining, windowLeftMs, jitterMs } = limit
  if (remaining !== undefined) return measuredLimit(name, remaining, windowLeftMs, jitterMs)
  return {
    name,
    available: number(r),
    effectiveWindow: effectiveWindow && number(effectiveWindow),
    ...extras(limit)
  }
}

/** The state as the algorithm keeps it, and the terms that make it: one unit of the bucket weighs its window in ms. */
function stored(state: AlgorithmState): { algorithm: Algorithm; state: State; terms: Terms } {
  const common = { precision: 10, align: false }
  if (state.type === 'fixed-window') {
    const { quota, windowMs: window, used, windowLeftMs } = state
    const terms = { ...common, quota, window, burst: quota }
    return { algorithm: fixedWindow, state: [used, NOW - (window - windowLeftMs)], terms }
  }
  const window = 8000
  const { capacity: burst, refillPerSecond, tokens } = state
  const terms = { ...common, quota: (refillPerSecond * window) / 1000, window, burst }
  return { algorithm: tokenBucket, state: [Math.round((burst - tokens) * window), NOW], terms }
}

function decided(name: string, input: AlgorithmState): LimitItem {
  const { algorithm, state, terms } = stored(input)
  const { remaining, effectiveWindow } = algorithm.step(
    state,
    algorithm.params(terms),
    NOW,
    input.deniedCost ?? 0
  )
  return measuredLimit(name, remaining, effectiveWindow)
}

function selected({ select, statusCode = 200, states = [] }: Input): string {
  if (!carriesFields(statusCode)) return ''
  const listed = states.filter(({ violated }) => select === 'all' || violated === true)
  const order = listed.map(({ name, q, r, t: window, violated = false }) => {
    return { name, refused: violated, remaining: r, quota: q, window }
  })
  order.sort(closestFirst)
  return serializeLimits(
    order.map(({ name, remaining, window }) => ({ name, available: remaining, effectiveWindow: window }))
  )
}

function limitField(input: Input): string {
  if (input.algorithm !== undefined) return serializeLimits([decided(input.name ?? '', input.algorithm)])
  return input.select === undefined ? serializeLimits((input.limits ?? []).map(limitItem)) : selected(input)
}

function problemBody({
  type,
  httpStatus = 0,
  status = httpStatus,
  detail,
  violatedPolicies = []
}: Input): string {
  return JSON.stringify(problem({ type: type as ProblemType, status, detail, violatedPolicies }))
}

function retryAfterField({ violated = [], format, now = '' }: Input): string {
  const seconds = retryAfter(
    violated.map(({ waitMs, t: effectiveWindow, jitterMs: jitter }) => {
      return { wait: waitMs === null ? UNKNOWN : number(waitMs), effectiveWindow, jitter }
    })
  )
  if (seconds === undefined) return ''
  return format === undefined ? String(seconds) : retryAfterDate(seconds, Date.parse(now))
}

const WRITERS = {
  policy: ({ policies = [] }: Input): string => serializePolicies(policies.map(policyItem)),
  limit: limitField,
  problem: problemBody,
  'retry-after': retryAfterField
}

const all = JSON.parse(
  readFileSync(new URL('../../test/vectors/fields.json', import.meta.url), 'utf8')
) as readonly Vector[]

let run = 0
let listed = 0

for (const { kind, name, input, expect, basis } of all) {
  if (kind === 'parse-bad') continue
  const [reason] = NOT_HERE.find(([, applies]) => applies(input)) ?? []
  if (reason !== undefined) {
    listed++
    continue
  }
  run++
  t.test(`${name} (${basis})`, async t => {
    if (expect !== 'invalid') return t.equal(WRITERS[kind](input), expect)
    return t.throws(() => WRITERS[kind](input), RangeError)
  })
}

t.test('every vector for writing is run or listed with a reason', async t => {
  t.equal(run + listed, all.filter(({ kind }) => kind !== 'parse-bad').length)
  t.comment(`${run} run, ${listed} listed`)
  for (const [reason, applies] of NOT_HERE) {
    t.ok(
      all.some(({ input }) => applies(input)),
      `a vector still needs the reason: ${reason}`
    )
  }
})
