import type { Test } from 'tap'
import { brokenDemands } from './demands.js'
import { extentOf, show } from './panels.js'
import { play } from './playing.js'
import type { Played } from './playing.js'
import { promtool } from './prometheus.js'
import { tableOfAlerts, tableOfPanels } from './report.js'
import type { Scene } from './scenes.js'
import { startStage } from './stage.js'

/*
 * A Prometheus scrapes two apps that share a Redis, and one with a full memory, while one thing after the other goes wrong
 * under load. All happens while it is looked at; but the rules, the panels and the scrapes are hastened, by one factor, so
 * that minutes need not be waited for. What is evaluated is the files of the example, in which only durations are shorter.
 */

/** Panels of counts, not of rates: what happens to all instances at once, and once, is the same in all scrapes. */
const RARE: readonly string[] = ['Changes']

/** Lets things go wrong with a minute of so many milliseconds, and prints what was seen. */
export async function watchFaults(t: Test, scenes: readonly Scene[], minute: number): Promise<void> {
  const stage = await startStage(t, minute)
  const { prometheus } = stage
  const from = Date.now()
  const all: Played[] = []
  for (const scene of scenes) {
    const why = scene.alerts.length === 0 ? 'no alert fires' : 'alerts fire, and clear'
    await t.test(`${scene.name}: ${why}`, async t => {
      const played = await play(stage, scene)
      all.push(played)
      t.strictSame(brokenDemands(played, minute), [])
    })
  }
  const span = { from, to: Date.now() }
  t.comment(tableOfAlerts(all, minute))

  await t.test('every query of the dashboard has numbers, and they change', async t => {
    const shown = await show(prometheus, span)
    t.comment(tableOfPanels(shown))
    for (const each of shown) {
      const { points, min, max } = extentOf(each)
      t.ok(points > 0 && (min < max || RARE.includes(each.panel)), `${each.panel}: ${points} points`)
    }
  })

  await t.test('where nothing was decided without the store, that is shown as 0', async t => {
    const shown = await show(prometheus, span, 'crowded')
    const { points, max } = extentOf(shown.find(({ panel }) => panel === 'Without the store')!)
    t.ok(points > 0 && max === 0, `${points} points`)
  })

  await t.test('every rule is evaluated without errors, and jobs can be chosen', async t => {
    for (const { name, health } of await prometheus.rules()) t.equal(health, 'ok', name)
    t.strictSame(await prometheus.valuesOf('job', 'fastify_quota_store_up'), ['api', 'crowded'])
  })

  await t.test('promtool has nothing to say against the metrics', async t => {
    for (const { port, instance } of stage.targets) {
      const scrape = await fetch(`http://127.0.0.1:${port}/metrics`)
      t.equal(await promtool(['check', 'metrics'], await scrape.text()), '', instance)
    }
  })
}
