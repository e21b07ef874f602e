import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './packed.js'

/** What the README says it costs to install the package. Sizes are in bytes. */
interface Budget {
  readonly dependencies: number
  /** The dependencies, and all that they depend on. */
  readonly packages: number
  readonly packed: number
  readonly unpacked: number
  /** What is added to a project that has Fastify. */
  readonly added: number
}

const STATED =
  /(\d+)\s+run-time\s+dependencies,\s+(\d+)\s+packages\s[^]*?([\d.]+)\s+kB\s+to\s+download[^]*?([\d.]+)\s+MB\s+unpacked[^]*?([\d.]+)\s+MB/

export const budget: Budget = stated()

function stated(): Budget {
  const found = STATED.exec(readFileSync(join(root, 'README.md'), 'utf8'))
  if (found === null) throw new Error('README.md does not say what it costs to install the package')
  const [dependencies, packages, packed, unpacked, added] = found.slice(1).map(Number)
  return {
    dependencies: dependencies!,
    packages: packages!,
    packed: packed! * 1e3,
    unpacked: unpacked! * 1e6,
    added: added! * 1e6
  }
}
