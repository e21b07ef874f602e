import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { NEVER } from '../../src/algorithm.js'
import type { AlgorithmName } from '../../src/index.js'
import { isLater } from '../../src/later.js'
import type { Later } from '../../src/later.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import type { Answer, Charge } from '../../src/store.js'
import { Batches } from '../../src/stores/batches.js'
import type { BatchingStore } from '../../src/stores/batches.js'
import { StoreFailure } from '../../src/stores/guard/failure.js'
import type { Purchase } from '../../src/stores/redis/command.js'
import { howToRepeat, many, mostInAnyWindow, runs } from '../algorithms/kit.js'
import type { Admission } from '../algorithms/kit.js'
import { TestTiming } from './guard/kit.js'
import {
  SharedStore,
  allowed,
  charge,
  isAdmitted,
  named,
  place,
  policy,
  receipts,
  remaining,
  total
} from './kit.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 100 * runs)

const T0 = 1_753_900_000_000

/** A process that spends in batches, and the store that it shares with others. */
class Process {
  readonly timing: TestTiming
  readonly there: SharedStore
  readonly batches: Batches
  /** What came too late. */
  readonly late: Answer[] = []

  constructor(instances: number = 1, timing: TestTiming = new TestTiming(), other?: Process) {
    this.timing = timing
    this.there = new SharedStore(() => T0 + Math.floor(timing.time), other?.there.memory)
    this.batches = new Batches(this.there, instances, timing)
  }

  static several(instances: number): readonly Process[] {
    const first = new Process(instances)
    const others = Array.from({ length: instances - 1 }, () => new Process(instances, first.timing, first))
    return [first, ...others]
  }

  ask(...charges: readonly (Charge | QuotaPolicy)[]): Answer {
    const answer = this.attempt(...charges)
    assert.ok(!(answer instanceof StoreFailure))
    return answer
  }

  attempt(...charges: readonly (Charge | QuotaPolicy)[]): Answer | StoreFailure {
    const given = charges.map(each => ('partition' in each ? each : charge(each)))
    return known(this.batches.consume(given, answer => this.late.push(answer)))
  }

  /** Asks again and again, and returns whether all were admitted. */
  press(policy: QuotaPolicy, requests: number, gap: number = 1): boolean {
    let admitted = true
    for (let i = 0; i < requests; i++) {
      this.timing.time += gap
      admitted = isAdmitted(this.ask(policy)) && admitted
    }
    return admitted
  }

  /** Presses until so many units are here, bought by the last request. */
  stock(policy: QuotaPolicy, units: number): void {
    until(() => {
      const used = this.there.used(policy)
      this.press(policy, 1)
      return this.there.used(policy) - used === units + 1
    })
  }

  /** How often the store was asked. */
  get asked(): number {
    return this.there.calls.length
  }

  /** How often it is asked for these requests. */
  callsOf(requests: () => void): number {
    const before = this.asked
    requests()
    return this.asked - before
  }
}

const batched = (name: string, options: Partial<PolicyOptions> = {}): QuotaPolicy =>
  policy(name, { quota: 1_000_000, window: '1m', batch: { max: 10 }, ...options })

const hot = batched('hot')
const few = batched('few', { quota: 2, window: '10s' })
const plain = policy('plain', { quota: 5, window: '10s' })

t.test('a busy partition asks for a batch and spends it without asking', async t => {
  for (const max of [10, 50, 200]) {
    const process = new Process()
    const busy = batched('busy', { batch: { max } })
    t.equal(process.press(busy, 20_000), true)
    const perRequest = process.asked / 20_000
    t.ok(perRequest <= 1.05 / max, `${perRequest} calls for each request, of at most 1 in ${max}`)
    const unspent = process.there.used(busy) - 20_000
    t.ok(unspent >= 0 && unspent < max, `${unspent} units are left`)
  }
})

t.test('each partition has a rate and a batch of its own', async t => {
  const process = new Process()
  process.stock(hot, 9)
  process.ask(charge(hot, 1, 'other'))
  t.equal(process.there.used(hot, 'other'), 1)
  t.strictSame(named(process.ask(hot)), ['hot'])
  const asked = process.asked
  process.ask(charge(batched('other'), 1))
  t.equal(process.asked, asked + 1, 'and so has each policy')
})

t.test('who comes now and then asks each time, and buys nothing for later', async t => {
  const process = new Process()
  for (let i = 0; i < 100; i++) process.ask(charge(hot, 1, `partition ${i}`))
  t.equal(process.asked, 100, 'a partition is not busy the first time')
  for (let i = 0; i < 100; i++) t.equal(process.there.used(hot, `partition ${i}`), 1)
  process.press(hot, 100, 500)
  t.equal(process.asked, 200)
  t.equal(process.there.used(hot), 100)
})

t.test('who was busy an hour ago is not any more', async t => {
  const process = new Process()
  process.stock(hot, 9)
  process.timing.time += 3_600_000
  process.ask(hot)
  t.equal(process.there.used(hot), 1)
})

t.test('who becomes busy after an hour is known to be soon', async t => {
  const process = new Process()
  process.ask(hot)
  process.timing.time += 3_600_000
  const calls = process.callsOf(() => process.press(hot, 500))
  t.ok(calls < 80, `${calls} calls for 500 requests`)
})

