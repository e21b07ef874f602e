import { isDeepStrictEqual } from 'node:util'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Algorithm } from './algorithm.js'
import { FST_QUOTA_POLICY } from './errors.js'
import { limitPrefix } from './fields.js'
import {
  alternatives,
  asBoolean,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  refuser,
  show
} from './options.js'
import type { Refuse } from './options.js'
import { compilePartition } from './partition.js'
import type { PartitionRule } from './partition.js'
import { BEFORE_BODY, HOOKS, readCost, readPolicyOptions } from './policy-options.js'
import type { Cost, Hook, Written } from './policy-options.js'
import {
  figures,
  fingerprint,
  readQuota,
  readTerms,
  reducedBy,
  refillsWithinASecond,
  shareOf
} from './terms.js'
import type { Figures, TermsButQuota } from './terms.js'
import { hopeless, smallBurst, subSecond } from './warnings.js'
import type { Advice } from './warnings.js'

/** Why, and by how much, a quota is lower for the time being. */
export interface Reduction {
  /** Above 0, and at most 1. */
  readonly factor: number
  /** As clients are told. */
  readonly reason: string
}

/** A policy after it was checked: everything a request needs, computed once. */
export interface QuotaPolicy extends Figures {
  readonly name: string
  /** Milliseconds; 0: none. */
  readonly window: number
  readonly unit: string
  readonly algorithm: Algorithm
  /** The name its state is stored under: the policy's, and what its state depends on. Never the quota. */
  readonly field: string
  /** Its item in `RateLimit` up to the number of units left. */
  readonly prefix: string
  /** The quota of a request, for a policy that is a plan; then its own figures mean nothing. */
  readonly quotaOf: ((request: FastifyRequest) => unknown) | undefined
  /**
   * The same policy, and the same counter, with another quota.
   * @throws FST_QUOTA_POLICY for a quota it cannot count with.
   */
  readonly withQuota: (quota: unknown) => QuotaPolicy
  /** The same policy with one instance's part of the quota: that rounded down, but at least 1. */
  readonly shareOf: (instances: number) => QuotaPolicy
  /**
   * The same policy, and the same counter, with a lower quota, be it a plan: rounded down, but at least 1; 0 stays 0. Of one
   * that is reduced, it is the whole quota that is.
   */
  readonly reducedBy: (reduction: Reduction) => QuotaPolicy
  /** What it is reduced by, and the most units that it holds when it is not; `undefined`: it is whole. */
  readonly reduction: (Reduction & { readonly capacity: number }) | undefined
  readonly cost: Cost
  /** Whether a request costs the length of its body. */
  readonly metered: boolean
  readonly refund: ((request: FastifyRequest, reply: FastifyReply) => unknown) | undefined
  /** Milliseconds a lease lasts and the most it is renewed for. */
  readonly holdFor: number
  readonly maxHold: number
  readonly rule: PartitionRule
  readonly hook: Hook
  readonly default: boolean
  readonly exempt: ((request: FastifyRequest) => unknown) | undefined
  readonly shadow: boolean
  readonly advertise: boolean
  readonly status: 429 | 503
  /** Whether it is an exact log, and one that may be large. */
  readonly exact: boolean
  readonly largeLog: boolean
  /** The most units that a process spends without asking; 0: none. */
  readonly batch: number
  readonly onStoreFailure: 'open' | 'closed' | 'local' | undefined
  /** What is unwise about it, on whichever route. */
  readonly advice: readonly Advice[]
  /** A copy of what the operator wrote, to tell whether a second definition of the name is the same. */
  readonly written: unknown
  /** Serialises as the name, so that a decision sent as JSON exposes no internals. */
  toJSON(): string
}

/** A policy before its variants are made. */
type Unvaried = Omit<QuotaPolicy, 'withQuota' | 'shareOf' | 'reducedBy' | 'reduction' | 'advice'>

const LARGEST_BATCH = 1_000_000

const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/
const UNIT = /^[a-z][a-z0-9-]{0,31}$/

/**
 * Checks a policy and computes everything about it that no request changes.
 * @param name The policy's name, `^[A-Za-z][A-Za-z0-9._-]{0,63}$`.
 * @param written `PolicyOptions` or `ShortPolicy`.
 * @param identities Names of the plugin's `identify` option, in order.
 * @throws FST_QUOTA_POLICY naming the option, its value and what was expected.
 */
