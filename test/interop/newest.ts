import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { clients } from './clients/index.js'

/** The first Node.js that the newest versions of all clients run on. */
const NODE = 'node@24'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Installs the newest version of every client in a folder of its own, and compares them there. */
export async function runNewest(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'interop-newest-'))
  try {
    for (const part of ['dist/test/interop', 'test/interop']) {
      cpSync(join(root, part), join(folder, part), { recursive: true })
    }
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
    const packages = new Set(clients.flatMap(client => client.packages))
    const newest = [...packages].map(name => `${name}@latest`)
    const installed = await run(folder, 'npm', 'install', '--no-audit', '--no-fund', 'fastify@5', ...newest)
    if (installed !== 0) return installed
    symlinkSync(root, join(folder, 'node_modules', 'fastify-quota'))
    return await run(folder, 'node', join('dist', 'test', 'interop', 'table.js'))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Runs a program under that Node.js, where people see what it prints. */
function run(cwd: string, ...command: readonly string[]): Promise<number> {
  const child = spawn('npx', ['-y', '-p', NODE, ...command], { cwd, stdio: 'inherit' })
  return once(child, 'exit').then(([code]) => Number(code ?? 1))
}