t.test('what is bought follows the rate, up to the size of a batch', async t => {
  const largest = (gap: number): number => {
    const process = new Process()
    const busy = batched('busy', { batch: { max: 50 } })
    process.press(busy, 1000, gap)
    return Math.max(...process.there.purchases.flat().map(({ ahead = 0 }) => ahead))
  }
  const bought = [1, 20, 50, 100, 200, 800].map(largest)
  t.strictSame(bought.slice(0, 2), [49, 49])
  t.strictSame(
    bought,
    bought.toSorted((a, b) => b - a)
  )
  t.equal(bought.at(-1), 0)
  t.equal(new Set(bought).size, 5)
})

t.test('nobody buys more than a part of what is left, and each process has an equal one', async t => {
  const process = new Process(4)
  const small = batched('small', { quota: 40 })
  let left = 40
  until(() => {
    if (!isAdmitted(process.ask(small))) return true
    const now = 40 - process.there.used(small)
    const bought = left - now - 1
    t.ok(bought <= Math.max(0, (left - 1) / 8), `${bought} of ${left - 1}`)
    left = now
    process.timing.time += 1
    return false
  })
  t.ok(process.there.purchases.flat().every(({ shares }) => shares === undefined || shares === 8))
})

t.test('a unit of a batch is answered as the store would, with a receipt of its own', async t => {
  const process = new Process()
  process.stock(hot, 9)
  const at = T0 + Math.floor(process.timing.time)
  const used = process.there.used(hot)
  process.timing.time += 100
  t.strictSame(process.ask(hot), {
    source: 'redis',
    limits: [
      {
        policy: hot,
        units: 1,
        allowed: true,
        remaining: 1_000_000 - used,
        effectiveWindow: 60_000,
        retryAfter: 0,
        delay: 0,
        charges: [{ at, units: 1 }]
      }
    ]
  })
})

t.test('who buys a batch is charged one unit of it', async t => {
  const process = new Process()
  process.stock(hot, 9)
  for (let i = 0; i < 9; i++) process.ask(hot)
  const answer = process.ask(hot)
  t.equal(process.there.purchases.at(-1)![0]!.ahead, 9)
  t.equal(total(receipts(answer)), 1)
})

t.test('a batch ends with its life: two seconds, or the twentieth part of the window', async t => {
  for (const [window, life] of [
    ['1h', 2000],
    ['1m', 2000],
    ['40s', 2000],
    ['10s', 500],
    ['1s', 50],
    ['100ms', 5]
  ] as const) {
    const short = batched('short', { window })
    for (const [later, asked] of [
      [life - 0.5, 0],
      [life, 1]
    ] as const) {
      const process = new Process()
      process.press(short, 200, life / 200)
      until(() => process.callsOf(() => process.ask(short)) > 0)
      process.timing.time += later
      t.equal(
        process.callsOf(() => process.ask(short)),
        asked,
        `${window} after ${later} ms`
      )
    }
  }
})

t.test('a batch ends with the window that it was bought in', async t => {
  const fixed = batched('fixed', { algorithm: 'fixed-window', window: '1m', align: true })
  for (const [later, asked] of [
    [299, 0],
    [300, 1]
  ] as const) {
    const process = new Process()
    const end = 60_000 - (T0 % 60_000)
    process.timing.time = end - 300 - 500
    process.press(fixed, 500)
    process.timing.time = end - 300
    until(() => process.callsOf(() => process.ask(fixed)) > 0)
    process.timing.time += later
    t.equal(
      process.callsOf(() => process.ask(fixed)),
      asked
    )
  }
})

t.test('a bucket and a counter are spent in batches, too', async t => {
  for (const algorithm of [
    'token-bucket',
    'leaky-bucket',
    'sliding-window-counter',
    'fixed-window'
  ] as const) {
    const process = new Process()
    t.equal(process.press(batched('other', { algorithm }), 5000), true)
    t.ok(process.asked < 600, `${algorithm}: ${process.asked} calls`)
  }
})

t.test('the life of a batch begins when it is sent for, not when it arrives', async t => {
  const { ask, buy, link, timing } = distant(hot)
  for (let i = 0; i < 30; i++) await after(timing, 1, ask())
  link.trip = { out: 100, back: 100 }
  const sent = timing.time
  await after(timing, 200, buy())
  timing.time = sent + 1999
  t.equal(isLater(ask()), false)
  timing.time = sent + 2000
  t.equal(isLater(ask()), true)
})

t.test('a refusal is remembered for a second, or as long as it lasts', async t => {
  for (const [window, until] of [
    ['10s', 1000],
    ['1s', 1000],
    ['300ms', 300]
  ] as const) {
    const process = new Process()
    const short = batched('short', { quota: 1, window })
    process.ask(short)
    t.equal(isAdmitted(process.ask(short)), false)
    const refused = process.timing.time
    t.equal(
      process.callsOf(() => {
        for (let i = 0; i < 50; i++) {
          process.timing.time = refused + (until * i) / 50
          t.equal(isAdmitted(process.ask(short)), false)
        }
      }),
      0,
      window
    )
    process.timing.time = refused + until
    t.equal(
      process.callsOf(() => process.ask(short)),
      1
    )
  }
})

