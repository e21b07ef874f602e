import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { EMPTY, TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Terms } from '../../src/algorithm.js'
import { leakyBucket, tokenBucket } from '../../src/algorithms/bucket.js'
import { concurrency } from '../../src/algorithms/concurrency.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'
import { slidingWindowCounter } from '../../src/algorithms/sliding-window-counter.js'
import { slidingWindow } from '../../src/algorithms/sliding-window.js'
import { compilePolicy } from '../../src/policy.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { Later } from '../../src/later.js'
import type { Answer, Charge, Place, ServiceLimit, Store } from '../../src/store.js'
import { memoryStore } from '../../src/stores/memory.js'
import type { MemoryStore } from '../../src/stores/memory.js'
import type { RedisStore } from '../../src/stores/redis.js'
import { Keys } from '../../src/stores/redis/keys.js'
import { HOUR, YEAR, ask, denseScenario, many, share } from '../algorithms/kit.js'
import type { Ask } from '../algorithms/kit.js'
import type { Owner, RedisServer } from '../redis/servers.js'
import { SECRET, clientOf, openStore, replacing, rewriting } from './redis/kit.js'
import type { Rewrite } from './redis/kit.js'

/** Whether two stores that are told the same time answer the same, to the digit, whatever they are asked. */

// --- What is asked ----------------------------------------------------------------------------------------------------

/** How a policy counts, of terms that were made for all. */
interface Kind {
  readonly algorithm: Algorithm
  readonly terms: (terms: Terms) => Terms
}

const NAMES = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket',
  'leaky-bucket with maxDelay',
  'concurrency'
] as const

type KindName = (typeof NAMES)[number]

const asWindow = (terms: Terms): Terms => ({ ...terms, maxDelay: 0 })

const KINDS: Readonly<Record<KindName, Kind>> = {
  'sliding-window': { algorithm: slidingWindow, terms: asWindow },
  'sliding-window-log': {
    algorithm: slidingWindow,
    terms: terms => ({ ...asWindow(terms), precision: terms.window })
  },
  'sliding-window-counter': {
    algorithm: slidingWindowCounter,
    terms: terms => ({ ...asWindow(terms), precision: Math.min(terms.precision, terms.window) })
  },
  'fixed-window': { algorithm: fixedWindow, terms: asWindow },
  'token-bucket': { algorithm: tokenBucket, terms: asWindow },
  'leaky-bucket': { algorithm: leakyBucket, terms: asWindow },
  'leaky-bucket with maxDelay': { algorithm: leakyBucket, terms: terms => terms },
  concurrency: { algorithm: concurrency, terms: terms => ({ ...terms, window: terms.holdFor }) }
}

const LEASE: KindName = 'concurrency'

/** The quota of a plan, said in terms of its first. */
type Plan = 'the first' | 'none' | 'one' | 'half' | 'one less' | 'one more' | 'twice'

interface Written {
  readonly kind: KindName
  readonly terms: Terms
  readonly shadow: boolean
}

/** How long to wait, said in terms of what was answered and charged, since that is where the edges are. */
interface Wait {
  readonly until:
    | 'now'
    | 'soon'
    | 'retryAfter'
    | 'effectiveWindow'
    | 'delay'
    | 'window'
    | 'sub-window'
    | 'end of a charge'
    | 'share'
    | 'back'
  readonly plus: number
  readonly share: number
}

/** A policy, and where; numbers choose one of those there are. */
interface Choice {
  readonly policy: number
  readonly partition: number
  readonly plan: Plan
}

interface Correction extends Choice {
  /** The receipts of this charge, the latest first; or invented ones. */
  readonly charge: number
  readonly alien: boolean
  readonly actual: 'none' | 'part' | 'the same' | 'one more' | 'rest' | 'twice' | 'far too much'
  readonly share: number
  /** Whether it is settled once more. */
  readonly keeps: boolean
}

type Operation =
  | { readonly name: 'consume'; readonly asks: readonly (Choice & { readonly ask: Ask })[] }
  | { readonly name: 'peek' | 'reset'; readonly places: readonly Choice[] }
  | { readonly name: 'settle' | 'renew'; readonly corrections: readonly Correction[] }

interface Turn {
  readonly wait: Wait
  /** Whose edge is waited for. */
  readonly whose: Choice
  readonly operation: Operation
}

export interface Scenario {
  readonly start: number
  readonly policies: readonly Written[]
  readonly partitions: number
  readonly turns: readonly Turn[]
}

