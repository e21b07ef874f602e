import fc from 'fast-check'
import t from 'tap'
import { Gate } from '../../../src/client/limits/gate.js'
import { HoldingLimit } from '../../../src/client/limits/holding.js'
import { ASK } from '../../../src/client/limits/limit.js'
import type { Charge, Limit } from '../../../src/client/limits/limit.js'
import { SpendingLimit } from '../../../src/client/limits/spending.js'
import { exact, say, spend } from './kit.js'

const numRuns = Number(process.env['QUOTA_TEST_RUNS'] ?? 500)

const limits: Readonly<Record<string, () => Limit>> = {
  'a gate': () => new Gate('unknown', exact),
  'a limit of places': () => new HoldingLimit(exact),
  'a quota that nobody declared': () => new SpendingLimit('requests', spend, exact),
  'a quota of 10 in 10 s': () => declared({ pacing: 'spend', headroom: 1 }),
  'a quota of 10 in 10 s, spent evenly': () => declared({ pacing: 'even', headroom: 1 }),
  'a quota of 10 in 10 s, with headroom': () => declared({ pacing: 'spend', headroom: 0.7 })
}

function declared(pace: ConstructorParameters<typeof SpendingLimit>[1]): Limit {
  const limit = new SpendingLimit('requests', pace, exact)
  limit.declare(say({ quota: 10, window: 10_000 }))
  return limit
}

type Act =
  | { readonly act: 'send'; readonly units: number }
  | {
      readonly act: 'serve'
      readonly pick: number
      readonly available: number | undefined
      readonly seconds: number
    }
  | { readonly act: 'end' | 'return' | 'lose'; readonly pick: number }
  | {
      readonly act: 'refuse'
      readonly pick: number
      readonly available: number | undefined
      readonly wait: number | undefined
    }
  | { readonly act: 'pass'; readonly ms: number }

const pick = fc.nat(20)
const some = fc.option(fc.nat(12), { nil: undefined })

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ act: fc.constant('send' as const), units: fc.nat(12) }) },
  {
    weight: 5,
    arbitrary: fc.record({ act: fc.constant('serve' as const), pick, available: some, seconds: fc.nat(20) })
  },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('end' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constantFrom('return' as const, 'lose' as const), pick }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('refuse' as const),
      pick,
      available: some,
      wait: fc.option(fc.integer({ min: 1, max: 60_000 }), { nil: undefined })
    })
  },
  { weight: 4, arbitrary: fc.record({ act: fc.constant('pass' as const), ms: fc.nat(15_000) }) }
)

/** A limit and the requests on their way, and those whose response is not over. */
class History {
  readonly limit: Limit
  readonly flying: Charge[] = []
  readonly held: Charge[] = []
  now = 0
  #sequence = 0

  constructor(limit: Limit) {
    this.limit = limit
  }

  get quiet(): boolean {
    return this.flying.length + this.held.length === 0
  }

  /** Sends only what the limit lets pass. */
  do(act: Act): void {
    if (act.act === 'pass') this.now += act.ms
    if (act.act === 'send' && this.limit.earliest(act.units, this.now) <= this.now) {
      this.flying.push(this.limit.charge(act.units, this.#sequence++, this.now))
    }
    if (act.act === 'end') this.#take(this.held, act.pick, charge => this.limit.ended(charge))
    if (act.act === 'return') this.#take(this.flying, act.pick, charge => this.limit.returned(charge))
    if (act.act === 'lose') this.#take(this.flying, act.pick, charge => this.limit.lost(charge, this.now))
    if (act.act === 'refuse') {
      const { available, wait } = act
      this.#take(this.flying, act.pick, charge => {
        if (this.limit.refused(charge, { available, wait, now: this.now }) < this.now)
          throw new Error('it is over')
      })
    }
    if (act.act === 'serve') {
      const { available, seconds } = act
      this.#take(this.flying, act.pick, charge => {
        this.limit.served(charge, say({ available, effectiveWindow: seconds * 1000 }), this.now)
        this.held.push(charge)
      })
    }
  }

  #take(charges: Charge[], pick: number, work: (charge: Charge) => void): void {
    const [charge] = charges.splice(pick % Math.max(1, charges.length), 1)
    if (charge !== undefined) work(charge)
  }
}

const acts = fc.array(act, { maxLength: 60, size: 'max' })

for (const [name, make] of Object.entries(limits)) {
  t.test(`${name}: only what is on its way is waited for without an end`, async () => {
    fc.assert(
      fc.property(acts, acts => {
        const history = new History(make())
        for (const act of acts) {
          history.do(act)
          for (const units of [0, 1, 5, 10, 11]) {
            const at = history.limit.earliest(units, history.now)
            if (Number.isNaN(at) || (at === ASK && history.quiet)) return false
          }
        }
        return true
      }),
      { numRuns }
    )
  })

  t.test(`${name}: waiting as long as it says is enough, once or a few times`, async () => {
    fc.assert(
      fc.property(acts, fc.integer({ min: 1, max: 10 }), (acts, units) => {
        const history = new History(make())
        for (const act of acts) history.do(act)
        while (history.flying.length > 0) history.do({ act: 'lose', pick: 0 })
        while (history.held.length > 0) history.do({ act: 'end', pick: 0 })
        for (let i = 0; i < 30; i++) {
          const at = history.limit.earliest(units, history.now)
          if (at <= history.now) return true
          history.now = at
        }
        return false
      }),
      { numRuns }
    )
  })

  t.test(`${name}: what costs more does not go where something cheaper cannot`, async () => {
    fc.assert(
      fc.property(acts, acts => {
        const history = new History(make())
        for (const act of acts) history.do(act)
        const goes = [0, 1, 2, 5, 9, 10].map(
          units => history.limit.earliest(units, history.now) <= history.now
        )
        return goes.every((can, index) => index === 0 || !can || goes[index - 1])
      }),
      { numRuns }
    )
  })

  t.test(`${name}: its share is one`, async () => {
    fc.assert(
      fc.property(acts, acts => {
        const history = new History(make())
        for (const act of acts) history.do(act)
        const share = history.limit.share()
        return share >= 0 && share <= 1
      }),
      { numRuns }
    )
  })
}