t.test('a refusal that no wait ends is remembered for a second', async t => {
  const process = new Process()
  const none = batched('none', { quota: 0 })
  process.ask(none)
  process.timing.time += 999
  t.equal(
    process.callsOf(() =>
      t.match(process.ask(none), { limits: [{ retryAfter: NEVER, effectiveWindow: 0 }] })
    ),
    0
  )
  process.timing.time += 1
  t.equal(
    process.callsOf(() => process.ask(none)),
    1
  )
})

t.test('the waits of a refusal count down', async t => {
  const process = new Process()
  process.ask(few)
  process.ask(few)
  const refusals = [0, 0.5, 1, 400.25, 999].map(later => {
    process.timing.time = 1000 + later
    return process.ask(few).limits[0]!
  })
  t.equal(process.asked, 3)
  t.strictSame(
    refusals.map(({ retryAfter }) => retryAfter),
    [10_000, 10_000, 9999, 9600, 9001]
  )
  for (const limit of refusals) {
    t.match(limit, { policy: few, units: 1, allowed: false, remaining: 0, charges: [] })
    t.equal(limit.effectiveWindow, limit.retryAfter)
  }
})

t.test(
  'a refusal is remembered from when it was sent for, and its wait counts from when it arrives',
  async t => {
    const { ask, link, timing } = distant(batched('one', { quota: 1, window: '10s' }))
    link.trip = { out: 100, back: 200 }
    await after(timing, 300, ask())
    const sent = timing.time
    t.match(await after(timing, 300, ask()), { limits: [{ allowed: false, retryAfter: 9700 }] })
    timing.time = sent + 500
    t.match(ask(), { limits: [{ allowed: false, retryAfter: 9500 }] })
    timing.time = sent + 999
    t.equal(isLater(ask()), false)
    timing.time = sent + 1000
    t.equal(isLater(ask()), true)
  }
)

t.test('an admission that comes after a refusal ends it, and is no admission of others', async t => {
  const one = batched('one', { quota: 1, window: '1s' })
  const { ask, link, there, timing } = distant(one)
  there.memory.consume([charge(one)])
  timing.time += 990
  link.trip = { out: 1, back: 0 }
  const refused = ask()
  link.trip = { out: 20, back: 0 }
  const admitted = ask()
  await timing.pass(20)
  t.equal(isAdmitted(answered(await refused)), false)
  t.equal(isAdmitted(answered(await admitted)), true)
  for (let i = 0; i < 5; i++) t.equal(isAdmitted(answered(await after(timing, 20, ask()))), false)
  t.equal(there.used(one), 1)
})

t.test('units that are here are spent although another call was refused', async t => {
  const scarce = batched('scarce', { quota: 100, window: '1h' })
  const { ask, buy, link, there, timing } = distant(scarce)
  for (let i = 0; i < 30; i++) await after(timing, 1, ask())
  link.trip = { out: 5, back: 5 }
  const calls = [buy(), ask(), ask(), ask()]
  there.memory.consume([charge(scarce, 96 - there.used(scarce))])
  await timing.pass(10)
  const answers = await Promise.all(calls.map(async call => call))
  t.strictSame(
    answers.map(answer => isAdmitted(answered(answer))),
    [true, true, true, false],
    'the first one bought the fourth'
  )
  t.equal(isAdmitted(answered(known(ask()))), true)
  t.equal(isAdmitted(answered(known(ask()))), false)
  t.equal(there.used(scarce), 100)
})

t.test('a cost that is not one unit goes straight to the store', async t => {
  const process = new Process()
  process.stock(hot, 9)
  for (const units of [0, 2, 10]) {
    const used = process.there.used(hot)
    const charges = [charge(hot, units)]
    const asked = process.asked
    process.ask(...charges)
    t.equal(process.asked, asked + 1)
    t.strictSame(process.there.purchases.at(-1), charges)
    t.equal(process.there.used(hot), used + units)
  }
  t.equal(
    process.callsOf(() => process.press(hot, 9)),
    0,
    'and what is here is still here'
  )
})

t.test('policies without batches go straight to the store', async t => {
  const process = new Process()
  for (let i = 0; i < 10; i++) process.ask(plain)
  t.equal(process.asked, 10)
  t.strictSame(process.there.purchases.at(-1), [charge(plain)])
})

t.test('of a decision with others, the unit that is here is spent if the store admits them', async t => {
  const process = new Process()
  process.stock(hot, 9)
  const used = process.there.used(hot)
  const answer = process.ask(plain, hot)
  t.strictSame(named(answer), ['plain', 'hot'])
  t.strictSame(
    answer.limits.map(({ charges }) => total(charges)),
    [1, 1]
  )
  t.strictSame(
    process.there.purchases.at(-1)!.map(({ policy }) => policy.name),
    ['plain']
  )
  t.equal(process.there.used(hot), used)
  t.equal(
    process.callsOf(() => process.press(hot, 8)),
    0
  )
  t.equal(
    process.callsOf(() => process.press(hot, 1)),
    1,
    'it was the ninth'
  )
})

