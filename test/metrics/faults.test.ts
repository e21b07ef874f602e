import { readFileSync } from 'node:fs'
import t from 'tap'
import { needsRedis } from '../faults/kit.js'
import { watchFaults } from './faults.js'
import { noPrometheus, planInstall } from './install.js'
import { promtool } from './prometheus.js'
import { scenes } from './scenes.js'
import { ALERTS, ALERTS_TESTS } from './watching.js'

t.setTimeout(180_000)

const skip = noPrometheus()

t.test('promtool has nothing to say against the alerts, and their tests pass', { skip }, async t => {
  t.match(await promtool(['check', 'rules', ALERTS]), /SUCCESS: 7 rules found/)
  t.match(await promtool(['test', 'rules', ALERTS_TESTS]), /SUCCESS/)
})

/** Enough for each alert and each panel; all others are in a long test. */
const few = scenes.filter(({ name }) => /^(down at boot|60 ms|a command|more)/.test(name))

t.test('dashboard and alerts while things go wrong', { skip: skip || needsRedis.skip }, t =>
  watchFaults(t, few, 400)
)

t.test('among these, something goes wrong for each alert', async t => {
  const alerts = [...readFileSync(ALERTS, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
  const expected = few.flatMap(scene => scene.alerts.map(alert => alert.split(' ')[0]))
  t.strictSame(new Set(expected), new Set(alerts))
})

t.test('Prometheus is installed where it is missing and that can be done', async t => {
  const machine = { isRoot: true, hasApt: true }
  t.equal(planInstall(true, machine), 'nothing')
  t.strictSame(planInstall(false, machine), { packages: ['prometheus'] })
})
