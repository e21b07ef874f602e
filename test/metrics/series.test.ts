import { readFileSync } from 'node:fs'
import prom from 'prom-client'
import t from 'tap'
import { metered } from './kit.js'

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8')

interface Known {
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
}

/** What a register has, as it says itself. */
async function known(register: prom.Registry): Promise<readonly Known[]> {
  const metrics = await register.getMetricsAsJSON()
  return metrics.map(({ name, type }) => {
    const { labelNames } = register.getSingleMetric(name) as unknown as { labelNames: readonly string[] }
    return { name, type: String(type), labels: labelNames.filter(label => label !== 'le') }
  })
}

t.test('the README lists all metrics, their types and their labels, and no other', async t => {
  const { register } = await metered(t, { policies: { any: '9/1m' } })
  const [, table = ''] = /<!-- metrics -->\n\n((?:\|.*\n)+)/.exec(readme) ?? []
  const listed = [...table.matchAll(/^\| `(\w+)` \| (\w+) \| (.*?) ?\| /gm)].map(
    ([, name = '', type = '', labels = '']): Known => ({
      name,
      type,
      labels: [...labels.matchAll(/\w+/g)].map(String)
    })
  )
  const byName = (one: Known, other: Known): number => one.name.localeCompare(other.name)
  t.strictSame(listed.toSorted(byName), (await known(register)).toSorted(byName))
})

t.test('names are those of Prometheus: base units, and _total for what only grows', async t => {
  const { register } = await metered(t, { policies: { any: '9/1m' } })
  for (const { name, type } of await known(register)) {
    t.match(name, /^fastify_quota_[a-z]+(_[a-z]+)*$/)
    t.equal(name.endsWith('_total'), type === 'counter', name)
    t.notMatch(name, /milliseconds|_ms|percent/)
  }
})

t.test('no label tells of a client: requests of many make no more series than those of one', async t => {
  const { app, register, samples } = await metered(t, {
    identify: { user: request => request.headers['x-user']?.toString() },
    policies: { any: { quota: 1, window: '1m', partition: 'user' } }
  })
  app.get('/:anything', () => 'served')
  const series = async (): Promise<number> => Object.keys(await samples(/^(?!partitions)/)).length
  const ask = async (user: string, path: string): Promise<void> => {
    for (let i = 0; i < 2; i++) await app.inject({ url: path, headers: { 'x-user': user } })
  }
  await ask('first-of-all', '/path-of-the-first')
  const before = await series()
  for (let i = 0; i < 50; i++) await ask(`user-${i}`, `/path-${i}`)
  t.equal(await series(), before)
  t.notMatch(await register.metrics(), /first|user|path|127\.0\.0\.1/)
})

t.test('of several processes together, the store is up if it is for all', async t => {
  const register = new prom.Registry()
  await metered(t, { policies: { any: '9/1m' } }, register)
  const mine = await register.getMetricsAsJSON()
  const others = mine.map(metric =>
    metric.name === 'fastify_quota_store_up' ? { ...metric, values: [{ value: 0, labels: {} }] } : metric
  )
  const all = prom.AggregatorRegistry.aggregate([mine, others])
  t.match(await all.metrics(), /^fastify_quota_store_up 0$/m)
})
