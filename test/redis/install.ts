import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { PROGRAMS, hasRedis, isOnPath } from './servers.js'
import type { Program } from './servers.js'

// Run before the tests: sees that what they start is there, and gets it where that can be done without asking.

export interface Machine {
  /** Those of the programs that it has. */
  readonly found: readonly Program[]
  readonly isRoot: boolean
  readonly hasApt: boolean
}

export type Plan = 'nothing' | 'explain' | { readonly packages: readonly string[] }

const PACKAGES: Readonly<Record<Program, string>> = {
  'redis-server': 'redis-server',
  'redis-sentinel': 'redis-sentinel',
  'redis-cli': 'redis-tools'
}

const EXPLANATION =
  'The tests need redis-server 6.2 or later on the PATH: install it with your package manager, such as ' +
  '`apt-get install redis-server redis-sentinel` or `brew install redis`, and run npm test again.\n'

/** What has to be done on a machine before the tests. */
export function planInstall({ found, isRoot, hasApt }: Machine): Plan {
  const missing = PROGRAMS.filter(program => !found.includes(program))
  if (missing.length === 0) return 'nothing'
  return isRoot && hasApt ? { packages: missing.map(program => PACKAGES[program]) } : 'explain'
}

/** Whether the programs are there in the end. */
function prepare(): boolean {
  const plan = planInstall({
    found: PROGRAMS.filter(isOnPath),
    isRoot: process.getuid?.() === 0,
    hasApt: isOnPath('apt-get')
  })
  if (plan === 'nothing') return true
  return plan !== 'explain' && install(plan.packages)
}

function install(packages: readonly string[]): boolean {
  const update = apt(120, 'update')
  const outcome = apt(300, 'install', '-y', '--no-install-recommends', ...packages)
  // Some systems start a service as soon as it is installed. The tests start their own.
  for (const service of packages.filter(isOnPath))
    spawnSync('service', [service, 'stop'], { stdio: 'ignore', timeout: 30_000 })
  if (!hasRedis()) process.stderr.write(update + outcome)
  return hasRedis()
}

/** What it said. */
function apt(seconds: number, ...args: string[]): string {
  const { stdout, stderr, error } = spawnSync('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=60', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: seconds * 1000,
    maxBuffer: 2 ** 26
  })
  return `${stdout}${stderr}${error === undefined ? '' : `${error.message}\n`}`
}

if (import.meta.filename === realpathSync(process.argv[1] ?? '') && !prepare()) {
  process.stderr.write(EXPLANATION)
  process.exitCode = 1
}
