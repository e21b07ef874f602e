import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { MUTANTS } from '../fuzz/mutants.js'
import type { Mutant } from '../fuzz/mutants.js'

/*
 * Whether the fuzz suite can fail: each fault, put into a copy of what was built, has to be found by the file of its surface,
 * which finds nothing without it.
 */

t.setTimeout(3_600_000)

const root = fileURLToPath(new URL('../../../', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'fastify-quota-mutants-'))
t.teardown(() => rmSync(copy, { recursive: true, force: true, maxRetries: 3 }))
for (const name of ['dist', 'package.json']) cpSync(join(root, name), join(copy, name), { recursive: true })
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))

/** Enough inputs for all of the faults, whatever the seed. */
const RUNS = process.env['MUTANT_RUNS'] ?? '2000'

/** Milliseconds; a fault may be that something never ends. */
const PATIENCE = 300_000

interface Run {
  readonly found: boolean
  readonly output: string
}

function fuzz(file: Mutant['found']): Promise<Run> {
  const program = join(copy, `dist/test/fuzz/${file}.test.js`)
  const child = spawn(process.execPath, [program], {
    cwd: copy,
    env: {
      ...process.env,
      QUOTA_TEST_RUNS: RUNS,
      TAP_BAIL: '1',
      NODE_NO_WARNINGS: '1',
      NODE_V8_COVERAGE: ''
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += String(data)))
  const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => {
      clearTimeout(timer)
      resolve({ found: code !== 0, output })
    })
  })
}

for (const file of new Set(MUTANTS.map(({ found }) => found))) {
  t.test(`${file} finds nothing in the source as it is`, async t => {
    const { found, output } = await fuzz(file)
    t.notOk(found, output.slice(-3000))
  })
}

for (const { fault, file, text, replacement, found: name } of MUTANTS) {
  t.test(`${name} finds: ${fault}`, async t => {
    const path = join(copy, 'dist/src', file)
    const source = readFileSync(path, 'utf8')
    t.equal(
      source.split(text).length,
      2,
      `${file} has the text once: the source has changed, and so must the list`
    )
    writeFileSync(
      path,
      source.replace(text, () => replacement)
    )
    try {
      t.ok((await fuzz(name)).found)
    } finally {
      writeFileSync(path, source)
    }
  })
}
