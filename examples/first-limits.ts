import { once } from 'node:events'
import { parseArgs } from 'node:util'
import type { FastifyInstance } from 'fastify'
import { build } from './first-limits/app.js'
import { drive } from './first-limits/drive.js'
import { playground } from './first-limits/playground.js'
import { serving } from './serving.js'

/*
 * Starts the API of first-limits/app.ts, sends it a few dozen requests over HTTP, shows what they were told, and then
 * serves on for you, with a playground at `/`. `--once` ends after the requests.
 */

const { values: options } = parseArgs({ options: { once: { type: 'boolean', default: false } } })

const withPlayground = async (): Promise<FastifyInstance> => {
  const app = await build()
  await app.register(playground)
  return app
}

await serving(withPlayground, async (origin, stop) => {
  console.log(`An API with limits listens on ${origin}. Here are some requests, and what it answers.`)
  await drive(origin, stop, console.log)
  if (options.once) return
  console.log(invitation(origin))
  await once(stop, 'abort')
})

function invitation(origin: string): string {
  return `
It goes on serving. Try, in another terminal:

  curl -i ${origin}/items
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code}\\n' ${origin}/items; done
  curl -i ${origin}/export
  curl -i -X POST ${origin}/login
  curl -i -H 'x-user: alice' ${origin}/me

Or attack a quota of your choice, and watch: ${origin}/

Ctrl-C ends it.`
}
