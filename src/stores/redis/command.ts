import { isRelease } from '../failure-modes.js'
import type { Receipt } from '../../algorithm.js'
import type { QuotaPolicy } from '../../policy.js'
import type { Charge, Lease, Place, ServiceLimit, Settlement } from '../../store.js'
import type { Plan, Plans } from './plans.js'

export type Operation = 'charge' | 'try' | 'settle' | 'renew' | 'reset' | 'probe'

/** One call of the script. */
export interface Command {
  readonly operation: Operation
  /** Whose script is called; `undefined`: that for everything. */
  readonly plan?: Plan | undefined
  readonly keys: readonly string[]
  /** If a partition has more fields than this, those past their end are dropped; 0: that is not looked at. */
  readonly fields: number
  readonly items: readonly string[]
  /** Whether it is worth doing when nobody waits for it any more. */
  readonly patient: boolean
  /** How many numbers answer it. */
  readonly numbers: number
}

/** A charge that may buy more units than it needs. */
export interface Purchase extends Charge {
  /** Units to be charged on top, if the charge is admitted; not more than an equal share of what is left then. */
  readonly ahead?: number
  /** How many such shares there are. */
  readonly shares?: number
}

/** What the script answered. */
export interface Reply {
  /** The time there, in milliseconds. */
  readonly now: number
  /** Whether the call came after its fence, and did nothing. */
  readonly fenced: boolean
  readonly numbers: readonly number[]
}

const BYTES = 8

/** Reads the answer to a command with so many numbers; `undefined`: it is none that the script has given. */
export function decode(bytes: unknown, expected: number): Reply | undefined {
  if (!Buffer.isBuffer(bytes) || bytes.length < 2 * BYTES) return undefined
  const fence = bytes.readDoubleLE(0)
  const now = bytes.readDoubleLE(BYTES)
  const fenced = fence === 1
  if (bytes.length !== (fenced ? 2 : 2 + expected) * BYTES || (!fenced && fence !== 0)) return undefined
  const numbers: number[] = []
  let whole = Number.isSafeInteger(now) && now >= 0
  for (let at = 2 * BYTES; at < bytes.length; at += BYTES) {
    const number = bytes.readDoubleLE(at)
    whole &&= Number.isSafeInteger(number)
    numbers.push(number)
  }
  return whole ? { now, fenced, numbers } : undefined
}

/** The keys of a call, and what it says about each place: the place of its key, and its policy. */
class Items {
  readonly keys: string[] = []
  readonly words: string[] = []
  readonly #keyOf: (partition: string) => string

  constructor(keyOf: (partition: string) => string) {
    this.#keyOf = keyOf
  }

  partition(partition: string): void {
    const key = this.#keyOf(partition)
    let index = this.keys.indexOf(key)
    if (index < 0) index = this.keys.push(key) - 1
    this.words.push(String(index + 1))
  }

  place({ partition, policy }: Place): void {
    this.partition(partition)
    this.words.push(...policyWords(policy))
  }

  receipts(charges: readonly Receipt[]): void {
    this.words.push(String(charges.length))
    for (const { at, units } of charges) this.words.push(String(at), String(units))
  }

  command(operation: Operation, fields: number, numbers: number): Command {
    return { operation, keys: this.keys, fields, items: this.words, patient: false, numbers }
  }
}

/** Whose keys are asked for, and how many fields are more than a partition should have. */
export interface Encoding {
  readonly keyOf: (partition: string) => string
  readonly fields: number
  /** The scripts that charges may have of their own; `undefined`: none. */
  readonly plans?: Plans | undefined
}

export function chargeCommand(
  { keyOf, fields, plans }: Encoding,
  operation: 'charge' | 'try',
  charges: readonly Purchase[]
): Command {
  if (plans !== undefined && operation === 'charge' && fields === 0) {
    const planned = planCommand(keyOf, plans, charges)
    if (planned !== undefined) return planned
  }
  const items = new Items(keyOf)
  for (const charge of charges) {
    items.place(charge)
    const { units, policy, ahead = 0, shares = 1 } = charge
    items.words.push(String(units), policy.shadow ? '1' : '0', String(ahead), String(shares))
  }
  return items.command(operation, fields, OF_A_LIMIT * charges.length)
}

