import { TermsError } from './algorithm.js'
import type { Algorithm, Params, Terms } from './algorithm.js'
import { algorithms } from './algorithms/index.js'
import {
  LARGEST_INTEGER,
  alternatives,
  asBoolean,
  asDuration,
  asInteger,
  asOneOf,
  show,
  showDuration
} from './options.js'
import type { Refuse } from './options.js'
import type { AlgorithmName, Written } from './policy-options.js'

/** The numbers of a policy but for its quota, which may be another one for each request. */
export interface TermsButQuota extends Omit<Terms, 'quota' | 'burst'> {
  readonly algorithm: Algorithm
  /** Capacity of a bucket; `undefined`: the quota. */
  readonly burst: number | undefined
  /** Milliseconds; `Infinity`: as long as the request lives. */
  readonly maxHold: number
  /** Whether it is an exact log, and one that may be large. */
  readonly exact: boolean
  readonly largeLog: boolean
}

/** What a policy computes with for one quota. */
export interface Figures {
  readonly quota: number
  readonly params: Params
  /** The most units it can hold at once, which the fields announce as `q`. */
  readonly capacity: number
  /** The window the fields announce, in whole seconds; 0: none. */
  readonly announcedWindow: number
}

const NAMES = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket',
  'concurrency'
] as const satisfies readonly AlgorithmName[]

/** The algorithms that an option means something to; with others it is a mistake, not a wish to ignore. */
const OWNERS: Readonly<Record<string, readonly AlgorithmName[]>> = {
  precision: ['sliding-window', 'sliding-window-counter', 'sliding-window-log'],
  largeLog: ['sliding-window', 'sliding-window-log'],
  align: ['fixed-window'],
  burst: ['token-bucket', 'leaky-bucket'],
  maxDelay: ['leaky-bucket'],
  holdFor: ['concurrency'],
  maxHold: ['concurrency']
}

/** Above this, a log has to be asked for: it keeps a number for each unit. */
const LARGEST_LOG = 1000

/** In whole days, and with room for the tick of a bucket: a timer of more than 2^31 - 1 ms fires at once. */
const LONGEST_TIMER = 24 * 86_400_000

/** Reads the numbers of a policy. @throws by `refuse` for what is wrong or means nothing to the algorithm. */
export function readTerms(refuse: Refuse, options: Written): TermsButQuota {
  const { algorithm = 'sliding-window', align = false, burst, maxDelay, holdFor = '30s', maxHold } = options
  const name = asOneOf(refuse, 'algorithm', algorithm, NAMES)
  refuseStrangers(refuse, options, name)
  if (burst !== undefined && maxDelay !== undefined) {
    refuse(
      `burst and maxDelay exclude each other: a queue holds what starts within maxDelay, got burst ${show(burst)} and maxDelay ${show(maxDelay)}`
    )
  }
  const window = readWindow(refuse, name, options['window'])
  const precision = readPrecision(refuse, name, options['precision'])
  return {
    algorithm: algorithms.get(name === 'sliding-window-log' ? 'sliding-window' : name)!,
    window,
    precision: precision === 'exact' ? window : precision,
    align: asBoolean(refuse, 'align', align),
    burst: burst === undefined ? undefined : asInteger(refuse, 'burst', burst, 1, LARGEST_INTEGER),
    maxDelay: maxDelay === undefined ? 0 : asTimer(refuse, 'maxDelay', maxDelay),
    holdFor: asTimer(refuse, 'holdFor', holdFor),
    maxHold: maxHold === undefined ? Infinity : asTimer(refuse, 'maxHold', maxHold),
    exact: precision === 'exact',
    largeLog: readLargeLog(refuse, precision === 'exact', options['largeLog'])
  }
}

/** @throws by `refuse` for a quota that the policy cannot count with. */
export function readQuota(refuse: Refuse, value: unknown, terms: TermsButQuota): number {
  const quota = asInteger(refuse, 'quota', value, 0, LARGEST_INTEGER)
  if (!terms.exact || terms.largeLog || quota <= LARGEST_LOG) return quota
  return refuse(
    `quota must be at most ${LARGEST_LOG} for an exact log, which keeps a number for each unit, unless largeLog is true, got ${quota}`
  )
}

/**
 * What a policy computes with for a quota.
 * @throws by `refuse` when the numbers cannot be counted exactly.
 */
