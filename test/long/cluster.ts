import t from 'tap'
import { LAYOUTS, started } from '../cluster/kit.js'
import { heading, lines } from '../cluster/report.js'
import { FAULTS, NODE_TIMEOUT, play } from '../cluster/scenes.js'
import type { Row } from '../cluster/scenes.js'

t.setTimeout(1_800_000)

const rounds = Number(process.env['CLUSTER_ROUNDS'] ?? 3)
const cluster = await started(t, { nodeTimeout: NODE_TIMEOUT })
const rows: Row[] = []

for (let round = 1; round <= rounds; round++) {
  for (const layout of LAYOUTS) {
    for (const fault of FAULTS) {
      t.test(`${fault}, ${layout}, round ${round}`, async t => {
        const played = await play(t, cluster, { layout, fault })
        rows.push(...played)
        for (const { mode, problems } of played) t.strictSame(problems, [], mode)
      })
    }
  }
}

t.test('what happened', async t => t.comment(`${heading}\n${lines(rows)}`))
