import { spawnSync } from 'node:child_process'
import { aptInstall, isOnPath, isProgram, planPackages, thisMachine } from '../installing.js'
import type { Machine, Plan } from '../installing.js'

/** One package has both. */
const PROGRAMS = ['prometheus', 'promtool'] as const

const EXPLANATION =
  'The tests in a Prometheus need prometheus and promtool on the PATH and are skipped without them: install them with ' +
  'your package manager, such as `apt-get install prometheus`.\n'

const hasPrometheus = (): boolean => PROGRAMS.every(isOnPath)

/** Why there is nothing to test with; `false`: there is. */
export const noPrometheus = (): string | false =>
  hasPrometheus() ? false : 'prometheus and promtool are not on the PATH: apt-get install prometheus'

/** What has to be done on a machine that has these programs, or lacks one. */
export const planInstall = (found: boolean, machine: Machine): Plan =>
  planPackages(found ? [] : ['prometheus'], machine)

/** Whether the programs are there in the end. */
function prepare(): boolean {
  const plan = planInstall(hasPrometheus(), thisMachine())
  if (plan === 'nothing') return true
  return plan !== 'explain' && install(plan.packages)
}

function install(packages: readonly string[]): boolean {
  const wasThere = isOnPath(PROGRAMS[0])
  aptInstall(packages)
  // Some systems start a service as soon as it is installed. The tests start their own.
  if (!wasThere) spawnSync('service', ['prometheus', 'stop'], { stdio: 'ignore', timeout: 30_000 })
  return hasPrometheus()
}

if (isProgram(import.meta) && !prepare()) process.stderr.write(EXPLANATION)
