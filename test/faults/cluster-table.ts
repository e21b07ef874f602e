import { FAULTS, NODE_TIMEOUT, play, table } from '../cluster/scenes.js'
import type { Row } from '../cluster/scenes.js'
import { LAYOUTS, started } from '../cluster/kit.js'

// Run by `npm run faults`: shows what a cluster's faults do to requests.

const endings: (() => unknown)[] = []
const owner = { teardown: (work: () => unknown): unknown => endings.push(work) }

try {
  const cluster = await started(owner, { nodeTimeout: NODE_TIMEOUT })
  const rows: Row[] = []
  for (const layout of LAYOUTS) {
    for (const fault of FAULTS) rows.push(...(await play(owner, cluster, { layout, fault })))
  }
  console.log(table(rows))
  if (rows.some(({ problems }) => problems.length > 0)) process.exitCode = 1
} finally {
  for (const end of endings.reverse()) await end()
}
