import type { Redis } from 'ioredis'
import t from 'tap'
import { algorithms } from '../../../src/algorithms/index.js'
import { compilePolicy } from '../../../src/policy.js'
import type { QuotaPolicy } from '../../../src/policy.js'
import { chargeCommand, decode } from '../../../src/stores/redis/command.js'
import type { Reply } from '../../../src/stores/redis/command.js'
import { planScript } from '../../../src/stores/redis/plan-script.js'
import type { PlanPart } from '../../../src/stores/redis/plan-script.js'
import { script } from '../../../src/stores/redis/script.js'
import { startRedis } from '../../redis/servers.js'
import { clientOf, doubles } from './kit.js'

/** What such a script decides is compared with the memory store in `test/stores/parity.test.ts`. */

const server = await startRedis(t)
const redis: Redis = clientOf(t, server)
const T0 = 1_753_900_000_123

const burst = compilePolicy('burst', { quota: 5, window: '10s' }, [])
const daily = compilePolicy('daily', { quota: 100, window: '1d' }, [])
const part = (policy: QuotaPolicy, key: number = 1, told: boolean = false): PlanPart => ({
  key,
  policy,
  told
})

async function call(text: string, keys: readonly string[], ...words: readonly unknown[]): Promise<Buffer> {
  return (await redis.callBuffer('EVAL', text, keys.length, ...keys, ...words.map(String))) as Buffer
}

t.test('it says what it is for, and nothing else', async t => {
  const text = planScript([part(burst), part(daily)], 'server', true)
  t.equal(text, planScript([part(burst), part(daily)], 'server', true), 'it is always the same')
  t.equal(text, `#!lua\n${planScript([part(burst), part(daily)], 'server', false)}`)
  t.notMatch(text, /^ |^--|^\n/m)
  t.ok(text.length < 8000, `${text.length} characters`)
  t.equal(text.split('local function step(').length, 2, 'two policies of one algorithm have one twin')
  t.notMatch(text, /\bmath\.\w+\(/, 'functions are looked up once')
  t.notMatch(planScript([part(burst)], 'caller', true), /'TIME'/)
})

t.test('every algorithm has one, alone and with all others, on servers of any age', async t => {
  const policies = [...algorithms.keys()].map(algorithm => {
    const terms = algorithm === 'concurrency' ? { quota: 3 } : { quota: 3, window: '1m' }
    return compilePolicy(algorithm, { ...terms, algorithm: algorithm as 'concurrency' }, [])
  })
  for (const shebang of [true, false]) {
    for (const [i, policy] of policies.entries()) {
      const answer = await call(planScript([part(policy)], 'caller', shebang), [`${shebang} ${i}`], T0, 1)
      t.match(decode(answer, 7), { now: T0, numbers: [1, 2] }, policy.name)
    }
    const all = planScript(
      policies.map((policy, i) => part(policy, i + 1)),
      'caller',
      shebang
    )
    const keys = policies.map((_, i) => `all ${shebang} ${i}`)
    const answer = await call(all, keys, T0, ...policies.map(() => 1))
    t.match(decode(answer, 7 * policies.length), { fenced: false })
    t.equal(await redis.exists(...keys), policies.length)
  }
})

t.test('eight policies on eight partitions are not more variables than Lua has', async t => {
  const parts = Array.from({ length: 8 }, (_, i) => part(compilePolicy(`p${i}`, '3/1m', []), i + 1))
  const keys = parts.map(({ key }) => `eight ${key}`)
  const answer = await call(planScript(parts, 'server', true), keys, 0, ...parts.map(() => 1))
  t.equal(decode(answer, 56)?.fenced, false)
})

t.test('it leaves what the script for everything leaves, to the byte', async t => {
  const policies = [
    burst,
    daily,
    compilePolicy('weighted', { quota: 9, window: '1m', algorithm: 'sliding-window-counter' }, [])
  ]
  const text = planScript(
    policies.map(policy => part(policy)),
    'caller',
    true
  )
  for (const [i, units] of [1, 2, 3, 9, 0, 1].entries()) {
    const now = T0 + i * 700
    const ours = await call(text, ['ours'], now, ...policies.map(() => units))
    const charges = policies.map(policy => ({ partition: 'p', policy, units }))
    const { operation, keys, fields, items } = chargeCommand(
      { keyOf: () => 'theirs', fields: 0 },
      'charge',
      charges
    )
    const theirs = await call(script(true), keys, operation, now, 0, fields, ...items)
    t.same(ours, theirs)
    t.same(await redis.hgetallBuffer('ours'), await redis.hgetallBuffer('theirs'))
    const [left, right] = [await redis.pttl('ours'), await redis.pttl('theirs')]
    t.ok(left > 0 && Math.abs(left - right) < 500, `${left} ms, ${right} ms`)
  }
})

t.test('parameters that are told are used, and no others', async t => {
  const plan = compilePolicy('plan', { quota: () => 1, window: '10s' }, [])
  const text = planScript([part(plan.withQuota(2), 1, true), part(burst)], 'caller', true)
  const asked = async (quota: number): Promise<Reply | undefined> =>
    decode(await call(text, ['told'], T0, 1, ...plan.withQuota(quota).params, 1), 14)
  t.match(await asked(4), { numbers: [1, 3, 10_000, 0, 0, T0, 1, 1, 4] })
  t.match(await asked(3), { numbers: [1, 1, 10_000, 0, 0, T0, 1, 1, 3] })
})

t.test('policies in shadow only refuse nothing', async t => {
  const shadow = compilePolicy('shadow', { quota: 1, window: '10s', mode: 'shadow' }, [])
  const text = planScript([part(shadow)], 'caller', true)
  t.match(decode(await call(text, ['shadow'], T0, 1), 7), { numbers: [1, 0, 10_000, 0, 0, T0, 1] })
  t.match(decode(await call(text, ['shadow'], T0, 1), 7), { numbers: [0, 0, 10_000, 10_000, 0, T0, 0] })
})

t.test('what comes after its fence does nothing, and tells the time', async t => {
  const text = planScript([part(burst)], 'server', true)
  const [seconds] = await redis.time()
  const reply = decode(await call(text, ['fenced'], Number(seconds) * 1000 - 5000, 1), 7)
  t.match(reply, { fenced: true, numbers: [] })
  t.ok(Math.abs(reply!.now - Number(seconds) * 1000) < 10_000)
  t.equal(await redis.exists('fenced'), 0)
  for (const fence of [0, Number(seconds) * 1000 + 3_600_000])
    t.match(decode(await call(text, ['fenced'], fence, 1), 7), { fenced: false })
})

t.test('by the clock of the caller there is no fence', async t => {
  const text = planScript([part(burst)], 'caller', true)
  t.same(await call(text, ['caller'], 1, 2), doubles(0, 1, 1, 3, 10_000, 0, 0, 1, 2))
})

t.test('what is no state of ours is an error, and nothing is written', async t => {
  const text = planScript([part(burst), part(burst, 2)], 'caller', true)
  for (const nonsense of [Buffer.from([0xc1]), '', '\u{1f600}']) {
    await redis.hset('foreign', burst.field, nonsense)
    await t.rejects(call(text, ['beside', 'foreign'], T0, 1, 1), { message: /^ERR / })
    t.equal(await redis.exists('beside'), 0)
  }
  await redis.set('a text', 'nonsense')
  await t.rejects(call(text, ['beside', 'a text'], T0, 1, 1), { message: /^WRONGTYPE/ })
})
