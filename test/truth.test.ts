import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { PolicyOptions } from '../src/index.js'
import { NOON, members, start } from './fixtures/wire.js'
import type { Ending, Member, Started } from './fixtures/wire.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
const numRuns = Number(process.env['QUOTA_TEST_RUNS'] ?? 100)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}; QUOTA_TEST_RUNS=${numRuns}`)

t.setTimeout(30_000 + numRuns * 300)

// Windows below a second are announced with a warning each.
process.removeAllListeners('warning')

type Policy = Pick<PolicyOptions, 'window' | 'precision' | 'align' | 'burst'> & {
  readonly quota: number
  readonly algorithm: Exclude<PolicyOptions['algorithm'], 'concurrency' | undefined>
}

const quotas = fc.integer({ min: 1, max: 12 })
const windows = fc.constantFrom(1, 2, 3, 7, 10, 60, 3600, 5400, 86_400)
const anyWindows = fc.oneof(
  windows,
  fc.constantFrom<(PolicyOptions['window'] & {})[]>('500ms', '999ms', '1001ms', '2500ms')
)

/** All that tell how long to wait. */
const algorithms: Readonly<Record<Policy['algorithm'], fc.Arbitrary<Policy>>> = {
  'sliding-window': fc.record({
    algorithm: fc.constant('sliding-window' as const),
    quota: quotas,
    window: anyWindows,
    precision: fc.integer({ min: 1, max: 12 })
  }),
  'sliding-window-log': fc.record({
    algorithm: fc.constant('sliding-window-log' as const),
    quota: quotas,
    window: anyWindows
  }),
  'sliding-window-counter': fc.record({
    algorithm: fc.constant('sliding-window-counter' as const),
    quota: quotas,
    window: anyWindows,
    precision: fc.integer({ min: 1, max: 12 })
  }),
  'fixed-window': fc.record({
    algorithm: fc.constant('fixed-window' as const),
    quota: quotas,
    window: anyWindows,
    align: fc.boolean()
  }),
  'token-bucket': fc.record({
    algorithm: fc.constant('token-bucket' as const),
    quota: quotas,
    window: anyWindows,
    burst: fc.integer({ min: 1, max: 15 })
  }),
  'leaky-bucket': fc.record({
    algorithm: fc.constant('leaky-bucket' as const),
    quota: quotas,
    window: anyWindows,
    burst: fc.integer({ min: 1, max: 15 })
  })
}

/** A time to let pass: so many milliseconds, or something of the last response, in its seconds, and a bit. */
type Pause =
  { readonly ms: number } | { readonly for: 't' | 'w' | 'retry-after' | 'pace'; readonly off: number }

const pause: fc.Arbitrary<Pause> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ ms: 0 }) },
  { weight: 2, arbitrary: fc.record({ ms: fc.constantFrom(1, 10, 99, 100, 500, 999, 1000, 1001) }) },
  { weight: 1, arbitrary: fc.record({ ms: fc.nat({ max: 100_000 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      for: fc.constantFrom<('t' | 'w' | 'retry-after' | 'pace')[]>('t', 'w', 'retry-after', 'pace'),
      off: fc.constantFrom(-1000, -1, 0, 0, 1)
    })
  }
)

const pauses = fc.array(pause, { minLength: 10, maxLength: 40, size: 'max' })

/** One client and its server. It knows what the last response said. */
class Client {
  readonly #server: Started
  readonly policyFields = new Set<unknown>()
  offers: readonly Member[] = []
  limits: readonly Member[] = []
  status = 0
  wait: number | undefined

  constructor(server: Started) {
    this.#server = server
  }

  pass(ms: number): void {
    this.#server.clock.now += Math.max(0, Math.floor(ms))
  }

  pause(pause: Pause): void {
    if ('ms' in pause) return this.pass(pause.ms)
    const [first] = this.limits
    const seconds = {
      t: Number(first?.['t'] ?? 0),
      w: Number(this.offers[0]?.['w'] ?? 0),
      'retry-after': this.wait ?? 0,
      pace: Number(first?.['t'] ?? 0) / Math.max(1, Number(first?.['r'] ?? 1))
    }[pause.for]
    this.pass(Math.ceil(seconds * 1000) + pause.off)
  }

  /** The lowest `r` told. */
  get available(): number {
    return Math.min(...this.limits.map(({ r }) => Number(r)))
  }

  /** Whether the cap has told fewer units than there are; it has to be right about that. */
  async capped(): Promise<boolean> {
    const { limits } = await this.#server.app.quota.peek({ ip: '127.0.0.1' })
    const left = new Map(limits.map(({ policy, remaining }) => [policy.name, remaining]))
    for (const { name, r, t } of this.limits) {
      if (r === left.get(name)) continue
      assert.ok(Number(r) < left.get(name)!, `r=${String(r)} of ${left.get(name)}`)
      const { q, w } = this.offers.find(offer => offer.name === name)!
      const { algorithm } = limits.find(({ policy }) => policy.name === name)!.policy
      assert.equal(algorithm.name, 'fixed-window')
      assert.ok(Number(w) > 60 && this.offers.every(offer => Number(offer['w']) >= Number(w)))
      assert.equal(r, Math.max(1, Math.floor((10 * Number(q) * Number(t)) / Number(w))))
    }
    return Math.min(...left.values()) > this.available
  }

  /** Sends a request; every response has to be right by itself. */
  async send(cost: number): Promise<boolean> {
    const response = await this.#server.app.inject({ url: '/', headers: { 'x-cost': String(cost) } })
    this.#read(response)
    this.#check(response, cost)
    return this.status === 200
  }

  #read({ statusCode, headers }: LightMyRequestResponse): void {
    this.status = statusCode
    this.limits = members(headers['ratelimit'])
    this.offers = members(headers['ratelimit-policy'])
    this.wait = headers['retry-after'] === undefined ? undefined : Number(headers['retry-after'])
    this.policyFields.add(headers['ratelimit-policy'])
  }

  #check({ statusCode, headers, body }: LightMyRequestResponse, cost: number): void {
    assert.ok(statusCode === 200 || statusCode === 429)
    for (const { name, r, t } of this.limits) {
      const q = this.offers.find(offer => offer.name === name)?.['q']
      assert.ok(
        Number.isInteger(r) && Number(r) >= 0 && Number(r) <= Number(q),
        `r=${String(r)} of ${String(q)}`
      )
      assert.ok(Number.isInteger(t) && Number(t) >= 1, `t=${String(t)}`)
      if (this.wait !== undefined) assert.ok(this.wait >= Number(t), `${this.wait} >= ${String(t)}`)
    }
    if (statusCode === 200) {
      assert.equal(this.limits.length, this.offers.length)
      assert.equal(this.wait, undefined)
      return
    }
    assert.ok(this.limits.length > 0)
    assert.deepEqual(
      this.limits.map(({ name }) => name),
      JSON.parse(body)['violated-policies']
    )
    if (this.wait !== undefined) return assert.match(String(headers['retry-after']), /^[1-9]\d*$/)
    assert.ok(
      this.limits.some(({ name }) => cost > Number(this.offers.find(offer => offer.name === name)?.['q'])),
      'there is no Retry-After only if no wait helps'
    )
  }
}

async function client(
  policies: Readonly<Record<string, Policy>>,
  began: number,
  run: (client: Client) => Promise<void>
): Promise<void> {
  const cost: PolicyOptions['cost'] = ({ headers }) => Number(headers['x-cost'])
  const ends: (() => unknown)[] = []
  const ending: Ending = { teardown: end => ends.push(end) }
  const server = await start(ending, {
    policies: Object.fromEntries(
      Object.entries(policies).map(([name, policy]) => [name, { ...policy, cost }])
    )
  })
  server.clock.now = NOON + began
  const one = new Client(server)
  await run(one)
  assert.ok(one.policyFields.size <= 1, 'RateLimit-Policy is the same bytes')
  for (const end of ends) await end()
}

const began = fc.nat({ max: 100_000 })

function check<T extends [unknown, ...unknown[]]>(property: fc.IAsyncProperty<T>): Promise<void> {
  return fc.assert(property, { seed, numRuns })
}

/** What a client does next. */
interface Act {
  readonly pause: Pause
  readonly cost: number
  /** `drain`: spend all that is told and one more; `obey`: after a refusal, come back a second early, then in time. */
  readonly next: 'nothing' | 'drain' | 'obey'
}

const act: fc.Arbitrary<Act> = fc.record({
  pause,
  cost: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, { weight: 2, arbitrary: fc.nat({ max: 16 }) }),
  next: fc.constantFrom<Act['next'][]>('nothing', 'drain', 'obey')
})

const acts = fc.array(act, { minLength: 1, maxLength: 16, size: 'max' })

/** Checks the promises of all fields while `acts` go on. */
async function keepsItsWord(one: Client, acts: readonly Act[]): Promise<void> {
  for (const { pause, cost, next } of acts) {
    one.pause(pause)
    const served = await one.send(cost)
    if (next === 'drain') {
      const { available } = one
      const capped = await one.capped()
      for (let i = 1; i <= available; i++)
        assert.ok(await one.send(1), `unit ${i} of ${available} told is there`)
      assert.equal(await one.send(1), capped, `after the ${available} units told there is none`)
    }
    if (next === 'obey' && !served && one.wait !== undefined) {
      const { wait } = one
      one.pass((wait - 1) * 1000)
      assert.equal(await one.send(cost), false, `refused ${wait - 1} s after a Retry-After of ${wait}`)
      one.pass(1000)
      assert.ok(await one.send(cost), `served ${wait} s after a Retry-After of ${wait}`)
    }
  }
}

/** Spends by what the fields say, and nothing else. Returns how often it was refused. */
async function obeys(one: Client, cost: number, pauses: readonly Pause[]): Promise<void> {
  for (const pause of pauses) {
    one.pause(pause)
    const promised = one.limits.length === 0 || one.available >= cost
    if (!promised) {
      const short = one.limits.filter(({ r }) => Number(r) < cost)
      one.pass(Math.max(...short.map(({ t }) => Number(t))) * 1000)
    }
    const served = await one.send(cost)
    if (served) continue
    assert.ok(cost > 1, 'a client of cost 1 is never refused')
    assert.ok(!promised, `${cost} were there`)
    one.pass(Number(one.wait) * 1000)
    assert.ok(await one.send(cost), 'one wait is enough')
  }
}

for (const [algorithm, policy] of Object.entries(algorithms)) {
  t.test(
    `${algorithm}: what is told is there, no more is, and Retry-After is right to the second`,
    async () => {
      await check(
        fc.asyncProperty(policy, began, acts, (only, began, acts) =>
          client({ only }, began, one => keepsItsWord(one, acts))
        )
      )
    }
  )

  t.test(
    `${algorithm}: a client that obeys the fields is never refused; one of a higher cost waits once`,
    async () => {
      await check(
        fc.asyncProperty(
          policy,
          began,
          fc.oneof({ weight: 2, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 5 })),
          pauses,
          async (only, began, cost, pauses) => {
            fc.pre(cost <= (only.burst ?? only.quota))
            await client({ only }, began, one => obeys(one, cost, pauses))
          }
        )
      )
    }
  )
}

const several = fc
  .tuple(...Object.values(algorithms))
  .chain(policies => fc.shuffledSubarray(policies, { minLength: 2 }))
  .map(policies => Object.fromEntries(policies.map(policy => [policy.algorithm, policy])))

t.test('several policies: the lowest r counts, and one wait is enough for all', async () => {
  await check(
    fc.asyncProperty(several, began, acts, (policies, began, acts) =>
      client(policies, began, one => keepsItsWord(one, acts))
    )
  )
})

t.test('several policies: a client that obeys all of them is never refused', async () => {
  await check(
    fc.asyncProperty(several, began, pauses, (policies, began, pauses) =>
      client(policies, began, one => obeys(one, 1, pauses))
    )
  )
})