// Repeated words are likelier.
const wait: fc.Arbitrary<Wait> = fc.record({
  until: fc.constantFrom<Wait['until'][]>(
    'now',
    'now',
    'now',
    'now',
    'soon',
    'soon',
    'retryAfter',
    'retryAfter',
    'effectiveWindow',
    'delay',
    'window',
    'sub-window',
    'end of a charge',
    'end of a charge',
    'share',
    'back'
  ),
  plus: fc.constantFrom(0, 0, 1, -1),
  share
})

const choice: fc.Arbitrary<Choice> = fc.record({
  policy: fc.nat(3),
  partition: fc.constantFrom(0, 0, 0, 1, 2),
  plan: fc.constantFrom<Plan[]>(
    'the first',
    'the first',
    'the first',
    'the first',
    'the first',
    'the first',
    'none',
    'one',
    'half',
    'one less',
    'one more',
    'twice'
  )
})

const correction: fc.Arbitrary<Correction> = fc
  .record({
    charge: fc.constantFrom(0, 0, 1, 2, 3),
    alien: fc.constantFrom(false, false, false, false, false, true),
    actual: fc.constantFrom<Correction['actual'][]>(
      'none',
      'none',
      'part',
      'part',
      'the same',
      'one more',
      'rest',
      'twice',
      'far too much'
    ),
    share,
    keeps: fc.boolean()
  })
  .chain(correction => choice.map(choice => ({ ...correction, ...choice })))

const asked = fc.record({ choice, ask }).map(({ choice, ask }) => ({ ...choice, ask }))

const few = <T>(item: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> =>
  fc.array(item, { minLength: 1, maxLength })

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ name: fc.constant('consume' as const), asks: few(asked, 4) }) },
  { weight: 2, arbitrary: fc.record({ name: fc.constant('peek' as const), places: few(choice, 6) }) },
  {
    weight: 5,
    arbitrary: fc.record({ name: fc.constant('settle' as const), corrections: few(correction, 3) })
  },
  {
    weight: 2,
    arbitrary: fc.record({ name: fc.constant('renew' as const), corrections: few(correction, 3) })
  },
  { weight: 1, arbitrary: fc.record({ name: fc.constant('reset' as const), places: few(choice, 2) }) }
)

const turn: fc.Arbitrary<Turn> = fc.record({ wait, whose: choice, operation })

/** Numbers with as many digits as there are. */
const large: fc.Arbitrary<Terms> = fc.record({
  quota: fc.constantFrom(999_999_999_999_999, 123_456_789_012_345, 999_999_999_989),
  window: fc.constantFrom(1, 7, 1500, 9000, HOUR, YEAR),
  precision: fc.constantFrom(1, 2, 7, 60),
  burst: fc.constantFrom(999_999_999_999_999, 123_456_789_012_345, 77),
  align: fc.boolean(),
  maxDelay: fc.constantFrom(1, 1500, HOUR),
  holdFor: fc.constantFrom(1, 1500, HOUR)
})

const written: fc.Arbitrary<Written> = fc.record({
  kind: fc.constantFrom(...NAMES),
  terms: fc.oneof(
    { weight: 9, arbitrary: denseScenario(0).map(({ terms }) => terms) },
    { weight: 1, arbitrary: large }
  ),
  shadow: fc.constantFrom(false, false, false, false, true)
})

export const scenario: fc.Arbitrary<Scenario> = fc.record({
  start: fc.oneof(
    { weight: 9, arbitrary: denseScenario(0).map(({ start }) => start) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: YEAR }) }
  ),
  policies: few(written, 4),
  partitions: fc.integer({ min: 1, max: 3 }),
  turns: many(turn, 150)
})

// --- Who asks ---------------------------------------------------------------------------------------------------------

/** Operations that were compared. */
export const compared: { operations: number; answers: number } = { operations: 0, answers: 0 }

/** What a scenario waits for may be thousands of years away; the time in sub-windows has to stay below 2^53. */
const LATEST = 2 ** 47

const FAR_TOO_MUCH = 2 ** 51

/** Units that were charged and may be corrected. */
interface Account extends Place {
  charges: readonly Receipt[]
}

/** A policy of a scenario, with all quotas that it is asked with. */
class Counted {
  readonly kind: KindName
  readonly terms: Terms
  readonly #plans = new Map<number, QuotaPolicy>()
  readonly #base: QuotaPolicy
  readonly #ends: boolean