t.test('if the store refuses them, it is given back', async t => {
  const process = new Process()
  process.ask(charge(plain, 5))
  process.stock(hot, 9)
  const used = process.there.used(hot)
  for (let i = 0; i < 20; i++) {
    const answer = process.ask(hot, plain)
    t.match(answer, {
      limits: [
        { policy: hot, units: 1, allowed: true, remaining: 1_000_000 - used, charges: [] },
        { policy: plain, allowed: false, remaining: 0, charges: [] }
      ]
    })
  }
  t.equal(
    process.callsOf(() => process.press(hot, 9)),
    0
  )
})

t.test('if the store fails, it is given back', async t => {
  const process = new Process()
  process.stock(hot, 9)
  process.there.state = 'down'
  for (let i = 0; i < 20; i++) t.equal(process.attempt(hot, plain), process.there.failure)
  t.equal(
    process.callsOf(() => t.equal(process.press(hot, 9), true)),
    0,
    'and it can be spent, as nobody is to be asked'
  )
  t.equal(process.attempt(hot), process.there.failure)
})

t.test('it is not given back to another batch than its own', async t => {
  const tight = policy('tight', { quota: 1, window: '1h' })
  const { ask, batches, buy, link, there, timing } = distant(hot)
  there.memory.consume([charge(tight)])
  for (let i = 0; i < 30; i++) await after(timing, 1, ask())
  await after(timing, 0, buy())
  there.purchases.length = 0
  link.trip = { out: 30, back: 30 }
  const refused = batches.consume([charge(hot), charge(tight)], () => {})
  timing.time += 1
  link.trip = { out: 0, back: 0 }
  await after(timing, 1, buy())
  await timing.pass(60)
  t.equal(isAdmitted(answered(await refused)), false)
  t.strictSame(
    there.purchases.flatMap(purchases => purchases.map(({ policy, ahead }) => [policy.name, ahead])),
    [
      ['hot', 9],
      ['tight', 0]
    ],
    'another batch has arrived before the refusal'
  )
  t.equal(
    until(() => isLater(ask())),
    9
  )
})

t.test('what is refused here asks the store about the others, and charges none', async t => {
  const process = new Process()
  process.press(few, 3, 0)
  process.ask(charge(plain, 3))
  process.timing.time += 500
  const asked = process.asked
  const roomy = process.ask(few, plain)
  t.match(roomy, {
    limits: [
      { policy: few, allowed: false, retryAfter: 9500 },
      { policy: plain, allowed: true, remaining: 2, charges: [] }
    ]
  })
  t.strictSame(process.there.calls.slice(asked), ['rehearse'])
  process.ask(charge(plain, 2))
  t.match(process.ask(plain, few), {
    limits: [
      { policy: plain, allowed: false, retryAfter: 10_000 },
      { policy: few, allowed: false, retryAfter: 9500 }
    ]
  })
  process.timing.time += 499
  t.match(
    process.ask(charge(plain, 3), few),
    { limits: [{ allowed: false, retryAfter: 9501 }, { retryAfter: 9001 }] },
    'the longest wait is told'
  )
  t.equal(process.there.used(plain), 5)
})

t.test('what is refused here and has no others asks nobody, and spends nothing that is here', async t => {
  const process = new Process()
  process.press(few, 3, 0)
  process.stock(hot, 9)
  t.equal(
    process.callsOf(() => {
      for (let i = 0; i < 20; i++) t.strictSame(allowed(process.ask(few, hot)), [false, true])
      t.strictSame(receipts(process.ask(hot, few)), [])
    }),
    0
  )
  t.equal(
    process.callsOf(() => process.press(hot, 9)),
    0
  )
})

t.test('if it cannot ask about the others, it fails as any call', async t => {
  const process = new Process()
  process.press(few, 3, 0)
  process.there.state = 'down'
  t.equal(process.attempt(few, plain), process.there.failure)
  t.equal(isAdmitted(process.ask(few)), false, 'what is known is told')
})

t.test('limits that the store could not find out are left out, and are not taken for others', async t => {
  const { there, timing } = new Process()
  const [one, two] = [batched('one', { quota: 3 }), batched('two', { quota: 3 })]
  const lossy = new Lossy(there)
  const batches = new Batches(lossy, 1, timing)
  const ask = (...policies: readonly QuotaPolicy[]): Answer =>
    answered(
      known(
        batches.consume(
          policies.map(each => charge(each)),
          () => {}
        )
      )
    )
  there.memory.consume([charge(two, 3)])
  lossy.lost = 'one'
  t.match(ask(one, two).limits, [{ policy: two, allowed: false }])
  t.match(ask(plain, one, two).limits, [
    { policy: plain, allowed: true },
    { policy: two, allowed: false }
  ])
  lossy.lost = ''
  t.match(ask(one).limits, [{ policy: one, allowed: true }])
})

