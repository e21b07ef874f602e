import { readCommandLine, USAGE, UsageError } from './command-line.js'
import type { Wish } from './command-line.js'
import { judge, twinsOf } from './judging.js'
import { measureAll, subjectsOf } from './measure.js'
import { pin } from './pinning.js'
import { asJson, asText } from './report.js'
import type { Report } from './report.js'
import { rows } from './rows/index.js'
import type { Effort } from './stage.js'
import { stages } from './stages.js'

/*
 * Measures what quotas cost, beside what others take for less, and prints a table. What is said of speed is a ratio of things
 * measured in the same run.
 */

/** What is measured runs long enough to tell, and so short that all has its turn within a moment. */
const FULL: Omit<Effort, 'rounds' | 'redis'> = { warmUp: 10, slice: 2000, batch: 12, partitions: 1_000_000 }

const HERE = new URL('../../../', import.meta.url).href

try {
  const wish = readCommandLine(process.argv.slice(2), rows)
  const report = await run(wish)
  process.stdout.write(wish.json ? asJson(report) : asText(report))
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`bench: ${error.message}\n\n${USAGE}`)
  process.exitCode = 2
}

async function run({ rows, rounds }: Wish): Promise<Report> {
  const start = performance.now()
  await pin('asking', process.pid)
  const commits = [{ mark: '', root: HERE }] as const
  const plan = new Map(stages.map(stage => [stage, subjectsOf(stage, rows, commits, 'with rivals')] as const))
  const findings = await measureAll(plan, { ...FULL, rounds, redis: undefined }, ({ name }, subjects) =>
    process.stderr.write(`${name}: ${subjects.length} to be measured\n`)
  )
  const twins = twinsOf(findings)
  const seconds = (performance.now() - start) / 1000
  const results = judge(rows, findings, twins)
  return { node: process.versions.node, rounds, seconds, twins, results, changes: [], notes: [] }
}
