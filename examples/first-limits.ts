import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import type { FastifyInstance } from 'fastify'
import { build } from './first-limits/app.js'
import { drive } from './first-limits/drive.js'

/*
 * Starts the API of first-limits/app.ts, sends it a few dozen requests over HTTP, shows what they were told, and then
 * serves on for you. `--once` ends after the requests.
 */

const port = Number(process.env['PORT'] || 3000)
const { values: options } = parseArgs({ options: { once: { type: 'boolean', default: false } } })

const stop = new AbortController()
const stopped = once(stop.signal, 'abort')
process.once('SIGINT', () => stop.abort())
process.once('SIGTERM', () => stop.abort())

const app = await listening(port)
const origin = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`

try {
  await Promise.race([stopped, show()])
} finally {
  await app.close()
}

async function show(): Promise<void> {
  console.log(`An API with limits listens on ${origin}. Here are some requests, and what it answers.`)
  await drive(origin, stop.signal, console.log)
  if (options.once) return
  console.log(invitation())
  await stopped
}

/** The API on this port, or on a free one if another program has it. */
async function listening(port: number): Promise<FastifyInstance> {
  const app = await build()
  try {
    await app.listen({ port, host: '127.0.0.1' })
    return app
  } catch (error) {
    await app.close()
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    console.log(`Port ${port} is taken: another one will do.`)
    return listening(0)
  }
}

function invitation(): string {
  return `
It goes on serving. Try, in another terminal:

  curl -i ${origin}/items
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code}\\n' ${origin}/items; done
  curl -i ${origin}/export
  curl -i -X POST ${origin}/login
  curl -i -H 'x-user: alice' ${origin}/me

Ctrl-C ends it.`
}
