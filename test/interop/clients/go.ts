import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Client } from '../client.js'
import { Program } from '../program.js'

const run = promisify(execFile)
const source = fileURLToPath(new URL('../../../../test/interop/clients/call.go', import.meta.url))

/** Where Debian puts the library, and what it calls it. */
const SOURCES = '/usr/share/gocode'
const DEBIAN = 'golang-github-hashicorp-go-retryablehttp-dev'

let program: Program | undefined

/** Builds it; without Go or the library there is none. */
async function find(): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'interop-go-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  const file = join(folder, 'call')
  try {
    await run('go', ['build', '-o', file, source], {
      env: { ...process.env, GO111MODULE: 'off', GOPATH: SOURCES }
    })
    const { stdout } = await run('dpkg-query', ['-W', '-f', '${source:Upstream-Version}', DEBIAN])
    program = new Program(file)
    return stdout
  } catch {
    return undefined
  }
}

export const retryableHttp: Client = {
  name: 'Go retryablehttp',
  packages: [],
  find,
  reads: ['Retry-After'],
  legacy: false,
  call: async (url, signal) => program!.call(url, signal)
}
