import type { Redis } from 'ioredis'
import t from 'tap'
import { algorithms } from '../../../src/algorithms/index.js'
import { compilePolicy } from '../../../src/policy.js'
import { chargeCommand, decode } from '../../../src/stores/redis/command.js'
import type { Command, Reply } from '../../../src/stores/redis/command.js'
import { script } from '../../../src/stores/redis/script.js'
import { startRedis } from '../../redis/servers.js'
import { clientOf, doubles } from './kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)
const redis: Redis = clientOf(t, server)
const burst = compilePolicy('burst', { quota: 5, window: '10s' }, [])
const T0 = 1_753_900_000_123

/** A call at a time of the caller's; 0: of the server's. */
async function call(
  { operation, keys, fields, items, numbers }: Command,
  time: number = T0,
  fence: number = 0
): Promise<Reply> {
  const head = [operation, time, fence, fields]
  const bytes = await redis.callBuffer('EVAL', script(true), keys.length, ...keys, ...head, ...items)
  const reply = decode(bytes, numbers)
  if (reply === undefined) throw new Error(`the script has answered ${String(bytes)}`)
  return reply
}

const charging = (
  operation: 'charge' | 'try',
  units: number,
  keyOf: (partition: string) => string
): Command => chargeCommand({ keyOf, fields: 0 }, operation, [{ partition: 'p', policy: burst, units }])

const probe = (...keys: readonly string[]): Command => ({
  operation: 'probe',
  keys,
  fields: 0,
  items: [],
  patient: false,
  numbers: 0
})

async function serverTime(): Promise<number> {
  const [seconds, microseconds] = await redis.time()
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}

t.test('its text is always the same, and has every algorithm', async t => {
  t.equal(script(false), script(false))
  t.equal(script(true), `#!lua\n${script(false)}`)
  for (const name of algorithms.keys()) t.match(script(false), `['${name}'] = function ()`)
})

t.test('it is sent without its comments, and is no longer than it has to be', async t => {
  t.notMatch(script(false), /^ |^--|^\n/m)
  t.ok(script(false).length < 25_000, `${script(false).length} characters`)
})

t.test('servers take it with its first line and without', async t => {
  for (const text of [script(true), script(false)])
    t.match(await redis.script('LOAD', text), /^[0-9a-f]{40}$/)
})

t.test('an answer is doubles, the time second', async t => {
  const command = charging('charge', 2, () => 'an answer')
  const head = ['charge', T0, 0, 0]
  const bytes = await redis.callBuffer('EVAL', script(true), 1, ...command.keys, ...head, ...command.items)
  t.same(bytes, doubles(0, T0, 1, 3, 10_000, 0, 0, T0, 2))
})

t.test("0 is the server's own time, to the millisecond", async t => {
  for (let i = 0; i < 10; i++) {
    const before = await serverTime()
    const { now } = await call(probe('a probe'), 0)
    const after = await serverTime()
    t.ok(before <= now && now <= after && Number.isInteger(now), `${before} ${now} ${after}`)
  }
})

t.test('what comes after its fence does nothing, and tells the time', async t => {
  const keyOf = (): string => 'fenced'
  t.strictSame(await call(charging('charge', 1, keyOf), T0, T0 - 1), { now: T0, fenced: true, numbers: [] })
  t.equal(await redis.exists('fenced'), 0)
  t.match(await call(charging('charge', 1, keyOf), T0, T0), { fenced: false, numbers: [1, 4] })
  t.match(await call(charging('charge', 1, keyOf), T0, T0 + 1), { fenced: false, numbers: [1, 3] })
  const now = await serverTime()
  t.match(await call(probe('fenced probe'), 0, now - 1), { fenced: true })
  t.equal(await redis.exists('fenced probe'), 0)
})

t.test('what is only tried writes nothing', async t => {
  const keyOf = (): string => 'tried'
  t.match(await call(charging('try', 3, keyOf)), { numbers: [1, 5, 10_000, 0, 0, T0, 0] })
  t.equal(await redis.exists('tried'), 0)
})

t.test('a probe writes to each key, and what it writes goes by itself', async t => {
  t.match(await call(probe('one', 'two')), { numbers: [] })
  for (const key of ['one', 'two']) {
    const left = await redis.pttl(key)
    t.ok(left > 0 && left <= 1000, `${left}`)
  }
})

t.test('units are bought ahead if the charge is admitted, no more than a share of what is left', async t => {
  const wide = compilePolicy('wide', { quota: 100, window: '1m' }, [])
  const buy = async (units: number, ahead: number, shares: number): Promise<readonly number[]> => {
    const command = chargeCommand({ keyOf: () => 'ahead', fields: 0 }, 'charge', [
      { partition: 'p', policy: wide, units, ahead, shares }
    ])
    const [allowed, remaining, , , , , charged] = (await call(command)).numbers
    return [allowed!, remaining!, charged!]
  }
  t.strictSame(await buy(1, 9, 2), [1, 90, 10])
  t.strictSame(await buy(1, 1000, 4), [1, 67, 23], 'a quarter of 89')
  t.strictSame(await buy(68, 10, 2), [0, 67, 0])
  t.strictSame(await buy(66, 10, 2), [1, 1, 66], 'half of 1 is none')
  t.strictSame(await buy(1, 10, 2), [1, 0, 1])
})

t.test('what is no state of ours is an error, and nothing is written', async t => {
  const foreign = charging('charge', 1, () => 'foreign')
  const both: Command = {
    ...foreign,
    keys: ['beside', 'foreign'],
    items: [...foreign.items, ...foreign.items.with(0, '2')]
  }
  for (const nonsense of [Buffer.from([0xc1]), '', '\u{1f600}']) {
    await redis.hset('foreign', burst.field, nonsense)
    await t.rejects(call(both), { message: /^ERR / })
    t.equal(await redis.exists('beside'), 0)
  }
  await redis.set('a text', 'nonsense')
  await t.rejects(call(charging('charge', 1, () => 'a text')), { message: /^WRONGTYPE/ })
})
