import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './packed.js'

/** The README's first example as a reader pastes it, and what it says that `curl -i` shows. */
interface FirstExample {
  /** The example on a free port, and `curl -i`, whose output it prints: an ES module, and TypeScript. */
  readonly program: string
  /** The same for CommonJS, with `require`. */
  readonly required: string
  /** Lines of the answer, as {@link shown} gives them. */
  readonly answer: readonly string[]
}

const CURL = `
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
const address = app.server.address()
if (address === null || typeof address === 'string') throw new Error('it does not listen')
const { stdout } = await promisify(execFile)('curl', ['-s', '-i', \`http://127.0.0.1:\${address.port}\`])
console.log(stdout)
await app.close()
`

export function firstExample(): FirstExample {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, code = ''] = /^```ts\n(.*?)^```$/ms.exec(readme) ?? []
  const [, answer = ''] = /^```http\n(.*?)^```$/ms.exec(readme) ?? []
  if (!code.includes('port: 3000'))
    throw new Error('the first example of README.md does not listen on port 3000')
  // Another program may have the port.
  const program = `${code.replace('port: 3000', "port: 0, host: '127.0.0.1'")}${CURL}`
  const body = program.replaceAll(/^import (.+) from ('.+')$/gm, 'const $1 = require($2)')
  return { program, required: `async function main() {\n${body}}\nmain()\n`, answer: shown(answer) }
}

/** The lines of an answer, without the fields that are others on another day. */
export function shown(answer: string): readonly string[] {
  return answer
    .trim()
    .split(/\r?\n/)
    .filter(line => !/^(?:Date|Connection|Keep-Alive): /.test(line))
}
