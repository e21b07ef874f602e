import t from 'tap'
import { noPrometheus } from '../metrics/install.js'
import { scenes } from '../metrics/scenes.js'
import { watchFaults } from '../metrics/faults.js'

t.setTimeout(36_000_000)

/** Milliseconds for each minute of the rules; 60000: nothing is hastened, and it takes some hours. */
const minute = Number(process.env['METRICS_MINUTE'] ?? 2000)

t.test('dashboard and alerts while all that can go wrong does', { skip: noPrometheus() }, t =>
  watchFaults(t, scenes, minute)
)
