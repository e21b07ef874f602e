import t from 'tap'
import { EXPIRY, LIVING, SERVER_TIME, lean } from '../../../src/stores/redis/fragments.js'
import { startRedis } from '../../redis/servers.js'
import { clientOf } from './kit.js'

const server = await startRedis(t)
const redis = clientOf(t, server)

t.test('a script is sent without what is for readers', async t => {
  const text = '\n-- Why.\nlocal a = 1\n\nif a then\n  return a -- at last\nend'
  t.equal(lean(text, false), 'local a = 1\nif a then\nreturn a -- at last\nend')
  t.equal(lean(text, true), `#!lua\n${lean(text, false)}`)
})

t.test('the time is that of the server, in milliseconds', async t => {
  const [seconds, microseconds] = await redis.time()
  const before = Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
  const now = Number(await redis.eval(`local now\n${SERVER_TIME}\nreturn string.format('%.0f', now)`, 0))
  t.ok(now >= before && now < before + 10_000, `${now - before} ms later`)
})

t.test('a state is empty from its end on, and so is one that is not there', async t => {
  const length = (now: number): Promise<unknown> =>
    redis.eval(`local now = ${now}\n${LIVING}\nreturn #living(cmsgpack.pack(1000, { 7, 8, 9 }))`, 0)
  t.strictSame([await length(999), await length(1000), await length(1001)], [3, 0, 0])
  t.equal(await redis.eval(`local now = 1\n${LIVING}\nreturn #living(false)`, 0), 0)
})

t.test('an expiry is moved ahead of need, only later, and for all policies if it was lost', async t => {
  await redis.eval(
    "redis.call('HSET', KEYS[1], 'a', cmsgpack.pack(9000, { 1 }), 'b', cmsgpack.pack(5000, { 1 }))",
    1,
    'key'
  )
  const expire = async (ttl: number, set: 'PERSIST' | number): Promise<number> => {
    await (set === 'PERSIST' ? redis.persist('key') : redis.pexpire('key', set))
    const text = `local now = 1000\n${EXPIRY}\nlocal left = redis.call('PTTL', KEYS[1])\nexpire(KEYS[1], left, ${ttl})`
    await redis.eval(text, 1, 'key')
    return redis.pttl('key')
  }
  const about = (left: number, expected: number): void =>
    void t.ok(left <= expected && left > expected - 400, `${left} ms of ${expected}`)
  about(await expire(60_000, 1000), 61_000)
  about(await expire(60_000, 62_000), 62_000)
  about(await expire(4000, 'PERSIST'), 9000)
  about(await expire(40_000, 'PERSIST'), 41_000)
})
