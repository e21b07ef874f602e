import t from 'tap'
import { checkCounts, run } from './fixtures/load/run.js'

t.setTimeout(120_000)

// A small one; `npm run test:long` has the large one.
checkCounts(t, await run(t, { seconds: 2, warmUp: 0, partitions: 5000 }))
