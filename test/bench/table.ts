import type { Owner } from '../redis/servers.js'
import { readCommandLine, USAGE, UsageError } from './command-line.js'
import { pin } from './pinning.js'
import { inProcesses } from './processes.js'
import { asJson, asText } from './report.js'
import { rows } from './rows/index.js'
import { profiles, profilesAsText } from './profile.js'
import { HERE, ownRedis, run } from './run.js'
import type { Terms } from './run.js'

/*
 * Measures what quotas cost, beside what others take for less, and prints a table. All that is said of speed is a ratio of
 * things that were measured in the same run.
 */

/** What is measured runs long enough to tell, and so short that all has its turn within a moment. */
const FULL: Terms['effort'] = { warmUp: 20, slice: 2000, batch: 12, watch: 5000, partitions: 1_000_000 }

const endings: (() => unknown)[] = []
const owner: Owner = { teardown: work => endings.push(work) }
try {
  const wish = readCommandLine(process.argv.slice(2), rows)
  await pin('asking', process.pid)
  if (wish.profile) {
    const effort = { ...FULL, rounds: wish.rounds, redis: await ownRedis(owner) }
    const found = await profiles(effort, HERE.root, inProcesses)
    process.stdout.write(wish.json ? asJson(found) : profilesAsText(found))
  } else {
    const report = await run(wish, {
      effort: FULL,
      hire: inProcesses,
      tell: line => process.stderr.write(`${line}\n`),
      owner
    })
    process.stdout.write(wish.json ? asJson(report) : asText(report))
  }
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`bench: ${error.message}\n\n${USAGE}`)
  process.exitCode = 2
} finally {
  for (const end of endings.toReversed()) await end()
}
