import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './packed.js'

/** The README's first example as a reader pastes it, and what it says that is answered. */
interface FirstExample {
  /** A program: the example on a free port, then a client that prints what it is answered. */
  readonly program: string
  readonly fields: Readonly<Record<string, string>>
  readonly body: string
}

/** What the program prints. */
export interface Printed {
  readonly status: number
  readonly fields: Readonly<Record<string, string>>
  readonly body: string
}

/** Fields that are no other on another day. */
const OF_QUOTA = /^(?:ratelimit(?:-policy)?|content-type): (.*)$/gm

const CLIENT = `
const address = app.server.address()
if (address === null || typeof address === 'string') throw new Error('it does not listen')
const response = await fetch(\`http://127.0.0.1:\${address.port}\`)
const fields = Object.fromEntries(response.headers)
console.log(JSON.stringify({ status: response.status, fields, body: await response.text() }))
await app.close()
`

export function firstExample(): FirstExample {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, code = ''] = /^```ts\n(.*?)^```$/ms.exec(readme) ?? []
  const [, answer = ''] = /^```http\n(.*?)^```$/ms.exec(readme) ?? []
  if (!code.includes('port: 3000'))
    throw new Error('the first example of README.md does not listen on port 3000')
  const [head = '', body = ''] = answer.trimEnd().split('\n\n')
  const fields = [...head.matchAll(OF_QUOTA)].map(([field]) => field.split(/: (.*)/) as [string, string])
  return {
    // Another program may have the port.
    program: `${code.replace('port: 3000', "port: 0, host: '127.0.0.1'")}${CLIENT}`,
    fields: Object.fromEntries(fields),
    body
  }
}
