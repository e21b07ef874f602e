import t from 'tap'
import { checkCounts, checkMemory, run, table } from '../fixtures/load/run.js'

t.setTimeout(600_000)

const seconds = Number(process.env['LOAD_SECONDS'] ?? 30)
const done = await run(t, { seconds, warmUp: 3, partitions: 100_000 })
t.comment(table(done))
checkCounts(t, done)
checkMemory(t, done)
