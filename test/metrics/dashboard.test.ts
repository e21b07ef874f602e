import { readFileSync } from 'node:fs'
import t from 'tap'
import { metered } from './kit.js'
import { ALERTS, DASHBOARD, panels, queriesOf } from './watching.js'

/** What Prometheus itself adds. */
const OF_PROMETHEUS = ['job', 'instance', 'le']

t.test('dashboard and alerts ask for metrics that exist, by labels that they have', async t => {
  const { register } = await metered(t, { policies: { any: '9/1m' } })
  const rules = readFileSync(ALERTS, 'utf8')
  const queries = [...panels().flatMap(queriesOf), rules]
  const asked = new Map<string, readonly string[]>()
  for (const query of queries) {
    for (const [, name = '', selector = ''] of query.matchAll(/\b(fastify_quota_\w+)(?:\{(.*?)\})?/g)) {
      const labels = [...selector.matchAll(/(\w+)=/g)].map(([, label = '']) => label)
      asked.set(name, [...(asked.get(name) ?? []), ...labels])
    }
  }
  t.ok(asked.size > 10)
  for (const [name, labels] of asked) {
    const metric =
      register.getSingleMetric(name) ?? register.getSingleMetric(name.replace(/_(bucket|count|sum)$/, ''))
    const { labelNames = [] } = (metric ?? {}) as { labelNames?: readonly string[] }
    t.not(metric, undefined, name)
    t.strictSame(
      labels.filter(label => ![...labelNames, ...OF_PROMETHEUS].includes(label)),
      [],
      name
    )
  }
})

t.test('the dashboard shows every metric', async t => {
  const { register } = await metered(t, { policies: { any: '9/1m' } })
  const queries = panels().flatMap(queriesOf).join('\n')
  for (const { name } of register.getMetricsAsArray())
    t.match(queries, new RegExp(`\\b${name}(_bucket|_count|_sum)?\\b`), name)
})

t.test('panels have a place and a number of their own, and a data source that can be chosen', async t => {
  const places = new Set<string>()
  const ids = new Set<number>()
  for (const { id, title, type, gridPos, datasource } of DASHBOARD.panels) {
    t.notOk(ids.has(id), title)
    ids.add(id)
    if (type !== 'row') t.equal(datasource?.uid, '${datasource}', title)
    t.ok(gridPos.x + gridPos.w <= 24, title)
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        t.notOk(places.has(`${x} ${y}`), `${title} at ${x} ${y}`)
        places.add(`${x} ${y}`)
      }
    }
  }
})