/** Charges by the script of their plan, if they have one and buy nothing ahead. */
function planCommand(
  keyOf: Encoding['keyOf'],
  plans: Plans,
  charges: readonly Purchase[]
): Command | undefined {
  const keys: string[] = []
  const places: number[] = []
  const policies: QuotaPolicy[] = []
  const items: string[] = []
  for (const { partition, policy, units, ahead = 0 } of charges) {
    if (ahead > 0) return undefined
    const key = keyOf(partition)
    let index = keys.indexOf(key)
    if (index < 0) index = keys.push(key) - 1
    places.push(index + 1)
    policies.push(policy)
    items.push(String(units))
    const told = plans.told(policy)
    if (told !== undefined) items.push(...told)
  }
  const plan = plans.of(policies, places)
  if (plan === undefined) return undefined
  const numbers = OF_A_LIMIT * charges.length
  return { operation: 'charge', plan, keys, fields: 0, items, patient: false, numbers }
}

export function settleCommand({ keyOf, fields }: Encoding, settlements: readonly Settlement[]): Command {
  const items = new Items(keyOf)
  for (const settlement of settlements) {
    items.place(settlement)
    items.words.push(String(settlement.actual))
    items.receipts(settlement.charges)
  }
  return {
    ...items.command('settle', fields, OF_A_LIMIT * settlements.length),
    patient: settlements.every(isRelease)
  }
}

export function renewCommand({ keyOf, fields }: Encoding, leases: readonly Lease[]): Command {
  const items = new Items(keyOf)
  for (const lease of leases) {
    items.place(lease)
    items.receipts(lease.charges)
  }
  const receipts = leases.reduce((sum, { charges }) => sum + charges.length, 0)
  return items.command('renew', fields, OF_A_RECEIPT * receipts)
}

export function resetCommand({ keyOf, fields }: Encoding, places: readonly Place[]): Command {
  const items = new Items(keyOf)
  for (const { partition, policy } of places) {
    items.partition(partition)
    items.words.push(policy.field)
  }
  return items.command('reset', fields, 0)
}

/** Numbers that the script tells of each limit. */
const OF_A_LIMIT = 7

/** Numbers that it tells of each receipt of a lease: when it ends, and its units. */
const OF_A_RECEIPT = 2

/** The limits of a call about these charges, in their order. */
export function limitsOf(charges: readonly Charge[], { numbers }: Reply): readonly ServiceLimit[] {
  return charges.map(({ policy, units }, i) => {
    const first = i * OF_A_LIMIT
    const charged = numbers[first + 6]!
    return {
      policy,
      units,
      allowed: numbers[first] === 1,
      remaining: numbers[first + 1]!,
      effectiveWindow: numbers[first + 2]!,
      retryAfter: numbers[first + 3]!,
      delay: numbers[first + 4]!,
      charges: charged > 0 ? [{ at: numbers[first + 5]!, units: charged }] : NO_CHARGES
    }
  })
}

/** The receipts of each lease that was renewed; one that has ended has none. */
export function receiptsOf(leases: readonly Lease[], { numbers }: Reply): readonly (readonly Receipt[])[] {
  let next = 0
  return leases.map(({ charges }) =>
    charges.flatMap(() => {
      const [at = 0, units = 0] = numbers.slice(next, next + OF_A_RECEIPT)
      next += OF_A_RECEIPT
      return units === 0 ? [] : [{ at, units }]
    })
  )
}

const NO_CHARGES: readonly Receipt[] = Object.freeze([])

/** The script reads as many parameters of each policy. */
const PARAMS = [0, 1, 2, 3, 4] as const

/** The words of a policy never change: they are made once. A policy of a plan is one for each quota. */
const words = new WeakMap<QuotaPolicy, readonly string[]>()

function policyWords(policy: QuotaPolicy): readonly string[] {
  const known = words.get(policy)
  if (known !== undefined) return known
  const { field, algorithm, params } = policy
  const made = [field, algorithm.name, ...PARAMS.map(i => String(params[i] ?? 0))]
  words.set(policy, made)
  return made
}