t.test('only one call buys ahead at a time', async t => {
  const { ask, buy, link, there, timing } = distant(hot)
  for (let i = 0; i < 30; i++) await after(timing, 1, ask())
  link.trip = { out: 5, back: 5 }
  there.purchases.length = 0
  const before = there.used(hot)
  const calls = [buy(), ...Array.from({ length: 20 }, ask)]
  await timing.pass(10)
  const answers = await Promise.all(calls.map(async call => call))
  t.ok(answers.every(answer => isAdmitted(answered(answer))))
  t.strictSame(
    there.purchases.map(([purchase]) => purchase!.ahead),
    [9, ...Array.from({ length: 20 }, () => 0)]
  )
  t.equal(there.used(hot) - before, 21 + 9)
  for (let i = 0; i < 9; i++) t.equal(isLater(ask()), false)
  t.equal(isLater(ask()), true)
})

t.test('after a call that failed another one buys ahead', async t => {
  const process = new Process()
  process.stock(hot, 9)
  process.press(hot, 9)
  process.there.state = 'down'
  t.equal(process.attempt(hot), process.there.failure)
  process.there.state = 'up'
  process.ask(hot)
  t.equal(process.there.purchases.at(-1)![0]!.ahead, 9)
})

t.test(
  'an answer that comes too late is passed on with all that was bought, and nothing of it is spent',
  async t => {
    const process = new Process()
    process.stock(hot, 9)
    process.press(hot, 9)
    process.there.state = 'slow'
    t.match(process.attempt(hot), { code: 'TIMEOUT' })
    process.there.arrive()
    t.strictSame(
      process.late.map(answer => total(receipts(answer))),
      [10]
    )
    process.there.state = 'down'
    t.equal(process.attempt(hot), process.there.failure)
  }
)

t.test('a failure is passed on, whatever is asked', async t => {
  const { batches, there } = new Process()
  there.state = 'down'
  const lease = { ...place(hot), charges: [] }
  for (const answer of [
    batches.consume([charge(hot)], () => {}),
    batches.consume([charge(plain), charge(hot, 2)], () => {}),
    batches.peek([place(hot)]),
    batches.settle([{ ...lease, actual: 0 }]),
    batches.renew([lease]),
    batches.reset([place(hot)])
  ]) {
    t.equal(answer, there.failure)
  }
  t.strictSame(there.calls, ['consume', 'consume', 'peek', 'settle', 'renew', 'reset'])
})

t.test('a peek tells what is left in the store', async t => {
  const process = new Process()
  process.stock(hot, 9)
  const left = 1_000_000 - process.there.used(hot)
  process.ask(hot)
  t.strictSame(remaining(answered(known(process.batches.peek([place(hot)])))), [left])
})

t.test('places are renewed by the store', async t => {
  const process = new Process()
  const places = policy('places', { quota: 5, algorithm: 'concurrency' })
  const charges = receipts(process.ask(places))
  process.timing.time += 1000
  t.strictSame(known(process.batches.renew([{ ...place(places), charges }])), [
    [{ at: charges[0]!.at + 1000, units: 1 }]
  ])
})

t.test('a unit that is given back ends a refusal', async t => {
  const process = new Process()
  const charges = receipts(process.ask(few))
  process.ask(few)
  t.equal(isAdmitted(process.ask(few)), false)
  const { batches } = process
  known(batches.settle([{ ...place(few, 'other'), charges, actual: 0 }]))
  known(batches.settle([{ ...place(plain), charges: [], actual: 0 }]))
  t.equal(
    process.callsOf(() => t.equal(isAdmitted(process.ask(few)), false)),
    0,
    'elsewhere, it does not'
  )
  t.match(known(batches.settle([{ ...place(few), charges, actual: 0 }])), { limits: [{ remaining: 1 }] })
  t.equal(isAdmitted(process.ask(few)), true)
})

t.test('a unit of a batch can be given back', async t => {
  const process = new Process()
  process.stock(hot, 9)
  const used = process.there.used(hot)
  process.timing.time += 700
  const charges = receipts(process.ask(hot))
  known(process.batches.settle([{ ...place(hot), charges, actual: 0 }]))
  t.equal(process.there.used(hot), used - 1)
})

t.test('a reset forgets what was bought, and that it was refused', async t => {
  const process = new Process()
  process.stock(hot, 9)
  process.press(few, 3, 0)
  known(process.batches.reset([place(hot), place(few), place(plain)]))
  t.equal(process.there.used(hot), 0)
  t.equal(isAdmitted(process.ask(few)), true)
  process.ask(hot)
  t.equal(process.there.used(hot), 1, 'and how busy it was')
})

t.test('a shadow policy is spent in batches and refuses nobody', async t => {
  const process = new Process()
  const wide = batched('wide', { mode: 'shadow' })
  t.equal(process.press(wide, 1000), true)
  t.ok(process.asked < 150)

  const narrow = batched('narrow', { mode: 'shadow', quota: 2, window: '10s' })
  const answers = Array.from({ length: 50 }, () => process.ask(narrow, hot))
  t.ok(answers.every(isAdmitted))
  for (const [i, { limits }] of answers.entries()) {
    t.match(limits, [
      { policy: narrow, allowed: i < 2 },
      { policy: hot, allowed: true }
    ])
    t.strictSame(
      limits.map(({ charges }) => total(charges)),
      [i < 2 ? 1 : 0, 1],
      'what would be refused is not charged'
    )
  }
  process.timing.time += 10_000
  t.strictSame(allowed(process.ask(narrow, hot)), [true, true])
})

