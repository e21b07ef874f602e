import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import { connections, eventually, leftOf, needsRedis, redisDecides, serveRedis } from './kit.js'

t.setTimeout(180_000)

const policies = {
  places: { quota: 20, algorithm: 'concurrency', holdFor: '1m', partition: 'global' }
} as const

for (const connection of connections) {
  t.test(
    `${connection}: places that are granted too late are given back, however many`,
    needsRedis,
    async t => {
      const redis = await startRedis(t)
      const proxy = await startProxy(t, redis)
      const witness = await serveRedis(t, redis.port, policies, { deadline: '5s' })
      const app = await serveRedis(t, proxy.port, policies, { connection, deadline: '600ms' })
      await redisDecides(app, 'places')
      proxy.delay = 350
      const reservations = Promise.all(Array.from({ length: 10 }, () => app.quota.reserve({}, 'places', 1)))
      await eventually('places taken', async () => (await leftOf(witness, 'places')) === 10)
      t.strictSame(new Set((await reservations).map(({ source }) => source)), new Set(['open']))
      proxy.delay = 0
      await redisDecides(app, 'places')
      await sleep(1000)
      t.equal(await leftOf(witness, 'places'), 20)
    }
  )

  t.test(`${connection}: places that are left in an outage are free when it is over`, needsRedis, async t => {
    const redis = await startRedis(t)
    const proxy = await startProxy(t, redis)
    const witness = await serveRedis(t, redis.port, policies, { deadline: '5s' })
    const app = await serveRedis(t, proxy.port, policies, { connection, deadline: '600ms' })
    await redisDecides(app, 'places')
    const reservations = await Promise.all(
      Array.from({ length: 20 }, () => app.quota.reserve({}, 'places', 1))
    )
    t.equal(await leftOf(witness, 'places'), 0)
    redis.pause()
    await Promise.all(reservations.map(place => place.release()))
    redis.resume()
    await redisDecides(app, 'places')
    await sleep(1000)
    t.equal(await leftOf(witness, 'places'), 20)
  })
}
