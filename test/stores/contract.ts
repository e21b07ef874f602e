import type { Test } from 'tap'
import { NEVER, UNKNOWN } from '../../src/algorithm.js'
import type { Receipt } from '../../src/algorithm.js'
import { compilePolicy } from '../../src/policy.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import type {
  Answer,
  Charge,
  Lease,
  Place,
  ServiceLimit,
  Settlement,
  Source,
  Store
} from '../../src/store.js'

/** What every store keeps, wherever it counts. It passes by being named in contract.test.ts. */
export interface Subject {
  readonly store: Store
  readonly source: Source
  /** The clock it counts by, if that is the test's: it stands still until it is set. */
  readonly clock?: { now: number }
}

/** Runs the behaviours against one store: those that have to see time pass only if a test has its clock. */
export async function keepsTheContract(t: Test, subject: Subject): Promise<void> {
  const behaviours = { ...TIMELESS, ...(subject.clock === undefined ? {} : TIMED) }
  for (const [name, behaviour] of Object.entries(behaviours)) {
    await t.test(name, t => behaviour(t, new Bench(subject)))
  }
}

type Behaviour = (t: Test, bench: Bench) => Promise<void>

const DAY = 86_400_000

let benches = 0

/** One behaviour's own partitions in a store. */
class Bench {
  readonly #store: Store
  readonly #clock: { now: number } | undefined
  readonly #prefix: string
  readonly source: Source

  constructor({ store, source, clock }: Subject) {
    this.#store = store
    this.#clock = clock
    this.#prefix = `bench ${benches++}, `
    this.source = source
    if (clock !== undefined) clock.now = Date.UTC(2026, 10, 30)
  }

  get now(): number {
    return this.#clock!.now
  }

  /** Lets time pass; back, if it is negative. */
  pass(milliseconds: number): void {
    this.#clock!.now += milliseconds
  }