t.test('what a shadow policy would refuse spends what others have bought', async t => {
  const process = new Process()
  const shadow = policy('shadow', { quota: 0, window: '10s', mode: 'shadow' })
  process.stock(hot, 9)
  for (let i = 0; i < 9; i++) {
    const answer = process.ask(shadow, hot)
    t.strictSame(allowed(answer), [false, true])
    t.equal(total(receipts(answer)), 1)
    t.equal(process.there.purchases.at(-1)!.length, 1)
  }
  process.ask(shadow, hot)
  t.equal(process.there.purchases.at(-1)!.length, 2, 'nothing is left')
})

t.test('what a shadow policy has bought is spent only for what is admitted', async t => {
  const process = new Process()
  const shadow = batched('shadow', { mode: 'shadow' })
  process.stock(shadow, 9)
  process.ask(charge(plain, 5))
  for (let i = 0; i < 20; i++) t.equal(isAdmitted(process.ask(shadow, plain)), false)
  t.equal(
    process.callsOf(() => process.press(shadow, 9)),
    0
  )
})

t.test('small quotas are not starved', async t => {
  for (const algorithm of ['sliding-window', 'token-bucket', 'fixed-window'] as const) {
    for (const [name, scenario] of Object.entries(SCENARIOS)) {
      const samples = [1, 2].map(seed => simulated({ ...scenario, algorithm }, seed))
      const sum = (of: keyof Sample): number => samples.reduce((sum, sample) => sum + sample[of], 0)
      const [exact, admitted, calls] = [sum('exact'), sum('admitted'), sum('calls')]
      const share = admitted / exact
      t.ok(share >= 0.98, `${algorithm}, ${name}: ${(100 * share).toFixed(1)} % of ${exact}, ${calls} calls`)
    }
  }
})

t.test('many partitions at once are not starved', async t => {
  const process = new Process(4)
  const each = batched('each', { quota: 100 })
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 10_500; i++) {
      process.timing.time += 0.01
      if (!isAdmitted(process.ask(charge(each, 1, `partition ${i}`)))) t.fail(`refused in round ${round}`)
    }
  }
  t.equal(process.there.used(each, 'partition 7'), 3)
})

t.test(
  'a window has at most the quota and one batch for each process, and nothing is spent uncharged',
  async () => {
    const WINDOW = 1000
    const trips = fc.record({
      out: fc.constantFrom(0, 0, 0.5, 1, 5, 12),
      back: fc.constantFrom(0, 0, 0.5, 1, 5, 12)
    })
    const acts = many(
      fc.record({
        wait: fc.oneof(
          { weight: 8, arbitrary: fc.constantFrom(0, 0, 0, 0.5, 1, 2) },
          { weight: 2, arbitrary: fc.constantFrom(10, 49, 50, 51, 200, 499, 500, 949, 999, 1000) }
        ),
        instance: fc.nat({ max: 2 }),
        times: fc.constantFrom(1, 1, 2, 4, 9),
        together: fc.boolean(),
        trip: trips
      }),
      25
    )
    const terms = fc.record({
      quota: fc.integer({ min: 1, max: 120 }),
      max: fc.integer({ min: 2, max: 12 }),
      instances: fc.integer({ min: 1, max: 3 }),
      deadline: fc.constantFrom(8, 1000)
    })
    const tight = policy('tight', { quota: 50, window: WINDOW / 1000 })
    const limits = Array.from({ length: 13 }, (_, max) =>
      batched('limit', { window: WINDOW / 1000, batch: { max: Math.max(2, max) } })
    )
    await fc.assert(
      fc.asyncProperty(terms, acts, async ({ quota, max, instances, deadline }, acts) => {
        const limit = limits[max]!.withQuota(quota)
        const timing = new TestTiming()
        let trip: Trip = { out: 0, back: 0 }
        const processes = Process.several(instances).map(({ there }) => {
          const link = new Distant(
            new SharedStore(() => T0 + Math.floor(timing.time), there.memory),
            timing,
            () => trip,
            deadline
          )
          return { link, batches: new Batches(link, instances, timing), spent: 0 }
        })
        const admissions: Admission[] = []
        const decided: Promise<void>[] = []
        for (const act of acts) {
          if (act.wait > 0) await timing.pass(act.wait)
          trip = act.trip
          const process = processes[act.instance % instances]!
          for (let i = 0; i < act.times; i++) {
            const sent = T0 + timing.time
            const charges = act.together ? [charge(limit), charge(tight)] : [charge(limit)]
            const admitted = (answer: Answer | StoreFailure, later: boolean): void => {
              if (answer instanceof StoreFailure || !isAdmitted(answer)) return
              const [ofLimit, ofTight] = answer.limits.map(({ charges: [receipt] }) => receipt!)
              assert.equal(ofLimit!.units, 1)
              process.spent++
              assert.ok(
                process.spent <= process.link.charged(limit),
                'a unit was spent that was never charged'
              )
              const there = later && (ofTight === undefined || ofTight.at === ofLimit!.at)
              admissions.push({ at: there ? ofLimit!.at : sent, units: 1 })
            }
            const answer = process.batches.consume(charges, () => {})
            if (isLater(answer)) decided.push(answer.then(known => admitted(known, true)))
            else admitted(answer, false)
          }
        }
        await timing.pass(2000)
        await Promise.all(decided)
        const most = mostInAnyWindow(admissions, WINDOW)
        const bound = quota + instances * (max - 1)
        assert.ok(most <= bound, `${most} admitted in a window, at most ${bound} are promised`)
      })
    )
  }
)

