import { setImmediate as turn } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { compilePolicy } from '../../../src/policy.js'
import type { QuotaPolicy } from '../../../src/policy.js'
import type { Answer, Charge, Place } from '../../../src/store.js'
import { StoreFailure } from '../../../src/stores/guard/failure.js'
import { GuardedCalls } from '../../../src/stores/redis/calls.js'
import { RedisCounter } from '../../../src/stores/redis/counter.js'
import { Keys } from '../../../src/stores/redis/keys.js'
import { ScriptClient } from '../../../src/stores/redis/script-client.js'
import { startProxy } from '../../redis/proxy.js'
import type { Proxy } from '../../redis/proxy.js'
import { startRedis } from '../../redis/servers.js'
import { SECRET, StillTime, clientOf, until } from './kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)
const redis: Redis = clientOf(t, server)

const policy = (name: string, quota: number, mode: 'enforce' | 'shadow' = 'enforce'): QuotaPolicy =>
  compilePolicy(name, { quota, window: '1h', mode }, [])
const burst = policy('burst', 5)
const daily = policy('daily', 100)
const shadow = policy('shadow', 1, 'shadow')
const slots = compilePolicy('slots', { quota: 5, algorithm: 'concurrency', holdFor: '1h' }, [])

interface Bench {
  readonly counter: RedisCounter
  readonly timing: StillTime
  readonly proxy: Proxy
  readonly keyOf: (partition: string) => string
}

let benches = 0

/** A counter behind a proxy; partitions are in slots of their own, as on a cluster, or together. */
async function bench(t: Test, apart: boolean = true): Promise<Bench> {
  const proxy = await startProxy(t, server)
  const timing = new StillTime()
  const client = new ScriptClient(clientOf(t, proxy, { lazyConnect: true }), 'shared', timing)
  t.teardown(() => client.close())
  await client.open(async () => {})
  const calls = new GuardedCalls(client, 10_000, undefined, () => {}, timing)
  t.teardown(() => calls.close())
  const keys = new Keys(SECRET, `bench-${benches++}`, false)
  const keyOf = (partition: string): string => keys.of(partition)
  return { counter: new RedisCounter(calls, keys, apart), timing, proxy, keyOf }
}

const charge = (policy: QuotaPolicy, partition: string, units: number = 1): Charge => ({
  policy,
  partition,
  units
})
const place = (policy: QuotaPolicy, partition: string): Place => ({ policy, partition })

const ignored = (): void => {}

async function consumed({ counter }: Bench, ...charges: readonly Charge[]): Promise<Answer> {
  return answer(await counter.consume(charges, ignored))
}

function answer(result: Answer | StoreFailure): Answer {
  if (result instanceof StoreFailure) throw new Error(result.code)
  return result
}

/** What is left; where nothing is known, `undefined`. */
async function left(
  { counter }: Bench,
  ...places: readonly Place[]
): Promise<readonly (number | undefined)[]> {
  const { limits } = answer(await counter.peek(places))
  return limits.map(({ remaining }) => remaining)
}

const summary = ({ limits }: Answer): readonly unknown[] =>
  limits.map(({ policy, allowed, remaining, charges }) => [policy.name, allowed, remaining, charges.length])

/** The calls of the script that were made meanwhile, each by its operation and the partitions it was about. */
async function watched(
  { keyOf }: Bench,
  partitions: string,
  work: () => Promise<unknown>,
  seen: string[] = []
): Promise<readonly string[]> {
  const monitor = await redis.monitor()
  const end = `the end ${Math.random()}`
  const ended = new Promise<void>(resolve => {
    monitor.on('monitor', (_: unknown, words: readonly string[], source: string) => {
      if (words[1] === end) resolve()
      if (source === 'lua' || !/^eval/i.test(words[0]!)) return
      const keys = words.slice(3, 3 + Number(words[2]))
      const about = partitions
        .split('')
        .filter(partition => keys.includes(keyOf(partition)))
        .join('')
      if (about !== '') seen.push(`${words[3 + keys.length]} ${about}`)
    })
  })
  await work()
  await redis.echo(end)
  await ended
  monitor.disconnect()
  return seen
}

t.test('partitions are asked one after the other, in configured order', async t => {
  const b = await bench(t)
  const charges = [
    charge(burst, 'b'),
    charge(daily, 'a', 3),
    charge(policy('more', 9), 'b'),
    charge(shadow, 'c')
  ]
  let got: Answer | undefined
  const calls = await watched(b, 'abc', async () => (got = await consumed(b, ...charges)))
  t.strictSame(calls, ['charge b', 'charge a', 'charge c'])
  t.strictSame(
    summary(got!),
    [
      ['burst', true, 4, 1],
      ['daily', true, 97, 1],
      ['more', true, 8, 1],
      ['shadow', true, 0, 1]
    ],
    'and answered in the order of the charges'
  )
  t.equal(got!.source, 'redis')
})

