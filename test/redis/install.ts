import { spawnSync } from 'node:child_process'
import { aptInstall, isOnPath, isProgram, planPackages, thisMachine } from '../installing.js'
import type { Machine, Plan } from '../installing.js'
import { PROGRAMS, hasRedis } from './servers.js'
import type { Program } from './servers.js'

const PACKAGES: Readonly<Record<Program, string>> = {
  'redis-server': 'redis-server',
  'redis-sentinel': 'redis-sentinel',
  'redis-cli': 'redis-tools'
}

const EXPLANATION =
  'The tests need redis-server 6.2 or later on the PATH: install it with your package manager, such as ' +
  '`apt-get install redis-server redis-sentinel` or `brew install redis`, and run npm test again.\n'

/** What has to be done on a machine that has some of the programs. */
export function planInstall(found: readonly Program[], machine: Machine): Plan {
  const missing = PROGRAMS.filter(program => !found.includes(program))
  return planPackages(
    missing.map(program => PACKAGES[program]),
    machine
  )
}

/** Whether the programs are there in the end. */
function prepare(): boolean {
  const plan = planInstall(PROGRAMS.filter(isOnPath), thisMachine())
  if (plan === 'nothing') return true
  return plan !== 'explain' && install(plan.packages)
}

function install(packages: readonly string[]): boolean {
  const said = aptInstall(packages)
  // Some systems start a service as soon as it is installed. The tests start their own.
  for (const service of packages.filter(isOnPath))
    spawnSync('service', [service, 'stop'], { stdio: 'ignore', timeout: 30_000 })
  if (!hasRedis()) process.stderr.write(said)
  return hasRedis()
}

if (isProgram(import.meta) && !prepare()) {
  process.stderr.write(EXPLANATION)
  process.exitCode = 1
}
