import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { Report } from './report.js'

const TABLE = fileURLToPath(new URL('table.js', import.meta.url))

const table = (...args: readonly string[]): Promise<{ readonly stdout: string; readonly stderr: string }> =>
  promisify(execFile)(process.execPath, [TABLE, ...args])

t.test('a command line that nobody can follow ends with 2, and prints what would do', async t => {
  await t.rejects(table('--ony', 'P1'), {
    code: 2,
    stdout: '',
    stderr: /^bench: unknown option "--ony" with the value "P1"; did you mean "--only"\?\n\nnpm run bench -- /
  })
  await t.rejects(table('--compare', 'nowhere/at-all'), { code: 2, stderr: /got "nowhere\/at-all"/ })
})

t.test('JSON alone is on the standard output, and progress beside it', async t => {
  const { stdout, stderr } = await table('--json', '--only', 'P4', '--rounds', '3')
  const { rounds, results, twins } = JSON.parse(stdout) as Report
  t.equal(rounds, 3)
  t.match(results, [{ name: 'P4', unit: 'ns CPU', ours: Number, rival: Number, ratio: Number }])
  t.match(twins, [{ stage: 'loops', ratio: Number }])
  t.equal(stderr, 'loops: 4 to be measured\n')
})