  constructor(name: string, { kind, terms, shadow }: Written) {
    this.kind = kind
    const { algorithm } = KINDS[kind]
    this.terms = fitted(algorithm, KINDS[kind].terms(terms))
    this.#ends = algorithm === tokenBucket || algorithm === leakyBucket
    const mode = shadow ? 'shadow' : 'enforce'
    this.#base = compilePolicy(
      name,
      {
        // Half of them are plans, whose parameters a script is told with each call.
        quota: this.terms.quota % 2 === 0 ? () => 1 : 1,
        algorithm: algorithm.name as 'concurrency',
        mode,
        ...(kind === LEASE ? {} : { window: '1h' })
      },
      []
    )
  }

  /** With another quota; with its own, if it cannot be counted with that one. */
  with(plan: Plan): QuotaPolicy {
    const { quota } = this.terms
    const quotas = {
      'the first': quota,
      none: 0,
      one: 1,
      half: Math.floor(quota / 2),
      'one less': quota - 1,
      'one more': quota + 1,
      twice: quota * 2
    }
    return this.#of(quotas[plan]) ?? this.#of(quota)!
  }

  #of(quota: number): QuotaPolicy | undefined {
    const known = this.#plans.get(quota)
    if (known !== undefined) return known
    const { algorithm } = KINDS[this.kind]
    const params = paramsOf(algorithm, { ...this.terms, quota })
    if (params === undefined) return undefined
    const policy = { ...this.#base, quota, params, algorithm: this.#ends ? ending(algorithm) : algorithm }
    this.#plans.set(quota, policy)
    return policy
  }
}

/** These terms, or ones as near to them as the algorithm's arithmetic takes. */
function fitted(algorithm: Algorithm, terms: Terms): Terms {
  if (paramsOf(algorithm, terms) !== undefined) return terms
  const { quota, burst } = terms
  return fitted(algorithm, { ...terms, quota: Math.ceil(quota / 2), burst: Math.ceil(burst / 4) })
}

/** `undefined` if the terms cannot be counted exactly. */
function paramsOf(algorithm: Algorithm, terms: Terms): Params | undefined {
  try {
    return algorithm.params(terms)
  } catch (error) {
    if (error instanceof TermsError) return undefined
    throw error
  }
}

/** Asks both stores the same and compares what they answer. */
class Comparison {
  readonly #memory: MemoryStore = memoryStore()
  readonly #redis: RedisStore
  readonly #clock: { now: number }
  readonly #policies: readonly Counted[]
  readonly #partitions: readonly string[]
  readonly #accounts: Account[] = []
  readonly #answered = new Map<string, ServiceLimit>()

  constructor({ store, clock }: Told, { start, policies, partitions }: Scenario, name: string) {
    this.#redis = store
    this.#clock = clock
    clock.now = start
    this.#memory.useClock(() => clock.now)
    this.#policies = policies.map((written, i) => new Counted(`p${i}`, written))
    this.#partitions = Array.from({ length: partitions }, (_, i) => `${name}/${i}`)
  }

  get partitions(): readonly string[] {
    return this.#partitions
  }

  async take({ wait, whose, operation }: Turn): Promise<void> {
    const now = this.#clock.now + this.#milliseconds(wait, whose)
    this.#clock.now = Math.max(1, Math.min(LATEST, now))
    compared.operations++
    switch (operation.name) {
      case 'consume':
        return this.#consume(this.#charges(operation.asks))
      case 'peek':
        return this.#peek(this.#places(operation.places))
      case 'reset':
        return this.#reset(this.#places(operation.places))
      case 'settle':
        return this.#settle(operation.corrections)
      case 'renew':
        return this.#renew(operation.corrections)
    }
  }

