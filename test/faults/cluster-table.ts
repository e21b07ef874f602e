import { FAULTS, NODE_TIMEOUT, play } from '../cluster/scenes.js'
import { LAYOUTS, started } from '../cluster/kit.js'
import { heading, lines } from '../cluster/report.js'

// Shows what faults of a cluster do to requests. Ends with 1 if a demand was not met.

const endings: (() => unknown)[] = []
const owner = { teardown: (work: () => unknown): unknown => endings.push(work) }

try {
  const cluster = await started(owner, { nodeTimeout: NODE_TIMEOUT })
  console.log(heading)
  for (const layout of LAYOUTS) {
    for (const fault of FAULTS) {
      const rows = await play(owner, cluster, { layout, fault })
      console.log(lines(rows))
      if (rows.some(({ problems }) => problems.length > 0)) process.exitCode = 1
    }
  }
} finally {
  for (const end of endings.toReversed()) await end()
}