t.test('a client that waits as long as it is told is admitted', async () => {
  const trip = fc.record({ out: fc.constantFrom(0, 0.25, 1, 7), back: fc.constantFrom(0, 0.25, 1, 7) })
  const acts = many(
    fc.record({
      gap: fc.constantFrom(0, 0, 0, 0, 0.25, 1, 3, 30, 200),
      times: fc.constantFrom(1, 1, 3, 8),
      first: fc.nat({ max: 2 }),
      second: fc.nat({ max: 2 }),
      trip
    }),
    8
  )
  const limits = (
    ['sliding-window', 'sliding-window-counter', 'fixed-window', 'token-bucket'] as const
  ).flatMap(algorithm =>
    [1, 3, 60].flatMap(window =>
      [2, 3, 12].map(max => batched('limit', { algorithm, quota: 100, window, batch: { max } }))
    )
  )
  // What a process has bought it may lose before another policy has room, and the next process has none of it.
  const other = policy('other', { quota: 3, window: 1 })
  const terms = fc.record({
    limit: fc.constantFrom(...limits),
    quota: fc.integer({ min: 1, max: 40 }),
    instances: fc.integer({ min: 1, max: 3 })
  })
  await fc.assert(
    fc.asyncProperty(terms, acts, async ({ limit, quota, instances }, acts) => {
      const policy = limit.withQuota(quota)
      const charges = instances === 1 ? [charge(policy), charge(other)] : [charge(policy)]
      const timing = new TestTiming()
      let trip: Trip = { out: 0, back: 0 }
      const first = new SharedStore(() => T0 + Math.floor(timing.time))
      const links = Array.from({ length: instances }, () => new Distant(first, timing, () => trip))
      const processes = links.map(link => new Batches(link, instances, timing))
      const ask = async (process: number): Promise<Answer> => {
        const answer = processes[process % instances]!.consume(charges, () => {})
        if (isLater(answer)) await timing.pass(trip.out + trip.back)
        return answered(await answer)
      }
      for (const act of acts) {
        if (act.gap > 0) await timing.pass(act.gap)
        trip = act.trip
        for (let i = 0; i < act.times; i++) {
          const answer = await ask(act.first)
          if (isAdmitted(answer)) continue
          await timing.pass(Math.max(...answer.limits.map(({ retryAfter }) => retryAfter)))
          assert.ok(isAdmitted(await ask(act.second)), 'it has waited as long as it was told')
        }
      }
    })
  )
})

interface Trip {
  readonly out: number
  readonly back: number
}

/** A way to a store that takes its time: calls may overtake each other, and answers may come after a deadline. */
class Distant implements BatchingStore {
  readonly #store: SharedStore
  readonly #timing: TestTiming
  readonly #trip: () => Trip
  readonly #deadline: number
  readonly #charged = new Map<QuotaPolicy, number>()

  constructor(store: SharedStore, timing: TestTiming, trip: () => Trip, deadline: number = Infinity) {
    this.#store = store
    this.#timing = timing
    this.#trip = trip
    this.#deadline = deadline
  }

  consume(charges: readonly Purchase[], late: (answer: Answer) => void): Promise<Answer | StoreFailure> {
    return this.#ask(() => {
      const answer = answered(known(this.#store.consume(charges, () => {})))
      for (const {
        policy,
        charges: [receipt]
      } of answer.limits)
        this.#charged.set(policy, this.charged(policy) + (receipt?.units ?? 0))
      return answer
    }, late)
  }

  rehearse(charges: readonly Charge[]): Promise<Answer | StoreFailure> {
    return this.#ask(() => answered(known(this.#store.rehearse(charges))))
  }

  peek: BatchingStore['peek'] = places => this.#store.peek(places)
  settle: BatchingStore['settle'] = settlements => this.#store.settle(settlements)
  renew: BatchingStore['renew'] = leases => this.#store.renew(leases)
  reset: BatchingStore['reset'] = places => this.#store.reset(places)

  /** Units that were charged by this way. */
  charged(policy: QuotaPolicy): number {
    return this.#charged.get(policy) ?? 0
  }

  #ask<T>(work: () => T, late: (answer: T) => void = () => {}): Promise<T | StoreFailure> {
    const { out, back } = this.#trip()
    const inTime = out + back <= this.#deadline
    return new Promise(resolve => {
      if (!inTime) this.#timing.after(this.#deadline, () => resolve(new StoreFailure('TIMEOUT')))
      this.#timing.after(out, () => {
        const answer = work()
        this.#timing.after(back, () => (inTime ? resolve(answer) : late(answer)))
      })
    })
  }
}