  async #consume(charges: readonly Charge[]): Promise<void> {
    const { limits } = await this.#both(charges, store => store.consume(charges))
    for (const [i, { charges: receipts }] of limits.entries()) {
      if (receipts.length > 0) this.#accounts.unshift({ ...charges[i]!, charges: receipts })
    }
  }

  async #peek(places: readonly Place[]): Promise<void> {
    await this.#both(places, store => store.peek(places))
  }

  async #reset(places: readonly Place[]): Promise<void> {
    this.#memory.reset(places)
    await this.#redis.reset(places)
  }

  async #settle(corrections: readonly Correction[]): Promise<void> {
    const parts = corrections.map(correction => ({ correction, account: this.#account(correction) }))
    const settlements = parts.map(({ correction, account }) => ({
      ...account,
      policy: this.#planOf(account, correction.plan),
      actual: this.#actual(account, correction)
    }))
    const { limits } = await this.#both(settlements, store => store.settle(settlements))
    for (const [i, { correction, account }] of parts.entries()) {
      const at = this.#accounts.indexOf(account)
      if (correction.keeps) account.charges = [...account.charges, ...limits[i]!.charges]
      else if (at >= 0) this.#accounts.splice(at, 1)
    }
  }

  async #renew(corrections: readonly Correction[]): Promise<void> {
    const accounts = corrections.map(correction => this.#account(correction))
    const held = accounts.filter(
      ({ policy, charges }) => policy.algorithm.renew !== undefined && charges.length > 0
    )
    const leases = held.map(account => ({ ...account }))
    const ours = this.#memory.renew(leases)
    const theirs = await this.#redis.renew(leases)
    assert.deepEqual(theirs, ours, 'renewed')
    compared.answers += leases.length
    for (const [i, account] of held.entries()) account.charges = ours[i]!
  }

  async #both(places: readonly Place[], ask: (store: Store) => Later<Answer>): Promise<Answer> {
    const ours = await ask(this.#memory)
    const theirs = await ask(this.#redis)
    if (theirs.source !== 'redis') throw new Error('the store has failed')
    assert.equal(theirs.limits.length, ours.limits.length)
    for (const [i, limit] of ours.limits.entries()) {
      assertSame(theirs.limits[i]!, limit)
      this.#answered.set(keyOf(places[i]!), limit)
    }
    compared.answers += places.length
    return ours
  }

  /** Each policy once, as a request has them. */
  #charges(asks: readonly (Choice & { readonly ask: Ask })[]): readonly Charge[] {
    const charges = new Map<string, Charge>()
    for (const { ask, ...choice } of asks) {
      const place = this.#place(choice)
      charges.set(place.policy.name, { ...place, units: this.#units(place, ask) })
    }
    return [...charges.values()]
  }

  /** Each once: nobody asks with two quotas at a time. */
  #places(choices: readonly Choice[]): readonly Place[] {
    const places = choices.map(choice => this.#place(choice))
    return [...new Map(places.map(place => [keyOf(place), place])).values()]
  }

  #place({ policy, partition, plan }: Choice): Place {
    const counted = this.#policies[policy % this.#policies.length]!
    return {
      partition: this.#partitions[partition % this.#partitions.length]!,
      policy: counted.with(plan)
    }
  }

  #planOf({ policy }: Place, plan: Plan): QuotaPolicy {
    return this.#policies[Number(policy.name.slice(1))]!.with(plan)
  }

  /** Charges that were made; or ones that nobody made, where they might hit something. */
  #account({ charge, alien, share, ...choice }: Correction): Account {
    const known = this.#accounts[charge]
    if (known !== undefined && !alien) return known
    const place = this.#place(choice)
    const { capacity } = this.#limits(place)
    const at = Math.max(0, (known?.charges[0]?.at ?? this.#clock.now) + (share % 3) - 1)
    return { ...place, charges: alien ? [{ at, units: Math.floor((share * capacity) / 1000) }] : [] }
  }

  #actual({ charges, ...place }: Account, { actual, share }: Correction): number {
    const total = charges.reduce((sum, { units }) => sum + units, 0)
    switch (actual) {
      case 'none':
        return 0
      case 'part':
        return Math.floor((share * total) / 1000)
      case 'the same':
        return total
      case 'one more':
        return total + 1
      case 'rest':
        return total + this.#limits(place).remaining
      case 'twice':
        return total * 2
      case 'far too much':
        return FAR_TOO_MUCH
    }
  }

  #units(place: Place, { units, share }: Ask): number {
    const { remaining, capacity } = this.#limits(place)
    switch (units) {
      case 'none':
        return 0
      case 'one':
        return 1
      case 'rest':
        return remaining
      case 'rest and one':
        return remaining + 1
      case 'all':
        return capacity
      case 'too much':
        return capacity + 1
      case 'share':
        return 1 + Math.floor((share * capacity) / 1000)
    }
  }

  #limits(place: Place): { readonly remaining: number; readonly capacity: number } {
    const { remaining } = this.#memory.peek([place]).limits[0]!
    return { remaining, capacity: place.policy.algorithm.capacity(place.policy.params) }
  }

  #milliseconds({ until, plus, share }: Wait, whose: Choice): number {
    const place = this.#place(whose)
    const { terms } = this.#policies[Number(place.policy.name.slice(1))]!
    const last = this.#answered.get(keyOf(place))
    switch (until) {
      case 'now':
        return 0
      case 'soon':
        return 1
      case 'share':
        return Math.floor((share * 1.2 * terms.window) / 1000)
      case 'back':
        return -Math.floor((share * 1.5 * terms.window) / 1000)
      case 'window':
        return Math.max(0, terms.window + plus)
      case 'sub-window':
        return Math.max(0, Math.ceil(terms.window / terms.precision) + plus)
      case 'end of a charge': {
        const account = this.#accounts[share % (this.#accounts.length || 1)]
        const at = account?.charges[0]?.at ?? this.#clock.now
        const length = account?.policy.algorithm.renew === undefined ? terms.window : 0
        return Math.max(0, at + length - this.#clock.now + plus)
      }
      case 'retryAfter':
      case 'effectiveWindow':
      case 'delay':
        return Math.max(0, (last?.[until] ?? 0) + plus)
    }
  }
}