export function compilePolicy(name: string, written: unknown, identities: readonly string[]): QuotaPolicy {
  const refuse = refuser(FST_QUOTA_POLICY, `policy ${show(name)}`)
  checkName(refuse, name)
  const options = readPolicyOptions(refuse, written)
  const { quota, cost = 1, refund, partition = 'ip', hook = 'preParsing', exempt, onStoreFailure } = options
  const { default: isDefault = true, mode = 'enforce', advertise = true, status = 429 } = options
  if (quota === undefined) refuse('quota is required: an integer of 0 or more, or a function of the request')
  const terms = readTerms(refuse, options)
  const isPlan = typeof quota === 'function'
  const own = figures(refuse, terms, isPlan ? 0 : readQuota(refuse, quota, terms))
  const unit = readUnit(refuse, options['unit'], terms.algorithm)
  const metered = unit === 'content-bytes' && options['cost'] === undefined
  const policy: Unvaried = {
    ...own,
    name,
    window: terms.window,
    unit,
    algorithm: terms.algorithm,
    field: `${name}/${fingerprint(terms)}`,
    prefix: limitPrefix(name),
    quotaOf: isPlan ? (quota as QuotaPolicy['quotaOf']) : undefined,
    cost: metered ? 0 : readCost(refuse, 'cost', cost),
    metered,
    refund: readRefund(refuse, refund, terms),
    holdFor: terms.holdFor,
    maxHold: terms.maxHold,
    rule: readPartition(refuse, partition, identities),
    hook: readHook(refuse, hook, metered),
    default: asBoolean(refuse, 'default', isDefault),
    exempt: exempt === undefined ? undefined : asFunction(refuse, 'exempt', exempt as QuotaPolicy['exempt']),
    shadow: asOneOf(refuse, 'mode', mode, ['enforce', 'shadow']) === 'shadow',
    advertise: asBoolean(refuse, 'advertise', advertise),
    exact: terms.exact,
    largeLog: terms.largeLog,
    batch: readBatch(refuse, options, terms),
    status: asOneOf(refuse, 'status', status, [429, 503]),
    onStoreFailure: readFailureMode(refuse, onStoreFailure),
    written: options,
    toJSON: () => name
  }
  const advice = [
    ...adviceOnFigures(name, terms, own),
    ...adviceOnCost(`policy ${show(name)}`, policy, policy.cost)
  ]
  return variants(refuse, { ...policy, advice }, terms, undefined)(own)
}

/** What is to be said of a cost, there, that no quota of the policy ever admits. */
export function adviceOnCost(place: string, policy: Unvaried, cost: Cost): readonly Advice[] {
  if (typeof cost !== 'number' || !costsTooMuch(policy, cost)) return []
  return [hopeless(place, policy.name, cost, policy.capacity)]
}

/** Whether a constant cost is more than a policy, which refuses, can ever hold. */
function costsTooMuch(policy: Unvaried, cost: number): boolean {
  return policy.quotaOf === undefined && policy.quota > 0 && !policy.shadow && cost > policy.capacity
}

/**
 * Whether a second definition of a name says the same as the first, however it is written.
 * @throws FST_QUOTA_POLICY if it is no policy at all.
 */
export function sameDefinition(
  policy: QuotaPolicy,
  written: unknown,
  identities: readonly string[]
): boolean {
  const refuse = refuser(FST_QUOTA_POLICY, `policy ${show(policy.name)}`)
  if (isDeepStrictEqual(policy.written, readPolicyOptions(refuse, written))) return true
  return sameMeaning(policy, compilePolicy(policy.name, written, identities))
}

/** Whether two policies are the same, however they are written. */
export function sameMeaning(one: QuotaPolicy, other: QuotaPolicy): boolean {
  return isDeepStrictEqual(meaning(one), meaning(other))
}

/** All that a policy means, and nothing of how it was written. */
function meaning(policy: QuotaPolicy): object {
  return {
    ...policy,
    rule: policy.rule.label,
    written: undefined,
    withQuota: undefined,
    shareOf: undefined,
    reducedBy: undefined,
    toJSON: undefined
  }
}

/** More quotas than a service has plans are not remembered. */
const REMEMBERED_QUOTAS = 1000

/** Makes the variants of a policy, one for each set of figures, which are those of the whole quota. */
function variants(
  refuse: Refuse,
  policy: Unvaried & Pick<QuotaPolicy, 'advice'>,
  terms: TermsButQuota,
  reduction: Reduction | undefined
): (whole: Figures) => QuotaPolicy {
  const known = new Map<unknown, QuotaPolicy>()
  const withQuota = (quota: unknown): QuotaPolicy => {
    const before = known.get(quota)
    if (before !== undefined) return before
    const variant = of(figures(refuse, terms, readQuota(refuse, quota, terms)))
    if (known.size >= REMEMBERED_QUOTAS) known.clear()
    known.set(quota, variant)
    return variant
  }
  const of = (whole: Figures): QuotaPolicy => {
    if (reduction === undefined) return made(whole, whole)
    const reduce: Part = units => reducedBy(units, reduction.factor)
    return made(whole, figures(refuse, partOf(terms, reduce), reduce(whole.quota)))
  }
  const made = (whole: Figures, own: Figures): QuotaPolicy =>
    Object.freeze({
      ...policy,
      ...own,
      withQuota,
      shareOf: (instances: number) => {
        const share: Part = units =>
          shareOf(reduction === undefined ? units : reducedBy(units, reduction.factor), instances)
        return made(whole, figures(refuse, partOf(terms, share), share(whole.quota)))
      },
      reducedBy: (by: Reduction) => variants(refuse, policy, terms, by)(whole),
      reduction: reduction === undefined ? undefined : { ...reduction, capacity: whole.capacity }
    })
  return of
}