/** A process far from its store. */
interface Far {
  readonly link: { trip: Trip }
  readonly batches: Batches
  readonly timing: TestTiming
  readonly there: SharedStore
  readonly ask: () => Later<Answer | StoreFailure>
  /** Asks until there is an answer that has to be waited for. */
  readonly buy: () => Promise<Answer | StoreFailure>
}

function distant(policy: QuotaPolicy): Far {
  const timing = new TestTiming()
  const there = new SharedStore(() => T0 + Math.floor(timing.time))
  const link = { trip: { out: 0, back: 0 } }
  const batches = new Batches(new Distant(there, timing, () => link.trip), 1, timing)
  const ask: Far['ask'] = () => batches.consume([charge(policy)], () => {})
  const buy: Far['buy'] = () => {
    let answer = ask()
    until(() => isLater(answer) || void (answer = ask()))
    return answer as Promise<Answer | StoreFailure>
  }
  return { link, batches, timing, there, ask, buy }
}

/** A store of several nodes, one of which may not answer, so that nothing is known of a policy. */
class Lossy implements BatchingStore {
  lost = ''
  readonly #store: SharedStore

  constructor(store: SharedStore) {
    this.#store = store
  }

  consume: BatchingStore['consume'] = (charges, late) =>
    this.#lose(answered(known(this.#store.consume(charges, late))))
  rehearse: BatchingStore['rehearse'] = charges => this.#lose(answered(known(this.#store.rehearse(charges))))
  peek: BatchingStore['peek'] = places => this.#store.peek(places)
  settle: BatchingStore['settle'] = settlements => this.#store.settle(settlements)
  renew: BatchingStore['renew'] = leases => this.#store.renew(leases)
  reset: BatchingStore['reset'] = places => this.#store.reset(places)

  #lose(answer: Answer): Answer {
    return { ...answer, limits: answer.limits.filter(({ policy }) => policy.name !== this.lost) }
  }
}

interface Scenario {
  readonly quota: number
  /** Of the quota, how much is asked for. */
  readonly load: number
  readonly minutes: number
  /** Ten seconds of five times the load, then forty of none. */
  readonly bursts?: boolean
}

const PROCESSES = 4

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  '6000 a minute, load 0.9': { quota: 6000, load: 0.9, minutes: 1 },
  '6000 a minute, in bursts': { quota: 6000, load: 0.9, minutes: 1, bursts: true },
  '100 a minute, load 0.5': { quota: 100, load: 0.5, minutes: 30 },
  '100 a minute, load 0.9': { quota: 100, load: 0.9, minutes: 30 },
  '100 a minute, load 3': { quota: 100, load: 3, minutes: 10 },
  '100 a minute, in bursts': { quota: 100, load: 0.9, minutes: 30, bursts: true },
  '10 a minute, load 0.9': { quota: 10, load: 0.9, minutes: 120 }
}

interface Sample {
  readonly exact: number
  readonly admitted: number
  readonly calls: number
}

/** The same requests to an exact store and to processes that buy batches: what each admits, and the calls of these. */
function simulated(
  { algorithm, ...scenario }: Scenario & { readonly algorithm: AlgorithmName },
  seed: number
): Sample {
  const { quota } = scenario
  const exact = policy('exact', { quota, window: '1m', algorithm })
  const limit = batched('limit', { quota, algorithm, batch: { max: 50 } })
  const processes = Process.several(PROCESSES)
  const [{ timing, there }] = processes as [Process, ...Process[]]
  const random = randomFrom(seed)
  let admitted = 0
  let exactly = 0
  for (const at of arrivals(scenario, random)) {
    timing.time = at
    if (isAdmitted(there.memory.consume([charge(exact)]))) exactly++
    if (isAdmitted(processes[Math.floor(random() * PROCESSES)]!.ask(limit))) admitted++
  }
  return { exact: exactly, admitted, calls: processes.reduce((sum, { asked }) => sum + asked, 0) }
}

/** Times of requests that know nothing of each other. */
function* arrivals({ quota, load, minutes, bursts }: Scenario, random: () => number): Generator<number> {
  const rate = ((bursts === true ? 5 : 1) * load * quota) / 60_000
  let at = 0
  for (;;) {
    at -= Math.log(1 - random()) / rate
    if (bursts === true && at % 50_000 >= 10_000) at = Math.ceil(at / 50_000) * 50_000
    if (at > minutes * 60_000) return
    yield at
  }
}

/** Chances that are the same each time: a sequence of 32 bits (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Tries until it has come to something, and tells how often it had not; it does not try for ever. */
function until(isDone: () => boolean | void): number {
  for (let tries = 0; tries < 1000; tries++) if (isDone() === true) return tries
  return assert.fail('it never comes to that')
}

function known<T>(value: Later<T>): T {
  assert.ok(!isLater(value), 'it is known at once')
  return value
}

function answered(answer: Answer | StoreFailure): Answer {
  assert.ok(!(answer instanceof StoreFailure))
  return answer
}

/** Waits for what takes so long. */
async function after<T>(timing: TestTiming, ms: number, work: Later<T>): Promise<T> {
  await timing.pass(ms)
  return work
}
