import { spawnSync } from 'node:child_process'
import { accessSync, constants, realpathSync } from 'node:fs'
import { delimiter, join } from 'node:path'

// For what is run before the tests: it sees that the programs they start are there, and gets them where that can be done
// without asking.

export interface Machine {
  readonly isRoot: boolean
  readonly hasApt: boolean
}

export type Plan = 'nothing' | 'explain' | { readonly packages: readonly string[] }

export function thisMachine(): Machine {
  return { isRoot: process.getuid?.() === 0, hasApt: isOnPath('apt-get') }
}

/** What has to be done on a machine that lacks these packages. */
export function planPackages(missing: readonly string[], { isRoot, hasApt }: Machine): Plan {
  if (missing.length === 0) return 'nothing'
  return isRoot && hasApt ? { packages: missing } : 'explain'
}

/** Installs packages, and gives what was said meanwhile. Whether they are there is to be looked at. */
export function aptInstall(packages: readonly string[]): string {
  return apt(120, 'update') + apt(300, 'install', '-y', '--no-install-recommends', ...packages)
}

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

export const isOnPath = (program: string): boolean => whereIs(program) !== undefined

/** The file that a program is. */
export function whereIs(program: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders
    .filter(folder => folder !== '')
    .map(folder => join(folder, program))
    .find(isExecutable)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Whether a module is the program that runs, not one that is imported. */
export const isProgram = ({ filename }: ImportMeta): boolean =>
  filename === realpathSync(process.argv[1] ?? '')
