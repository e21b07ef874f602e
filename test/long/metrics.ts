import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import prom from 'prom-client'
import t from 'tap'
import { build } from '../../examples/metrics.js'
import quota, { memoryStore } from '../../src/index.js'
import { quotaMetrics } from '../../src/metrics/index.js'
import { Prometheus, hurried, noPrometheus, promtool } from '../metrics/prometheus.js'
import { ALERTS, ALERTS_TESTS, panels, queriesOf } from '../metrics/watching.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'

/*
 * A Prometheus scrapes the example and a small app with a full memory store, while Redis is slow, refuses, hangs and comes
 * back. Each alert fires for its reason and clears after it, and each query of the dashboard has had numbers in the end.
 */

t.setTimeout(600_000)

const skip = noPrometheus()

t.test('promtool has nothing to say against the alerts, and their tests pass', { skip }, async t => {
  t.match(await promtool(['check', 'rules', ALERTS]), /SUCCESS: 7 rules found/)
  t.match(await promtool(['test', 'rules', ALERTS_TESTS]), /SUCCESS/)
})

t.test('dashboard and alerts in a real Prometheus', { skip }, async t => {
  const redis = await startRedis(t)
  const proxy = await startProxy(t, redis)
  Object.assign(process.env, { REDIS_PORT: String(proxy.port), QUOTA_SECRET: 's'.repeat(32) })
  const example = await serve(t, await build())
  const crowded = await serve(t, await crowd())
  const load = new Load(`http://127.0.0.1:${example}`)
  t.teardown(() => load.stop())
  const from = Date.now()
  const prometheus = await Prometheus.start(t, { ports: [example, crowded], rules: hurried(ALERTS) })

  await t.test('promtool has nothing to say against the metrics', async t => {
    const scrape = await fetch(`http://127.0.0.1:${example}/metrics`)
    t.equal(await promtool(['check', 'metrics'], await scrape.text()), '')
  })

  load.rate = 5
  await t.test('nothing fires under little load, once the app has warmed up', t =>
    t.resolves(prometheus.awaitCalm())
  )

  const scenes: readonly Scene[] = [
    {
      name: 'more than the quota allows',
      alerts: ['FastifyQuotaManyRefused', 'FastifyQuotaNearlyUsed'],
      begin: () => (load.rate = 40),
      end: () => (load.rate = 5)
    },
    {
      name: 'Redis is slow',
      alerts: ['FastifyQuotaStoreSlow'],
      begin: () => (proxy.delay = 17),
      end: () => (proxy.delay = 0)
    },
    {
      name: 'Redis hangs',
      alerts: ['FastifyQuotaStoreDown', 'FastifyQuotaWithoutStore'],
      begin: () => redis.pause(),
      end: () => redis.resume()
    },
    {
      name: 'Redis refuses',
      alerts: ['FastifyQuotaStoreFault', 'FastifyQuotaWithoutStore'],
      begin: () => redis.command('ACL', 'SETUSER', 'default', '-@scripting'),
      end: () => redis.command('ACL', 'SETUSER', 'default', '+@all')
    },
    {
      name: 'more clients than there is memory for',
      alerts: ['FastifyQuotaMemoryFull'],
      begin: () => (load.crowd = `http://127.0.0.1:${crowded}`),
      end: () => (load.crowd = undefined)
    }
  ]
  for (const { name, alerts, begin, end } of scenes) {
    await t.test(`${name}: alerts fire, and clear`, async t => {
      await begin()
      for (const alert of alerts) await t.resolves(prometheus.awaitAlert(alert, 'firing'), `${alert} fires`)
      await end()
      for (const alert of alerts) await t.resolves(prometheus.awaitAlert(alert, 'clear'), `${alert} clears`)
    })
  }

  await t.test('nothing fires in the end', t => t.resolves(prometheus.awaitCalm()))

  await t.test('every query of the dashboard has had numbers', async t => {
    const span = { from, to: Date.now() }
    for (const panel of panels()) {
      for (const query of queriesOf(panel)) {
        const numbers = await prometheus.numbersOf(filledIn(query), span)
        t.ok(numbers > 0, `${panel.title}: ${numbers}`)
      }
    }
  })
})

interface Scene {
  readonly name: string
  readonly alerts: readonly string[]
  readonly begin: () => unknown
  readonly end: () => unknown
}

/** As Grafana fills it in. */
const filledIn = (query: string): string =>
  query.replaceAll('$__rate_interval', '5s').replaceAll('$__range', '60s').replaceAll('$job', '.+')

/** Requests of all kinds, so many of each in a second. */
class Load {
  rate = 0
  /** Where a crowd of clients comes to. */
  crowd: string | undefined
  readonly #origin: string
  readonly #stop = new AbortController()
  readonly #running: Promise<void>

  constructor(origin: string) {
    this.#origin = origin
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    for (let i = 0; !signal.aborted; i++) {
      for (const path of ['/', '/rows', '/stream']) if (this.rate > 0) void ask(`${this.#origin}${path}`)
      if (this.crowd !== undefined) void ask(`${this.crowd}/`, `client-${i}`)
      await sleep(1000 / Math.max(5, this.rate))
    }
  }
}

async function ask(url: string, client: string = ''): Promise<void> {
  await fetch(url, { headers: { 'x-client': client } }).then(
    response => response.arrayBuffer(),
    () => {}
  )
}

/** An app that has memory for two clients. */
async function crowd(): Promise<FastifyInstance> {
  const app = Fastify() as unknown as FastifyInstance
  const register = new prom.Registry()
  await app.register(quota, {
    identify: { client: request => request.headers['x-client']?.toString() },
    policies: { any: { quota: 100, window: '1m', partition: 'client' } },
    store: memoryStore({ maxPartitions: 2 })
  })
  await app.register(quotaMetrics, { prom, register })
  app.get('/', () => 'served')
  app.get('/metrics', { config: { quota: false } }, () => register.metrics())
  return app
}

/** The port of an app that is served until the end of the test. */
async function serve(t: { teardown(work: () => unknown): unknown }, app: FastifyInstance): Promise<number> {
  t.teardown(() => app.close())
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}