  place(policy: QuotaPolicy, partition: string = 'p'): Place {
    return { policy, partition: this.#prefix + partition }
  }

  charge(policy: QuotaPolicy, units: number = 1, partition?: string): Charge {
    return { ...this.place(policy, partition), units }
  }

  lease(policy: QuotaPolicy, charges: readonly Receipt[], partition?: string): Lease {
    return { ...this.place(policy, partition), charges }
  }

  settlement(
    policy: QuotaPolicy,
    charges: readonly Receipt[],
    actual: number,
    partition?: string
  ): Settlement {
    return { ...this.lease(policy, charges, partition), actual }
  }

  async consume(...charges: readonly Charge[]): Promise<Answer> {
    return this.#store.consume(charges)
  }

  /** Charges one policy and gives its limit. */
  async spend(policy: QuotaPolicy, units: number = 1, partition?: string): Promise<ServiceLimit> {
    return only(await this.consume(this.charge(policy, units, partition)))
  }

  async settle(...settlements: readonly Settlement[]): Promise<Answer> {
    return this.#store.settle(settlements)
  }

  async renew(...leases: readonly Lease[]): Promise<readonly (readonly Receipt[])[]> {
    return this.#store.renew(leases)
  }

  async peek(...places: readonly Place[]): Promise<Answer> {
    return this.#store.peek(places)
  }

  /** What is left in these places. */
  async left(...places: readonly Place[]): Promise<readonly number[]> {
    return remaining(await this.peek(...places))
  }

  async reset(...places: readonly Place[]): Promise<void> {
    await this.#store.reset(places)
  }
}

const policy = (name: string, options: PolicyOptions): QuotaPolicy => compilePolicy(name, options, [])
const only = ({ limits }: Answer): ServiceLimit => limits[0]!
const allowed = ({ limits }: Answer): readonly boolean[] => limits.map(({ allowed }) => allowed)
const remaining = ({ limits }: Answer): readonly number[] => limits.map(({ remaining }) => remaining)
const isAdmitted = ({ limits }: Answer): boolean =>
  limits.every(({ allowed, policy }) => allowed || policy.shadow)
const receiptCounts = ({ limits }: Answer): readonly number[] => limits.map(({ charges }) => charges.length)
const units = (charges: readonly Receipt[]): readonly number[] => charges.map(({ units }) => units)

/** Five units each, all of which count for an hour, or until they are released. */
const KINDS = {
  'sliding-window': { quota: 5, window: '1h' },
  'sliding-window-log': { quota: 5, window: '1h', algorithm: 'sliding-window-log' },
  'sliding-window-counter': { quota: 5, window: '1h', algorithm: 'sliding-window-counter' },
  'fixed-window': { quota: 5, window: '1h', algorithm: 'fixed-window' },
  'token-bucket': { quota: 5, window: '1h', algorithm: 'token-bucket' },
  'leaky-bucket': { quota: 5, window: '1h', algorithm: 'leaky-bucket' },
  queue: { quota: 5, window: '1h', algorithm: 'leaky-bucket', maxDelay: '48m' },
  concurrency: { quota: 5, algorithm: 'concurrency', holdFor: '1h' }
} as const satisfies Record<string, PolicyOptions>

const kinds: readonly QuotaPolicy[] = Object.entries(KINDS).map(([name, options]) => policy(name, options))
const [log, , , fixed, bucket, , queue, slots] = kinds as readonly QuotaPolicy[] &
  readonly [QuotaPolicy, unknown, unknown, QuotaPolicy, QuotaPolicy, unknown, QuotaPolicy, QuotaPolicy]
const wide = policy('wide', { quota: 1000, window: '1d' })

const TIMELESS: Readonly<Record<string, Behaviour>> = {
  async 'charges add up until nothing is left, whatever counts them'(t, bench) {
    for (const policy of kinds) {
      const answers: Answer[] = []
      for (let i = 0; i < 7; i++) answers.push(await bench.consume(bench.charge(policy)))
      t.strictSame(answers.flatMap(remaining), [4, 3, 2, 1, 0, 0, 0], policy.name)
      t.strictSame(answers.flatMap(allowed), [true, true, true, true, true, false, false])
      t.strictSame(answers.flatMap(receiptCounts), [1, 1, 1, 1, 1, 0, 0])
    }
  },

  async 'an answer tells of each charge, in their order'(t, bench) {
    const charges = [
      bench.charge(wide, 3, 'b'),
      bench.charge(log, 2, 'a'),
      bench.charge(bucket, 1, 'b'),
      bench.charge(fixed, 0, 'a'),
      bench.charge(slots, 5, 'c')
    ]
    const { limits, source } = await bench.consume(...charges)
    t.equal(source, bench.source)
    t.strictSame(
      limits.map(({ policy, units }) => [policy, units]),
      charges.map(({ policy, units }) => [policy, units])
    )
    t.strictSame(
      limits.map(({ remaining }) => remaining),
      [997, 3, 4, 5, 0]
    )
    t.strictSame(
      limits.map(({ charges }) => units(charges)),
      [[3], [2], [1], [], [5]]
    )
    const reversed = await bench.peek(...charges.toReversed())
    t.strictSame(remaining(reversed), [0, 5, 4, 3, 997])
    t.equal(reversed.source, bench.source)
  },

  async 'what is charged for nothing is answered'(t, bench) {
    t.strictSame(await bench.consume(), { limits: [], source: bench.source })
    t.strictSame(await bench.peek(), { limits: [], source: bench.source })
    t.strictSame(await bench.renew(), [])
    await bench.reset()
  },

  async 'all are charged or none, in whatever order'(t, bench) {
    const tight = kinds.map(each => each.withQuota(each.quota))
    for (const [i, spent] of tight.entries()) {
      const all = tight.map(each => bench.charge(each, 1, `${i}`))
      await bench.spend(spent, 5, `${i}`)
      for (const order of [all, all.toReversed()]) {
        const answer = await bench.consume(...order)
        t.strictSame(
          answer.limits.filter(({ allowed }) => !allowed).map(({ policy }) => policy.name),
          [spent.name]
        )
        t.ok(
          answer.limits.every(({ charges }) => charges.length === 0),
          'nobody has a receipt'
        )
      }
      t.strictSame(
        await bench.left(...all),
        tight.map(each => (each === spent ? 0 : 5)),
        `${spent.name} refused, and nobody was charged`
      )
    }
  },

  async 'also over several partitions'(t, bench) {
    const user = policy('user', { quota: 2, window: '1h' })
    const together = (name: string, address: string): Charge[] => [
      bench.charge(user, 1, name),
      bench.charge(log, 1, address),
      bench.charge(wide, 1, 'everybody')
    ]
    t.strictSame(remaining(await bench.consume(...together('ann', 'x'))), [1, 4, 999])
    t.strictSame(remaining(await bench.consume(...together('ann', 'y'))), [0, 4, 998])
    t.strictSame(allowed(await bench.consume(...together('ann', 'x'))), [false, true, true])
    t.strictSame(await bench.left(...together('ann', 'x')), [0, 4, 998])
    t.strictSame(remaining(await bench.consume(...together('bob', 'x').toReversed())), [997, 3, 1])
  },

  async 'a refusal costs nothing, however often it is asked for'(t, bench) {
    for (const policy of kinds) {
      await bench.spend(policy, 5)
      for (let i = 0; i < 20; i++) t.equal((await bench.spend(policy, 1)).allowed, false)
      t.match(await bench.spend(policy, 6), { allowed: false, remaining: 0, retryAfter: NEVER, charges: [] })
      t.strictSame(await bench.left(bench.place(policy)), [0], policy.name)
    }
    await bench.spend(wide, 998)
    t.match(await bench.spend(wide, 3), { allowed: false, remaining: 2 })
    t.match(await bench.spend(wide, 2), { allowed: true, remaining: 0 }, 'the rest can still be spent')
  },

  async 'a shadow policy takes no part in the decision, and is charged if it has room itself'(t, bench) {
    const shadow = policy('shadow', { quota: 2, window: '1h', mode: 'shadow' })
    const roomy = policy('roomy', { quota: 9, window: '1h', mode: 'shadow' })
    const all = [bench.charge(shadow), bench.charge(log), bench.charge(roomy, 1, 'q')]
    const answers: Answer[] = []
    for (let i = 0; i < 6; i++) answers.push(await bench.consume(...all))
    t.strictSame(answers.map(allowed), [
      [true, true, true],
      [true, true, true],
      [false, true, true],
      [false, true, true],
      [false, true, true],
      [false, false, true]
    ])
    t.strictSame(answers.map(isAdmitted), [true, true, true, true, true, false])
    t.strictSame(answers.map(receiptCounts), [
      [1, 1, 1],
      [1, 1, 1],
      [0, 1, 1],
      [0, 1, 1],
      [0, 1, 1],
      [0, 0, 0]
    ])
    t.strictSame(await bench.left(...all), [0, 0, 4], 'a refused call charges no shadow')
    t.match(await bench.spend(shadow), { allowed: false, charges: [] }, 'nor one that is alone')
  },

  async 'no units: nothing is charged, and only a quota of 0 refuses'(t, bench) {
    for (const policy of kinds) {
      t.match(await bench.spend(policy, 0), { allowed: true, remaining: 5, units: 0, charges: [] })
      await bench.spend(policy, 5)
      t.match(await bench.spend(policy, 0), { allowed: true, remaining: 0, retryAfter: 0, charges: [] })
      const none = policy.withQuota(0)
      for (const units of [0, 1]) {
        t.match(await bench.spend(none, units, 'q'), {
          allowed: false,
          remaining: 0,
          effectiveWindow: 0,
          retryAfter: NEVER,
          charges: []
        })
      }
      t.strictSame(allowed(await bench.peek(bench.place(none, 'q'))), [false])
      t.strictSame(await bench.left(bench.place(policy, 'q')), [5], policy.name)
    }
  },

  async 'a peek changes nothing'(t, bench) {
    for (const policy of kinds) {
      const place = bench.place(policy)
      t.strictSame(await bench.left(place), [5])
      const { charges } = await bench.spend(policy, 3)
      for (let i = 0; i < 3; i++)
        t.match(only(await bench.peek(place)), { allowed: true, remaining: 2, units: 0, charges: [] })
      t.strictSame(remaining(await bench.consume(bench.charge(policy, 2))), [0], policy.name)
      t.strictSame(await bench.left(place), [0])
      if (policy !== queue)
        t.strictSame(remaining(await bench.settle(bench.settlement(policy, charges, 0))), [3])
    }
  },

  async 'partitions, names, algorithms and windows are counted apart'(t, bench) {
    const places = [
      bench.place(policy('p', { quota: 5, window: '1h' })),
      bench.place(policy('p', { quota: 5, window: '1h' }), 'q'),
      bench.place(policy('P', { quota: 5, window: '1h' })),
      bench.place(policy('p', { quota: 5, window: '2h' })),
      bench.place(policy('p', { quota: 5, window: '1h', algorithm: 'fixed-window' })),
      bench.place(policy('p', { quota: 5, window: '1h', algorithm: 'token-bucket' })),
      bench.place(policy('p', { quota: 5, window: '1h', algorithm: 'leaky-bucket' })),
      bench.place(policy('p', { quota: 5, window: '1h', algorithm: 'leaky-bucket', maxDelay: '48m' }))
    ]
    for (const [i, place] of places.entries()) {
      t.strictSame(remaining(await bench.consume({ ...place, units: i % 5 })), [5 - (i % 5)])
    }
    t.strictSame(
      await bench.left(...places),
      places.map((_, i) => 5 - (i % 5))
    )
  },

  async 'whatever a partition is called, it is one'(t, bench) {
    const names = [
      '',
      ' ',
      '__proto__',
      'constructor',
      '}{',
      '{a}',
      'a b\r\nc',
      '\0',
      'ä',
      'a\u0308',
      '\ud800',
      '\udc00',
      'x'.repeat(10_000),
      `${'x'.repeat(10_000)}y`
    ]
    const odd = policy('constructor', { quota: 100, window: '1h' })
    for (const [i, name] of names.entries()) await bench.spend(odd, i + 1, name)
    t.strictSame(
      await bench.left(...names.map(name => bench.place(odd, name))),
      names.map((_, i) => 99 - i)
    )
  },

  async 'the quota of a policy may change: its counter is one'(t, bench) {
    for (const policy of kinds.filter(policy => policy !== queue)) {
      const plan = (quota: number, units: number): Charge => bench.charge(policy.withQuota(quota), units)
      t.strictSame(remaining(await bench.consume(plan(10, 6))), [4], policy.name)
      t.strictSame(await bench.left(plan(20, 0)), [14])
      t.strictSame(remaining(await bench.consume(plan(7, 1))), [0])
      t.match(only(await bench.consume(plan(5, 1))), { allowed: false, remaining: 0 })
      t.match(only(await bench.consume(plan(0, 1))), { allowed: false, remaining: 0, retryAfter: NEVER })
      t.strictSame(remaining(await bench.consume(plan(20, 1))), [12])
    }
  },

  async 'a settlement gives back what was not used, all of it for 0'(t, bench) {
    for (const policy of kinds.filter(policy => policy !== queue)) {
      const { charges } = await bench.spend(policy, 4)
      t.match(only(await bench.settle(bench.settlement(policy, charges, 1))), {
        policy,
        units: 0,
        allowed: true,
        remaining: 4,
        retryAfter: 0,
        charges: []
      })
      const again = await bench.spend(policy, 4)
      t.match(again, { allowed: true, remaining: 0 }, policy.name)
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, again.charges, 0))), [4])
      const { source } = await bench.settle(bench.settlement(policy, again.charges, 4))
      t.equal(source, bench.source)
      t.strictSame(await bench.left(bench.place(policy)), [4], 'as charged: nothing changes')
    }
    const { charges } = await bench.spend(queue, 3)
    t.strictSame(remaining(await bench.settle(bench.settlement(queue, charges, 0))), [2], 'but in a queue')
  },

  async 'what exceeds a charge is charged at once, down to one quota of debt'(t, bench) {
    for (const policy of kinds.filter(policy => policy !== queue)) {
      const { charges } = await bench.spend(policy, 4)
      const overrun = only(await bench.settle(bench.settlement(policy, charges, 7)))
      t.match(overrun, { allowed: true, remaining: 0 })
      t.strictSame(units(overrun.charges), [3], `${policy.name}: with a receipt of its own`)
      const dropped = only(await bench.settle(bench.settlement(policy, [], 99)))
      t.strictSame(units(dropped.charges), [3], 'what was dropped has none')
      t.strictSame(only(await bench.settle(bench.settlement(policy, [], 1))).charges, [])
      const all = [...charges, ...overrun.charges, ...dropped.charges]
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, all, 6))), [0])
      t.equal((await bench.spend(policy, 1)).allowed, false)
      const rest = [...charges, { ...overrun.charges[0]!, units: 2 }]
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, rest, 2))), [3])
    }
  },

  async 'units can be spent without a decision before'(t, bench) {
    for (const policy of kinds) {
      const spent = only(await bench.settle(bench.settlement(policy, [], 3)))
      t.match(spent, { policy, units: 0, remaining: 2 })
      t.strictSame(units(spent.charges), [3], policy.name)
      t.strictSame(only(await bench.settle(bench.settlement(policy, [], 0))).charges, [])
      t.strictSame(await bench.left(bench.place(policy)), [2])
    }
  },

  async 'several settlements are made in one call, each its own, in their order'(t, bench) {
    const receipts = await bench.consume(
      bench.charge(log, 4),
      bench.charge(fixed, 4, 'q'),
      bench.charge(bucket, 4)
    )
    const answer = await bench.settle(
      ...receipts.limits.map(({ policy, charges }, i) =>
        bench.settlement(policy, charges, i, policy === fixed ? 'q' : 'p')
      )
    )
    t.strictSame(
      answer.limits.map(({ policy, remaining }) => [policy, remaining]),
      [
        [log, 5],
        [fixed, 4],
        [bucket, 3]
      ]
    )
    const { charges } = await bench.spend(log, 2)
    const twice = await bench.settle(bench.settlement(log, charges, 1), bench.settlement(log, [], 3))
    t.strictSame(remaining(twice), [4, 1], 'two of one place')
  },

  async 'what was never charged is not given back'(t, bench) {
    for (const policy of kinds) {
      const { charges } = await bench.spend(policy, 4)
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, charges, 0, 'nobody'))), [5])
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, [], 0))), [1], policy.name)
    }
  },

  async 'leases are renewed in one call, each under its new receipt'(t, bench) {
    const uploads = policy('uploads', { quota: 9, algorithm: 'concurrency', holdFor: '1h' })
    const { limits } = await bench.consume(bench.charge(slots, 2), bench.charge(uploads, 4, 'q'))
    const [one, two] = limits.map(({ charges }) => charges) as [readonly Receipt[], readonly Receipt[]]
    const renewed = await bench.renew(
      bench.lease(slots, one),
      bench.lease(uploads, two, 'q'),
      bench.lease(slots, one, 'nobody'),
      bench.lease(uploads, [], 'q')
    )
    t.strictSame(renewed.map(units), [[2], [4], [], []])
    t.strictSame(await bench.left(bench.place(slots), bench.place(uploads, 'q')), [3, 5], 'no more is held')
    t.strictSame(remaining(await bench.settle(bench.settlement(slots, renewed[0]!, 1))), [4])
    t.strictSame(remaining(await bench.settle(bench.settlement(uploads, renewed[1]!, 0, 'q'))), [9])
  },

  async 'a place that is taken is not waited for, for nobody knows how long'(t, bench) {
    await bench.spend(slots, 5)
    t.match(await bench.spend(slots), { allowed: false, effectiveWindow: 0, retryAfter: UNKNOWN })
    t.match(await bench.spend(slots, 6), { allowed: false, retryAfter: NEVER })
  },

  async 'a reset forgets what these policies counted here, and nothing else'(t, bench) {
    for (const policy of kinds) {
      const here = bench.place(policy)
      const there = bench.place(policy, 'q')
      await bench.consume({ ...here, units: 5 }, bench.charge(wide, 2))
      await bench.spend(policy, 3, 'q')
      await bench.reset(here, bench.place(policy, 'nobody'))
      t.strictSame(await bench.left(here, there), [5, 2], policy.name)
      t.strictSame(remaining(await bench.consume({ ...here, units: 1 })), [4], 'and goes on counting')
    }
    t.strictSame(await bench.left(bench.place(wide)), [1000 - 2 * kinds.length])
    await bench.reset(bench.place(wide), ...kinds.map(policy => bench.place(policy, 'q')))
    t.strictSame(await bench.left(bench.place(wide), ...kinds.map(policy => bench.place(policy, 'q'))), [
      1000,
      ...kinds.map(() => 5)
    ])
  },

  async 'many policies and partitions are decided in one call'(t, bench) {
    const many = Array.from({ length: 40 }, (_, i) => policy(`many-${i}`, { quota: i + 1, window: '1h' }))
    const charges = many.map((policy, i) => bench.charge(policy, 1, `${i % 20}`))
    t.strictSame(
      remaining(await bench.consume(...charges)),
      many.map((_, i) => i)
    )
    const { limits } = await bench.consume(...charges)
    t.strictSame(
      limits.map(({ allowed }) => allowed),
      many.map((_, i) => i > 0)
    )
    t.strictSame(
      await bench.left(...charges),
      many.map((_, i) => i)
    )
  },

  async 'many places are looked at, settled, renewed and reset together'(t, bench) {
    const places = Array.from({ length: 250 }, (_, i) => bench.place(slots, `${i}`))
    const receipts: (readonly Receipt[])[] = []
    for (const [i, place] of places.entries())
      receipts.push(only(await bench.consume({ ...place, units: 1 + (i % 5) })).charges)
    const leases = places.map((place, i) => ({ ...place, charges: receipts[i]! }))
    const renewed = await bench.renew(...leases)
    t.strictSame(
      renewed.map(units),
      places.map((_, i) => [1 + (i % 5)])
    )
    t.strictSame(
      await bench.left(...places),
      places.map((_, i) => 4 - (i % 5))
    )
    const settled = await bench.settle(
      ...leases.map((lease, i) => ({ ...lease, charges: renewed[i]!, actual: 1 }))
    )
    t.strictSame(
      remaining(settled),
      places.map(() => 4)
    )
    await bench.reset(...places.slice(1))
    t.strictSame(await bench.left(...places), [4, ...places.slice(1).map(() => 5)])
  },

  async 'the largest quota is counted to the unit'(t, bench) {
    const largest = 999_999_999_999_999
    for (const terms of [
      { window: '9s' }, // no more fits
      { window: '1d', algorithm: 'fixed-window' },
      { algorithm: 'concurrency' }
    ] as const) {
      const vast = policy('vast', { quota: largest, ...terms })
      const { charges } = await bench.spend(vast, largest - 3)
      t.strictSame(units(charges), [largest - 3], vast.algorithm.name)
      t.match(await bench.spend(vast, 4), { allowed: false, remaining: 3 })
      t.match(await bench.spend(vast, 2), { allowed: true, remaining: 1 })
      t.strictSame(remaining(await bench.settle(bench.settlement(vast, charges, 5))), [largest - 7])
    }
  }
}