/** Tells the part of so many units. */
type Part = (units: number) => number

/** Terms with a part of the capacity of a bucket. */
function partOf(terms: TermsButQuota, part: Part): TermsButQuota {
  return terms.burst === undefined ? terms : { ...terms, burst: part(terms.burst) }
}

function checkName(refuse: Refuse, name: string): void {
  if (NAME.test(name)) return
  const [stranger] = /^[^A-Za-z]|[^\w.-]/u.exec(name) ?? []
  const found = stranger === undefined ? `${name.length} characters` : show(stranger)
  refuse(`a name must start with a letter, then have up to 63 of A-Z a-z 0-9 . _ -, got ${found}`)
}

/** Of a plan, what is true whatever the quota. */
function adviceOnFigures(name: string, terms: TermsButQuota, own: Figures): readonly Advice[] {
  const announcesWindow = terms.burst === undefined && terms.maxDelay === 0
  if (refillsWithinASecond(terms, own)) return [smallBurst(name, own.capacity)]
  return announcesWindow && terms.window % 1000 !== 0 ? [subSecond(name, terms.window)] : []
}

function readUnit(refuse: Refuse, value: unknown, { name }: Algorithm): string {
  const isConcurrency = name === 'concurrency'
  if (value === undefined) return isConcurrency ? 'concurrent-requests' : 'requests'
  if (typeof value !== 'string' || !UNIT.test(value)) {
    return refuse(
      `unit must be 'requests', 'content-bytes', 'concurrent-requests' or match ^[a-z][a-z0-9-]{0,31}$, got ${show(value)}`
    )
  }
  if (isConcurrency && (value === 'requests' || value === 'content-bytes')) {
    refuse(`unit of "concurrency" is 'concurrent-requests' or one of your own, got ${show(value)}`)
  }
  if (!isConcurrency && value === 'concurrent-requests') {
    refuse(`unit 'concurrent-requests' belongs to algorithm "concurrency", got it with ${show(name)}`)
  }
  return value
}

function readRefund(
  refuse: Refuse,
  refund: unknown,
  { algorithm, maxDelay }: TermsButQuota
): QuotaPolicy['refund'] {
  if (refund === undefined) return undefined
  if (algorithm.renew !== undefined)
    refuse('refund means nothing to "concurrency", which gives everything back when a response is over')
  if (maxDelay > 0) refuse('refund and maxDelay exclude each other: a place in a queue is not given back')
  return asFunction(refuse, 'refund', refund as QuotaPolicy['refund'])
}

function readBatch(
  refuse: Refuse,
  { batch, quota, refund }: Written,
  { algorithm, exact, maxDelay }: TermsButQuota
): number {
  if (batch === undefined) return 0
  const options = asObject(refuse, 'batch', batch)
  knownKeys(message => refuse(`batch: ${message}`), options, ['max'], { size: 'max', limit: 'max' })
  const stranger = [
    [typeof quota === 'function', 'a plan'],
    [algorithm.renew !== undefined, 'concurrency'],
    [maxDelay > 0, 'maxDelay'],
    [refund !== undefined, 'refund'],
    [exact, "precision 'exact'"]
  ].find(([applies]) => applies)
  if (stranger !== undefined) refuse(`batch and ${stranger[1]} exclude each other, got ${show(batch)}`)
  return asInteger(refuse, 'batch.max', options['max'], 2, LARGEST_BATCH)
}

function readHook(refuse: Refuse, value: unknown, metered: boolean): Hook {
  const hook = asOneOf(refuse, 'hook', value, HOOKS)
  if (!metered || BEFORE_BODY.includes(hook)) return hook
  return refuse(
    `hook must be ${alternatives(BEFORE_BODY)} for content-bytes without a cost, which counts bodies as they arrive, got ${show(hook)}`
  )
}

function readFailureMode(refuse: Refuse, value: unknown): QuotaPolicy['onStoreFailure'] {
  if (value === undefined) return undefined
  return asOneOf(refuse, 'onStoreFailure', value, ['open', 'closed', 'local'] as const)
}

function readPartition(refuse: Refuse, value: unknown, identities: readonly string[]): PartitionRule {
  try {
    return compilePartition(value, identities)
  } catch (error) {
    return refuse((error as Error).message)
  }
}