export function figures(refuse: Refuse, terms: TermsButQuota, quota: number): Figures {
  const { algorithm } = terms
  const whole: Terms = { ...terms, quota, burst: terms.burst ?? quota }
  const params = Object.freeze(exactParams(refuse, algorithm, whole))
  const capacity = algorithm.capacity(params)
  return { quota, params, capacity, announcedWindow: announced(whole, algorithm, capacity) }
}

/** The part of a quota that one of so many instances has: rounded down, but at least 1. */
export const shareOf = (whole: number, instances: number): number =>
  whole === 0 ? 0 : Math.max(1, Math.floor(whole / instances))

/** A quota times a factor of up to 1, rounded down, but at least 1: 0.29 of 100 are 29, although doubles say a little less. */
export const reducedBy = (whole: number, factor: number): number =>
  whole === 0 ? 0 : Math.max(1, Math.floor(Number((whole * factor).toPrecision(15))))

/** What the state of a policy depends on, besides its name. Never the quota. */
export function fingerprint({ algorithm, window, precision, maxDelay }: TermsButQuota): string {
  const { name } = algorithm
  if (name === 'sliding-window-counter') return `${name}/${window}/${precision}`
  return maxDelay > 0 ? `${name}/${window}/queue` : `${name}/${window}`
}

/** Whether a bucket refills in less than the second that the fields announce. */
export function refillsWithinASecond(
  { algorithm, window }: TermsButQuota,
  { quota, capacity }: Figures
): boolean {
  return isBucket(algorithm) && quota > 0 && capacity * window < quota * 1000
}

const isBucket = ({ name }: Algorithm): boolean => name === 'token-bucket' || name === 'leaky-bucket'

/**
 * Rounded up, so that the announced rate may be too low but never too high. A bucket announces its capacity and the time
 * that takes to refill.
 */
function announced({ quota, window }: Terms, algorithm: Algorithm, capacity: number): number {
  if (!isBucket(algorithm) || quota === 0) return Math.ceil(window / 1000)
  if (window % 1000 === 0) return Math.ceil((capacity * (window / 1000)) / quota)
  return Math.ceil((capacity * window) / (quota * 1000))
}

function refuseStrangers(refuse: Refuse, options: Written, name: AlgorithmName): void {
  for (const [option, owners] of Object.entries(OWNERS)) {
    if (options[option] === undefined || owners.includes(name)) continue
    refuse(
      `${option} belongs to algorithm ${alternatives(owners)}, got ${show(options[option])} with ${show(name)}`
    )
  }
}

function readWindow(refuse: Refuse, name: AlgorithmName, value: unknown): number {
  if (name === 'concurrency') {
    if (value === undefined) return 0
    return refuse(`window means nothing to "concurrency", which counts what runs at once, got ${show(value)}`)
  }
  if (value === undefined) refuse("window is required: seconds or a duration like '10s'")
  return asDuration(refuse, 'window', value)
}

function readPrecision(refuse: Refuse, name: AlgorithmName, value: unknown): number | 'exact' {
  if (name === 'sliding-window-log') {
    if (value === undefined || value === 'exact') return 'exact'
    return refuse(`precision of "sliding-window-log" is 'exact', got ${show(value)}`)
  }
  if (value === undefined) return 10
  if (name === 'sliding-window-counter') return asInteger(refuse, 'precision', value, 1, 1000)
  return value === 'exact' ? value : asInteger(refuse, 'precision', value, 1, 1000, " or 'exact'")
}

function readLargeLog(refuse: Refuse, exact: boolean, largeLog: unknown): boolean {
  if (largeLog === undefined) return false
  if (!exact) refuse(`largeLog goes with precision 'exact' only, got ${show(largeLog)}`)
  return asBoolean(refuse, 'largeLog', largeLog)
}

/** A duration that a timer can wait. */
function asTimer(refuse: Refuse, option: string, value: unknown): number {
  const milliseconds = asDuration(refuse, option, value)
  if (milliseconds <= LONGEST_TIMER) return milliseconds
  return refuse(`${option} must be at most 24d, for no timer waits much longer, got ${showDuration(value)}`)
}

function exactParams(refuse: Refuse, algorithm: Algorithm, terms: Terms): Params {
  try {
    return algorithm.params(terms)
  } catch (error) {
    if (error instanceof TermsError) return refuse(`it cannot be counted exactly: ${error.message}`)
    throw error
  }
}
