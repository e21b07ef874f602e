import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

export const root: string = fileURLToPath(new URL('../../../', import.meta.url))

/** The package as npm would publish it. */
export interface Packed {
  /** The tarball. */
  readonly file: string
  /** Bytes of the tarball. */
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string; readonly size: number }[]
}

/** Packs what was built. */
export async function packed(t: Test): Promise<Packed> {
  const folder = emptyFolder(t)
  const listed = await run(root, 'npm', [
    'pack',
    '--json',
    '--ignore-scripts',
    `--pack-destination=${folder}`
  ])
  const [first] = Object.values(JSON.parse(listed) as Record<string, Packed & { readonly filename: string }>)
  const { filename, size, unpackedSize, files } = first!
  return { file: join(folder, filename), size, unpackedSize, files }
}

/** A project that is far from this one: it finds nothing but what is installed in it. */
export class Project {
  readonly folder: string

  constructor(t: Test) {
    this.folder = emptyFolder(t)
  }

  /** Installs packages as a user does. */
  async install(...packages: readonly string[]): Promise<void> {
    const flags = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error']
    await this.run('npm', ['install', ...flags, ...packages])
  }

  /** What a program prints; rejects with it if the program fails. */
  run(program: string, parameters: readonly string[]): Promise<string> {
    return run(this.folder, program, parameters)
  }
}

function emptyFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'fastify-quota-pack-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs a program on its own: tap hands its loaders to every process that a test starts, and `env` takes them away. */
function run(cwd: string, program: string, parameters: readonly string[]): Promise<string> {
  const own = ['-u', 'NODE_OPTIONS', '-u', 'NODE_V8_COVERAGE', 'NO_COLOR=1', program, ...parameters]
  return new Promise((resolve, reject) => {
    execFile('env', own, { cwd, timeout: 300_000, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`${program} ${parameters.join(' ')}\n${stdout}${stderr}`, { cause: error }))
    })
  })
}
