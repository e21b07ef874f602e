import { readFileSync } from 'node:fs'
import { Token } from 'structured-headers'
import t from 'tap'
import { UNKNOWN } from '../src/algorithm.js'
import type { Algorithm, State, Terms } from '../src/algorithm.js'
import { tokenBucket } from '../src/algorithms/bucket.js'
import { concurrency } from '../src/algorithms/concurrency.js'
import { fixedWindow } from '../src/algorithms/fixed-window.js'
import { slidingWindowCounter } from '../src/algorithms/sliding-window-counter.js'
import { slidingWindow } from '../src/algorithms/sliding-window.js'
import { announced } from '../src/announced.js'
import type { Telling } from '../src/announced.js'
import { UNDECIDED } from '../src/decision.js'
import {
  capped,
  carriesFields,
  retryAfter,
  retryAfterDate,
  serializeLimits,
  serializePolicies,
  wholeSeconds,
  windowSeconds
} from '../src/fields.js'
import type { LimitItem, ParameterValue, PolicyItem } from '../src/fields.js'
import { compilePolicy } from '../src/policy.js'
import { problem } from '../src/problem.js'
import type { ProblemType } from '../src/problem.js'
import type { ServiceLimit } from '../src/store.js'

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
  readonly qu?: string
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
  readonly tatAheadMs: number
  readonly hits: number
  readonly oldestExpiresInMs: number
  readonly expiriesMs?: readonly number[]
  readonly previous: number
  readonly current: number
  readonly elapsedMs: number
  readonly inFlight: number
  readonly deniedCost?: number
  readonly cap?: { readonly maxPerSecond: number; readonly adjust: 'lower-r' | 'raise-t' }
}

/** Vectors that are not run here, and why. */
const NOT_HERE: readonly (readonly [reason: string, applies: (input: Input) => boolean])[] = [
  ['the fields are only written, not parsed', ({ parse }) => parse !== undefined]
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
  if (remaining !== undefined) return measured(name, remaining, windowLeftMs, jitterMs)
  return {
    name,
    available: number(r),
    effectiveWindow: effectiveWindow && number(effectiveWindow),
    ...extras(limit)
  }
}

/** Measured values: a window that ended just now is one that is over. */
function measured(name: string, remaining: number, windowLeft: number, jitter?: number): LimitItem {
  const available = Math.max(0, Math.floor(remaining))
  const what = available === 0 ? 'wait' : 'window'
  return { name, available, effectiveWindow: windowSeconds(windowLeft || -1, what, jitter) }
}

interface Stored {
  readonly algorithm: Algorithm
  readonly state: State
  readonly terms: Partial<Terms>
  readonly now?: number
}

/** The state as each algorithm keeps it at `now`, and the terms that make it. One unit of a bucket weighs its window in ms. */
const STORED: Readonly<Record<string, (state: AlgorithmState) => Stored>> = {
  'fixed-window': ({ quota, windowMs: window, used, windowLeftMs }) => ({
    algorithm: fixedWindow,
    state: [used, NOW - (window - windowLeftMs)],
    terms: { quota, window }
  }),
  'token-bucket'({ capacity: burst, refillPerSecond, tokens }) {
    const window = 8000
    const terms = { quota: (refillPerSecond * window) / 1000, window, burst }
    return { algorithm: tokenBucket, state: [Math.round((burst - tokens) * window), NOW], terms }
  },
  // The theoretical arrival time is ahead by what the debt takes to drain: quota parts in each ms.
  gcra: ({ quota, windowMs: window, tatAheadMs }) => ({
    algorithm: tokenBucket,
    state: [tatAheadMs * quota, NOW],
    terms: { quota, window, burst: quota }
  }),
  'sliding-log'({ quota, windowMs: window, hits, oldestExpiresInMs, expiriesMs }) {
    const expiries = expiriesMs ?? Array<number>(hits).fill(oldestExpiresInMs)
    const state = [...new Set(expiries)].flatMap(expiry => {
      const at = NOW + expiry - window
      return [expiries.filter(other => other === expiry).length, at, at]
    })
    return { algorithm: slidingWindow, state, terms: { quota, window, precision: window } }
  },
  'sliding-counter': ({ quota, windowMs: window, previous, current, elapsedMs }) => ({
    algorithm: slidingWindowCounter,
    state: [NOW / window, current, previous],
    terms: { quota, window, precision: 1 },
    now: NOW + elapsedMs
  }),
  concurrency: ({ quota, inFlight }) => ({
    algorithm: concurrency,
    state: [inFlight, NOW + 30_000],
    terms: { quota }
  })
}

const USUAL: Terms = {
  quota: 1,
  window: 60_000,
  precision: 10,
  burst: 1,
  align: false,
  maxDelay: 0,
  holdFor: 30_000
}

function decided(name: string, input: AlgorithmState): LimitItem {
  const { algorithm, state, terms, now = NOW } = STORED[input.type]!(input)
  const params = algorithm.params({ ...USUAL, ...terms })
  const { remaining, effectiveWindow } = algorithm.step(state, params, now, input.deniedCost ?? 0)
  if (effectiveWindow === 0) return { name, available: remaining }
  const item = measured(name, remaining, effectiveWindow)
  if (input.cap === undefined) return item
  const { maxPerSecond, adjust } = input.cap
  const most = { units: maxPerSecond, seconds: 1 }
  const { available, window } = capped(
    item.available,
    item.effectiveWindow!,
    most,
    adjust === 'lower-r' ? 'available' : 'window'
  )
  return { name, available, effectiveWindow: window }
}

/** What is told of these states, as of a decision. */
function selected({ select, statusCode = 200, states = [] }: Input): string {
  if (!carriesFields(statusCode)) return ''
  const telling: Telling = {
    select: select === 'closest' ? 'closest' : 'all',
    cap: false,
    jitter: () => 0
  }
  const shown = announced(
    telling,
    { whose: () => undefined },
    {
      ...UNDECIDED,
      outcome: states.some(({ violated }) => violated) ? 'refused' : 'allowed',
      limits: states.map(serviceLimit)
    }
  )
  return serializeLimits(
    shown.map(({ limit, available, window }) => ({
      name: limit.policy.name,
      available,
      effectiveWindow: window
    }))
  )
}

/** The window of a state is not told: the time left stands for it. */
function serviceLimit({ name, q, qu = 'requests', r, t: left, violated = false }: WireState): ServiceLimit {
  const policy = compilePolicy(name, { quota: q, window: left, unit: qu }, [])
  return {
    policy,
    units: 1,
    allowed: !violated,
    remaining: r,
    effectiveWindow: left * 1000,
    retryAfter: violated ? left * 1000 : 0,
    delay: 0,
    charges: []
  }
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
