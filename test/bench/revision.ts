import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isDeepStrictEqual, promisify } from 'node:util'
import { show } from '../../src/options.js'
import type { Owner } from '../redis/servers.js'
import { UsageError } from './command-line.js'

const execute = promisify(execFile)

/** What a command prints. */
async function run(folder: string, program: string, ...args: readonly string[]): Promise<string> {
  return (await execute(program, args, { cwd: folder })).stdout.trim()
}

/**
 * Builds another revision in a folder of its own, which goes with its owner.
 * @param here The folder of the project, a URL with `/` at its end.
 * @returns The folder, likewise.
 * @throws UsageError for what is no revision.
 */
export async function built(owner: Owner, here: string, revision: string): Promise<string> {
  const project = fileURLToPath(here)
  const commit = await commitOf(project, revision)
  const parent = mkdtempSync(join(tmpdir(), 'fastify-quota-bench-'))
  const folder = join(parent, 'tree')
  owner.teardown(() => rmSync(parent, { recursive: true, force: true }))
  await run(project, 'git', 'worktree', 'add', '--quiet', '--detach', folder, commit)
  owner.teardown(() => run(project, 'git', 'worktree', 'remove', '--force', folder))
  await provide(project, folder)
  // What is measured with is built already, and is that of this tree.
  writeFileSync(join(folder, CONFIG), JSON.stringify({ extends: './tsconfig.json', include: ['src'] }))
  await run(folder, process.execPath, join(folder, COMPILER), '-p', CONFIG)
  return `${pathToFileURL(folder).href}/`
}

const CONFIG = 'tsconfig.bench.json'
const COMPILER = 'node_modules/typescript/lib/tsc.js'

async function commitOf(project: string, revision: string): Promise<string> {
  const name = `${revision}^{commit}`
  try {
    return await run(project, 'git', 'rev-parse', '--verify', '--quiet', '--end-of-options', name)
  } catch {
    throw new UsageError(
      `--compare must be a revision of this repository, such as HEAD~1 or main, got ${show(revision)}`
    )
  }
}

/** Gives a tree what it depends on: what is installed here, if it wants the same. */
async function provide(project: string, folder: string): Promise<void> {
  if (isDeepStrictEqual(dependenciesOf(project), dependenciesOf(folder))) {
    symlinkSync(join(project, 'node_modules'), join(folder, 'node_modules'))
  } else {
    await run(folder, 'npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund')
  }
}

function dependenciesOf(folder: string): unknown {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
  return manifest['dependencies']
}
