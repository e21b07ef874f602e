import t from 'tap'
import { noPrometheus, planInstall } from './install.js'
import { promtool } from './prometheus.js'
import { scenes } from './scenes.js'
import { ALERTS, ALERTS_TESTS } from './watching.js'
import { watch } from './watched.js'

t.setTimeout(180_000)

const skip = noPrometheus()

t.test('promtool has nothing to say against the alerts, and their tests pass', { skip }, async t => {
  t.match(await promtool(['check', 'rules', ALERTS]), /SUCCESS: 7 rules found/)
  t.match(await promtool(['test', 'rules', ALERTS_TESTS]), /SUCCESS/)
})

/** Enough for each alert and each panel; all others are in a long test. */
const ENOUGH = /^(down at boot|60 ms|a command|more)/

t.test('dashboard and alerts while things go wrong', { skip }, t =>
  watch(
    t,
    scenes.filter(({ name }) => ENOUGH.test(name)),
    400
  )
)

t.test('Prometheus is installed where it is missing and that can be done', async t => {
  const machine = { isRoot: true, hasApt: true }
  t.equal(planInstall(true, machine), 'nothing')
  t.strictSame(planInstall(false, machine), { packages: ['prometheus'] })
})