t.test('together, they are asked in one call', async t => {
  const b = await bench(t, false)
  const many = Array.from({ length: 26 }, (_, i) => charge(policy(`p${i}`, 9), String.fromCharCode(97 + i)))
  const names = 'abcdefghijklmnopqrstuvwxyz'
  t.strictSame(await watched(b, names, () => consumed(b, ...many)), [`charge ${names}`])
  t.strictSame(
    await watched(b, names, () => left(b, ...many)),
    [`try ${names.slice(0, 16)}`, `try ${names.slice(16)}`],
    'but what need not be decided together holds up nobody else'
  )
})

t.test(
  'a refusal gives back what was charged before it, and asks those behind it what they would say',
  async t => {
    const b = await bench(t)
    await consumed(b, charge(burst, 'b', 5))
    await consumed(b, charge(policy('last', 3), 'c', 2))
    const charges = [
      charge(daily, 'a', 10),
      charge(shadow, 'a'),
      charge(burst, 'b'),
      charge(policy('last', 3), 'c', 2),
      charge(policy('open', 3), 'd', 2)
    ]
    let got: Answer | undefined
    const calls = await watched(b, 'abcd', async () => (got = await consumed(b, ...charges)))
    t.strictSame(calls.slice(0, 2), ['charge a', 'charge b'])
    t.strictSame(calls.slice(2).toSorted(), ['settle a', 'try c', 'try d'])
    t.strictSame(summary(got!), [
      ['daily', true, 100, 0],
      ['shadow', true, 1, 0],
      ['burst', false, 0, 0],
      ['last', false, 1, 0],
      ['open', true, 3, 0]
    ])
    t.strictSame(
      got!.limits.map(({ units }) => units),
      [10, 1, 1, 2, 2]
    )
    t.strictSame(await left(b, ...charges), [100, 1, 0, 1, 3])
  }
)

t.test('a shadow policy that has no room stops nobody', async t => {
  const b = await bench(t)
  await consumed(b, charge(shadow, 'a'))
  t.strictSame(summary(await consumed(b, charge(shadow, 'a'), charge(burst, 'b'))), [
    ['shadow', false, 0, 0],
    ['burst', true, 4, 1]
  ])
})

t.test('if a later partition cannot be asked, the earlier ones are given back', async t => {
  const b = await bench(t)
  await redis.set(b.keyOf('text'), 'of somebody else')
  const charges = [
    charge(daily, 'a', 10),
    charge(slots, 'b', 2),
    charge(burst, 'text'),
    charge(policy('last', 3), 'd')
  ]
  t.match(await b.counter.consume(charges, ignored), { code: 'WRONGTYPE', kind: 'fault' })
  await until('what was given back', async () => {
    const now = await left(b, place(daily, 'a'), place(slots, 'b'))
    return now.join() === '100,5'
  })
  t.equal(await redis.exists(b.keyOf('d')), 0, 'those behind it were not asked')
})

t.test('what is charged after the deadline is given back, and nobody else is asked', async t => {
  const b = await bench(t)
  await consumed(b, charge(daily, 'a'), charge(slots, 'a'))
  const seen: string[] = []
  await watched(
    b,
    'ab',
    async () => {
      b.proxy.freeze(true)
      const charges = [charge(daily, 'a', 10), charge(slots, 'a', 2), charge(burst, 'b', 2)]
      const asked = b.counter.consume(charges, ignored)
      b.timing.pass(9999)
      await turn()
      b.timing.pass(1)
      t.match(await asked, { code: 'TIMEOUT', kind: 'outage' })
      b.proxy.freeze(false)
      await until('what is given back', () => seen.length === 2)
    },
    seen
  )
  t.strictSame(seen, ['charge a', 'settle a'])
  t.strictSame(await left(b, place(daily, 'a'), place(slots, 'a'), place(burst, 'b')), [99, 4, 5])
})

t.test('a refusal is one, though those behind it cannot be asked', async t => {
  const b = await bench(t)
  await consumed(b, charge(burst, 'b', 5))
  await redis.set(b.keyOf('text'), 'of somebody else')
  const charges = [charge(daily, 'a', 10), charge(burst, 'b'), charge(slots, 'text')]
  t.strictSame(summary(await consumed(b, ...charges)), [
    ['daily', true, 100, 0],
    ['burst', false, 0, 0]
  ])
})

