import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Client } from '../client.js'
import { Program } from '../program.js'

const run = promisify(execFile)
const script = fileURLToPath(new URL('../../../../test/interop/clients/call.py', import.meta.url))

/** The interpreter itself, for what stands in the path may be a script that looks for it, and the two versions. */
type Found = readonly [executable: string, urllib3: string, requests: string]

let found: Promise<Found | undefined> | undefined

async function look(): Promise<Found | undefined> {
  try {
    const { stdout } = await run('python3', [script, 'version'])
    return stdout.trim().split(' ') as unknown as Found
  } catch {
    return undefined
  }
}

async function find(): Promise<Found | undefined> {
  found ??= look()
  return found
}

function python(name: string, library: 'urllib3' | 'requests'): Client {
  let program: Program | undefined
  return {
    name,
    packages: [],
    find: async () => {
      const [executable, ...versions] = (await find()) ?? []
      if (executable === undefined) return undefined
      program = new Program(executable, script, library)
      return versions[library === 'urllib3' ? 0 : 1]
    },
    reads: ['Retry-After'],
    legacy: false,
    call: async (url, signal) => program!.call(url, signal)
  }
}

export const urllib3: Client = python('Python urllib3', 'urllib3')

export const requests: Client = python('Python requests with Retry', 'requests')
