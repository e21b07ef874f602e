import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { isOnPath } from '../installing.js'

const count = availableParallelism()
const canPin = process.platform === 'linux' && count > 1 && isOnPath('taskset')

/** Where processes run: what is measured has one core, and what asks it has another. */
const CORES = { measured: '0', asking: '1', all: `0-${count - 1}` } as const

export type Cores = 'measured' | 'asking' | 'all'

type Command = readonly [string, ...string[]]

/** A command that runs on some cores, where the system can be told. */
export function pinned(cores: Cores, command: Command): Command {
  return canPin ? ['taskset', '-c', CORES[cores], ...command] : command
}

/** Moves a process that runs, with all its threads, to some cores, where the system can be told. */
export async function pin(cores: Cores, pid: number): Promise<void> {
  if (canPin) await promisify(execFile)('taskset', ['-a', '-c', '-p', CORES[cores], String(pid)])
}
