import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const cwd = fileURLToPath(new URL('../../../', import.meta.url))

/** Runs a program in a process of its own, and gives the JSON that it printed when it has ended by itself. */
export function run(program: string): Promise<unknown> {
  const env = { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  const args = ['--expose-gc', '--input-type=module', '-e', program]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd, env, timeout: 90_000 }, (error, stdout) =>
      error === null ? resolve(JSON.parse(stdout)) : reject(new Error(error.message))
    )
  })
}