t.test('what cannot be given back in time is told as it was', async t => {
  const b = await bench(t)
  await consumed(b, charge(daily, 'a'))
  await consumed(b, charge(burst, 'b', 5))
  b.proxy.delay = 100
  const monitor = await redis.monitor()
  monitor.on('monitor', (_: unknown, words: readonly string[]) => {
    if (words.includes('settle')) b.timing.pass(10_000)
  })
  const got = await consumed(b, charge(daily, 'a', 10), charge(burst, 'b'), charge(slots, 'c'))
  monitor.disconnect()
  t.strictSame(summary(got), [
    ['daily', true, 89, 0],
    ['burst', false, 0, 0]
  ])
})

t.test('together, what is charged after the deadline is told as it is', async t => {
  const b = await bench(t, false)
  await consumed(b, charge(daily, 'a'))
  b.proxy.freeze(true)
  const late: Answer[] = []
  const asked = b.counter.consume([charge(daily, 'a', 10), charge(slots, 'b', 2)], known => late.push(known))
  b.timing.pass(10_000)
  t.match(await asked, { code: 'TIMEOUT' })
  b.proxy.freeze(false)
  await until('the late reply', () => late.length === 1)
  t.strictSame(late.flatMap(summary), [
    ['daily', true, 89, 1],
    ['slots', true, 3, 1]
  ])
})

t.test('nothing to charge is asked of nobody', async t => {
  for (const apart of [true, false]) {
    const b = await bench(t, apart)
    b.proxy.freeze(true)
    t.strictSame(b.counter.consume([], ignored), { limits: [], source: 'redis' })
    t.strictSame(b.counter.peek([]), { limits: [], source: 'redis' })
    t.strictSame(b.counter.settle([]), { limits: [], source: 'redis' })
    t.strictSame(b.counter.renew([]), [])
    t.equal(b.counter.reset([]), undefined)
    t.strictSame(b.counter.rehearse([]), { limits: [], source: 'redis' })
  }
})

t.test('what some partitions answer is told, though others cannot be asked', async t => {
  const b = await bench(t)
  const { limits } = await consumed(b, charge(slots, 'a', 2))
  const [held] = limits
  await redis.set(b.keyOf('text'), 'of somebody else')
  const both = [place(slots, 'a'), place(burst, 'text')]
  t.strictSame(await left(b, ...both), [3])
  const lease = { ...place(slots, 'a'), charges: held!.charges }
  const foreign = { ...place(slots, 'text'), charges: [{ at: 1, units: 1 }] }
  t.match(
    await b.counter.renew([foreign, lease]),
    [foreign.charges, [{ units: 2 }]],
    'a lease is taken to live'
  )
  const { limits: settled } = answer(
    await b.counter.settle([
      { ...foreign, actual: 0 },
      { ...lease, actual: 9 }
    ])
  )
  t.match(settled, [{ policy: slots, remaining: 0, units: 0 }])
  t.equal(await b.counter.reset(both), undefined)
  t.strictSame(await left(b, ...both), [5])
})

t.test('if none can be asked, that is a failure', async t => {
  const b = await bench(t)
  for (const partition of ['x', 'y']) await redis.set(b.keyOf(partition), 'of somebody else')
  const both = [place(slots, 'x'), place(slots, 'y')]
  const leases = both.map(each => ({ ...each, charges: [{ at: 1, units: 1 }] }))
  const failures = [
    b.counter.peek(both),
    b.counter.rehearse(both.map(each => ({ ...each, units: 1 }))),
    b.counter.renew(leases),
    b.counter.settle(leases.map(lease => ({ ...lease, actual: 0 }))),
    b.counter.reset(both),
    b.counter.consume([charge(slots, 'x')], ignored),
    b.counter.reset([place(slots, 'x')]),
    b.counter.renew(leases.slice(1))
  ]
  for (const failure of failures) t.match(await failure, { code: 'WRONGTYPE', kind: 'fault' })
})

t.test('a decision over several partitions is not begun while a server of theirs is left alone', async t => {
  const b = await bench(t)
  b.proxy.refuse(true)
  b.proxy.cut()
  const both = [charge(burst, 'x'), charge(daily, 'y')]
  let result: Answer | StoreFailure | undefined
  await until('the breaker', async () => {
    const consuming = b.counter.consume(both, ignored)
    b.timing.pass(10_000)
    result = await consuming
    return result instanceof StoreFailure && result.code === 'DOWN'
  })
  t.match(result, { kind: 'outage', effect: 'none' })
})