const TIMED: Readonly<Record<string, Behaviour>> = {
  async 'an answer is what the algorithm says, and nothing else'(t, bench) {
    const { now } = bench
    t.strictSame(await bench.consume(bench.charge(log, 2), bench.charge(queue, 3, 'q')), {
      source: bench.source,
      limits: [
        {
          policy: log,
          units: 2,
          allowed: true,
          remaining: 3,
          effectiveWindow: 3_600_000,
          retryAfter: 0,
          delay: 0,
          charges: [{ at: now, units: 2 }]
        },
        {
          policy: queue,
          units: 3,
          allowed: true,
          remaining: 2,
          effectiveWindow: 1_440_000,
          retryAfter: 0,
          delay: 1_440_000,
          charges: [{ at: now, units: 3 }]
        }
      ]
    })
    bench.pass(1000)
    t.strictSame(await bench.consume(bench.charge(log, 4), bench.charge(queue, 6, 'q')), {
      source: bench.source,
      limits: [
        {
          policy: log,
          units: 4,
          allowed: false,
          remaining: 3,
          effectiveWindow: 3_599_000,
          retryAfter: 3_599_000,
          delay: 0,
          charges: []
        },
        {
          policy: queue,
          units: 6,
          allowed: false,
          remaining: 2,
          effectiveWindow: 1_441_000,
          retryAfter: NEVER,
          delay: 0,
          charges: []
        }
      ]
    })
  },

  async 'a receipt tells when it was charged; of a lease, when it ends'(t, bench) {
    for (const policy of kinds) {
      const at = policy === slots ? bench.now + 3_600_000 : bench.now
      t.strictSame((await bench.spend(policy, 2)).charges, [{ at, units: 2 }], policy.name)
      bench.pass(7)
      const more = only(await bench.settle(bench.settlement(policy, [{ at, units: 2 }], 3)))
      t.strictSame(more.charges, [{ at: at + 7, units: 1 }])
    }
  },

  async 'a surplus is taken back from the latest receipt first, at most its units'(t, bench) {
    const tokens = policy('tokens', { quota: 100, window: '1m' })
    const settled = [
      [60, 70, 90, 100],
      [55, 75, 95, 100],
      [45, 85, 100, 100],
      [30, 100, 100, 100],
      [12, 100, 100, 100],
      [0, 100, 100, 100],
      [75, 55, 75, 100]
    ] as const
    for (const [actual, ...left] of settled) {
      const start = bench.now
      const partition = String(actual)
      const receipts: Receipt[] = []
      for (const units of [30, 20, 10]) {
        receipts.push(...(await bench.spend(tokens, units, partition)).charges)
        bench.pass(10_000)
      }
      bench.pass(-10_000)
      await bench.settle(bench.settlement(tokens, receipts, actual, partition))
      bench.pass(40_000)
      const later: number[] = []
      for (let i = 0; i < 3; i++, bench.pass(10_000))
        later.push(...(await bench.left(bench.place(tokens, partition))))
      t.strictSame(later, left, `what is left once the receipts leave, of ${actual} used`)
      t.equal(bench.now, start + 90_000)
    }
  },

  async 'what has left is not given back'(t, bench) {
    for (const policy of kinds.filter(policy => policy !== queue)) {
      const { charges } = await bench.spend(policy, 4)
      bench.pass(DAY)
      await bench.spend(policy, 5)
      t.strictSame(remaining(await bench.settle(bench.settlement(policy, charges, 0))), [0], policy.name)
    }
  },

  async 'a wait is true to the millisecond'(t, bench) {
    for (const policy of kinds.filter(policy => policy !== slots)) {
      await bench.spend(policy, 5)
      bench.pass(61_234)
      const { retryAfter } = await bench.spend(policy, 1)
      t.ok(retryAfter > 0)
      bench.pass(retryAfter - 1)
      t.match(await bench.spend(policy, 1), { allowed: false, remaining: 0, retryAfter: 1 }, policy.name)
      bench.pass(1)
      t.equal((await bench.spend(policy, 1)).allowed, true)
    }
  },

  async 'what was spent counts until its end, and not a millisecond longer'(t, bench) {
    const ends: Readonly<Record<string, number>> = { 'sliding-window-counter': 3_889_000 }
    for (const policy of kinds) {
      const end = ends[policy.name] ?? 3_600_000
      const { charges } = await bench.spend(policy, 5)
      bench.pass(end - 1)
      t.match(await bench.left(bench.place(policy)), [/[0-4]/], policy.name)
      if (policy.algorithm.renew !== undefined) {
        bench.pass(1)
        t.strictSame(await bench.renew(bench.lease(policy, charges)), [[]], 'what has ended is not renewed')
        bench.pass(-1)
      }
      bench.pass(1)
      t.strictSame(await bench.left(bench.place(policy)), [5])
      t.match(await bench.spend(policy, 5), { allowed: true, remaining: 0 })
    }
  },

  async 'one policy of a partition ends, and another does not'(t, bench) {
    const brief = policy('brief', { quota: 5, window: '1s' })
    await bench.consume(bench.charge(brief, 5), bench.charge(log, 5), bench.charge(wide, 5))
    bench.pass(1000)
    t.strictSame(await bench.left(...[brief, log, wide].map(policy => bench.place(policy))), [5, 0, 995])
    await bench.spend(brief, 2)
    bench.pass(3_599_000)
    t.strictSame(await bench.left(...[brief, log, wide].map(policy => bench.place(policy))), [5, 5, 995])
  },

  async 'a lease lives as long as it is renewed'(t, bench) {
    let { charges } = await bench.spend(slots, 2)
    for (let i = 0; i < 3; i++) {
      bench.pass(3_599_999)
      const [renewed] = await bench.renew(bench.lease(slots, charges))
      t.strictSame(renewed, [{ at: bench.now + 3_600_000, units: 2 }])
      t.strictSame(await bench.left(bench.place(slots)), [3])
      charges = renewed!
    }
    t.match(await bench.spend(slots, 1), { remaining: 2 })
    bench.pass(3_600_000)
    t.strictSame(await bench.left(bench.place(slots)), [5], 'its holder has died')
    t.strictSame(remaining(await bench.settle(bench.settlement(slots, charges, 0))), [5], 'and frees nothing')
  },

  async 'several receipts of a lease are renewed, those that have ended are left out'(t, bench) {
    const first = await bench.spend(slots, 1)
    bench.pass(1_800_000)
    const second = await bench.spend(slots, 2)
    bench.pass(1_800_000)
    const [renewed] = await bench.renew(bench.lease(slots, [...first.charges, ...second.charges]))
    t.strictSame(renewed, [{ at: bench.now + 3_600_000, units: 2 }])
    t.strictSame(await bench.left(bench.place(slots)), [3])
  },

  async 'a clock that goes back gives nothing back, and nobody waits longer than a window'(t, bench) {
    for (const policy of [log, kinds[1]!, fixed, slots]) {
      await bench.spend(policy, 5)
      bench.pass(-DAY)
      t.equal((await bench.spend(policy, 1)).allowed, false, policy.name)
      bench.pass(3_599_999)
      t.equal((await bench.spend(policy, 1)).allowed, false)
      bench.pass(1)
      t.match(await bench.spend(policy, 1), { allowed: true, remaining: 4 }, 'a refusal is enough to notice')
    }
  }
}
