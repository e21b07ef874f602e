import { aptInstall, isProgram, planPackages, thisMachine } from '../installing.js'
import type { Machine, Plan } from '../installing.js'
import { findChromium } from './program.js'

const EXPLANATION =
  'The tests in a browser need Chromium on the PATH and are skipped without it, unless CI is set: install it with your ' +
  'package manager, such as `apt-get install chromium`.\n'

/** What has to be done on a machine that has this program, or none. */
export function planInstall(found: string | undefined, machine: Machine): Plan {
  return planPackages(found === undefined ? ['chromium'] : [], machine)
}

/** Whether there is a browser in the end. */
function prepare(): boolean {
  const plan = planInstall(findChromium(), thisMachine())
  if (plan === 'nothing') return true
  return plan !== 'explain' && install(plan.packages)
}

function install(packages: readonly string[]): boolean {
  const said = aptInstall(packages)
  const found = findChromium() !== undefined
  if (!found && process.env['CI']) process.stderr.write(said)
  return found
}

if (isProgram(import.meta) && !prepare()) {
  process.stderr.write(EXPLANATION)
  if (process.env['CI']) process.exitCode = 1
}
