import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { startProxy } from '../redis/proxy.js'
import type { Proxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import type { RedisServer } from '../redis/servers.js'
import type { FastifyInstance } from 'fastify'
import type { Duration } from '../../src/index.js'
import { connections, eventually, leftOf, needsRedis, redisDecides, serveRedis, spend } from './kit.js'
import type { Connection } from './kit.js'

/*
 * A ghost is a call that is executed when nobody waits for its answer any more: the request has been answered some other way,
 * and would be charged all the same.
 */

t.setTimeout(120_000)

const QUOTA = 10_000
const CALLS = 100

/** Milliseconds from the end of a deadline until all clocks agree that it is over. */
const LONG_OVER = 400

const policies = {
  daily: { quota: QUOTA, window: '1d', partition: 'global' },
  strict: { quota: QUOTA, window: '1d', partition: 'global', onStoreFailure: 'closed', default: false },
  own: { quota: QUOTA, window: '1d', partition: 'global', onStoreFailure: 'local', default: false },
  places: { quota: 20, algorithm: 'concurrency', holdFor: '1m', partition: 'global', default: false },
  brief: { quota: 20, algorithm: 'concurrency', holdFor: '2s', partition: 'global', default: false }
} as const

interface Rig {
  readonly redis: RedisServer
  readonly proxy: Proxy
  readonly app: FastifyInstance
  /** Counts on the same Redis, and nothing happens on its way there. */
  readonly witness: FastifyInstance
  /** Calls of the script that the server has executed or refused since it started. */
  readonly executed: () => Promise<number>
}

async function rig(t: Test, connection: Connection, deadline: Duration): Promise<Rig> {
  const redis = await startRedis(t)
  const proxy = await startProxy(t, redis)
  const witness = await serveRedis(t, redis.port, policies, { deadline: '5s' })
  const app = await serveRedis(t, proxy.port, policies, { connection, deadline })
  await redisDecides(app, 'daily')
  const executed = async (): Promise<number> => {
    const stats = await redis.command('INFO', 'commandstats')
    // The first calls of a connection may bring the script along.
    const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)]
    return calls.reduce((sum, [, count]) => sum + Number(count), 0)
  }
  return { redis, proxy, app, witness, executed }
}

const spent = async (app: FastifyInstance): Promise<number> => QUOTA - (await leftOf(app, 'daily'))

/** Waits until nothing is executed any more, and returns how much that was. */
async function quiet({ executed, app }: Rig): Promise<number> {
  await redisDecides(app, 'daily')
  let last = -1
  return eventually('an idle server', async () => {
    const now = await executed()
    const idle = now === last
    last = now
    if (!idle) await sleep(200)
    return idle && now
  })
}

for (const connection of connections) {
  t.test(
    `${connection}: what a server that hung executes afterwards is charged to nobody`,
    needsRedis,
    async t => {
      const parts = await rig(t, connection, '100ms')
      const { redis, app, witness } = parts
      const before = await quiet(parts)
      redis.pause()
      t.strictSame(new Set(await spend(app, 'daily', CALLS)), new Set(['open']))
      await sleep(LONG_OVER)
      redis.resume()
      const after = await quiet(parts)
      // A connection of the store's own may have been given up by then, and with it some of the calls.
      if (connection === 'shared')
        t.ok(after - before >= CALLS, 'all of them are executed', { before, after })
      t.equal(await spent(witness), 0)
    }
  )

  t.test(`${connection}: what is on the way for too long is charged to nobody`, needsRedis, async t => {
    const parts = await rig(t, connection, '100ms')
    const { proxy, app, witness } = parts
    const before = await quiet(parts)
    proxy.delay = LONG_OVER
    t.strictSame(new Set(await spend(app, 'daily', CALLS)), new Set(['open']))
    proxy.delay = 0
    const after = await quiet(parts)
    if (connection === 'shared') t.ok(after - before >= CALLS, 'all of them arrive', { before, after })
    t.equal(await spent(witness), 0)
  })

  t.test(
    `${connection}: a call whose reply is lost is charged once, however often it is sent`,
    needsRedis,
    async t => {
      const parts = await rig(t, connection, '500ms')
      const { proxy, app, witness } = parts
      const before = await quiet(parts)
      proxy.dropReplies(true)
      t.strictSame(new Set(await spend(app, 'daily', CALLS)), new Set(['open']))
      await sleep(LONG_OVER)
      proxy.dropReplies(false)
      proxy.cut()
      const after = await quiet(parts)
      if (connection === 'shared')
        t.ok(after - before >= 2 * CALLS, 'the client sends them again', { before, after })
      const charged = await spent(witness)
      t.ok(charged > 0 && charged <= CALLS, 'and they count at most once', { charged })
    }
  )

  t.test(
    `${connection}: what is asked of a server that dies is charged to nobody when it is back`,
    needsRedis,
    async t => {
      const parts = await rig(t, connection, '100ms')
      const { redis, app, witness, executed } = parts
      redis.pause()
      t.strictSame(new Set(await spend(app, 'daily', CALLS)), new Set(['open']))
      await redis.kill()
      t.strictSame(new Set(await spend(app, 'daily', CALLS)), new Set(['open']), 'while it is down')
      await sleep(LONG_OVER)
      await redis.restart()
      if (connection === 'shared')
        await eventually('what the client has kept', async () => (await executed()) >= CALLS)
      await quiet(parts)
      t.equal(await spent(witness), 0)
    }
  )

  t.test(`${connection}: a place that is granted too late is given back`, needsRedis, async t => {
    const { proxy, app, witness } = await rig(t, connection, '600ms')
    // There in time, back too late.
    proxy.delay = 350
    const reservation = app.quota.reserve({}, 'places', 1)
    await eventually('a place taken', async () => (await leftOf(witness, 'places')) === 19)
    t.equal((await reservation).source, 'open')
    await eventually('all places free', async () => (await leftOf(witness, 'places')) === 20)
  })

  t.test(`${connection}: a place whose grant is lost is free when its time is over`, needsRedis, async t => {
    const { proxy, app, witness } = await rig(t, connection, '200ms')
    proxy.dropReplies(true)
    const reservation = app.quota.reserve({}, 'brief', 1)
    await eventually('a place taken', async () => (await leftOf(witness, 'brief')) === 19)
    t.equal((await reservation).source, 'open')
    await eventually('all places free', async () => (await leftOf(witness, 'brief')) === 20)
  })

  t.test(`${connection}: more than 1000 calls are not waited for`, needsRedis, async t => {
    const { redis, app } = await rig(t, connection, '2s')
    redis.pause()
    let answered = 0
    const waiting = spend(app, 'daily', 1000).then(sources => (answered = sources.length))
    await turn()
    for (const [policy, source] of [
      ['daily', 'open'],
      ['strict', 'closed'],
      ['own', 'local']
    ] as const) {
      t.equal((await app.quota.consume({}, { [policy]: 1 })).source, source)
    }
    t.equal(answered, 0, 'they do not wait for the others')
    await waiting
    redis.resume()
    await redisDecides(app, 'daily')
  })
}