const keyOf = ({ policy, partition }: Place): string => `${policy.field} ${partition}`

function assertSame(theirs: ServiceLimit, { policy, ...ours }: ServiceLimit): void {
  assert.equal(theirs.policy, policy)
  assert.deepEqual({ ...theirs, policy: undefined }, { ...ours, policy: undefined })
}

/**
 * A state that says when it ends, and is empty from then on. That goes without saying but for a bucket whose quota has been
 * lowered: what would have drained with the old one by its end would not have with the new one. Redis forgets it there;
 * memory does when it sweeps, which is not now.
 */
function ending(algorithm: Algorithm): Algorithm {
  const living = ([end = 0, ...state]: State, now: number): State => (end > now ? state : EMPTY)
  return {
    ...algorithm,
    step(state, params, now, units) {
      const step = algorithm.step(living(state, now), params, now, units)
      return { ...step, state: step.state.length === 0 ? EMPTY : [now + step.ttl, ...step.state] }
    },
    settle(state, params, now, charge, actual) {
      const next = algorithm.settle(living(state, now), params, now, charge, actual)
      return next.length === 0 ? EMPTY : [Infinity, ...next]
    },
    room: (state, params, now) => algorithm.room(living(state, now), params, now)
  }
}

// --- The comparison ---------------------------------------------------------------------------------------------------

/** A store in Redis that is told the time. */
export interface Told {
  readonly store: RedisStore
  readonly clock: { now: number }
  readonly client: Redis
  readonly keys: Keys
}

/**
 * Redis keeps keys by its own clock, which does not stand still while that of a test does: nothing expires that the script
 * itself does not take for ended.
 */
const keptForAnHour: Rewrite = text =>
  replacing('ttl + 1000', 'ttl + 3600000')(replacing('ttl + 500', 'ttl + 3599500')(text))

/**
 * A store whose scripts are others. It counts by the script for everything, or charges by those of their plans: who bundles
 * commands has none of these.
 */
export async function toldStore(
  owner: Owner,
  server: RedisServer,
  prefix: string,
  by: 'everything' | 'plans',
  rewrite: Rewrite = text => text
): Promise<Told> {
  const source = clientOf(owner, server, { enableAutoPipelining: by === 'everything' })
  const client = rewriting(source, text => keptForAnHour(rewrite(text)))
  const clock = { now: 1 }
  const store = await openStore(owner, client, { connection: 'shared', time: 'caller', prefix })
  store.useClock(() => clock.now)
  return { store, clock, client, keys: new Keys(SECRET, prefix, false) }
}

let scenarios = 0

/** Whatever they are asked, both stores answer the same; and no key is left that never ends. */
export const parity = (told: Told): fc.IAsyncProperty<[Scenario]> =>
  fc.asyncProperty(scenario, async scenario => {
    const comparison = new Comparison(told, scenario, `scenario ${scenarios++}`)
    for (const turn of scenario.turns) await comparison.take(turn)
    const keys = comparison.partitions.map(partition => told.keys.of(partition))
    const expiries = await Promise.all(keys.map(key => told.client.pttl(key)))
    assert.ok(!expiries.includes(-1), 'a key never ends')
  })
