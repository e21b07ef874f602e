import { subscribe } from 'node:diagnostics_channel'
import type { StoreChange } from 'fastify-quota'
import { build } from './app.js'

/*
 * One of the processes of redis-two-processes.ts. It tells its parent where it serves and what happens to its store, and
 * ends with it.
 */

const app = await build()

subscribe('fastify-quota:store', message => {
  const { state, code } = message as StoreChange
  process.send?.({ state, code })
})

// What an earlier run has spent.
await app.quota.reset({ ip: '127.0.0.1' })

process.send?.({ origin: await app.listen({ port: 0, host: '127.0.0.1' }) })
process.once('disconnect', () => void app.close())
// Ctrl-C goes to all processes at once; the parent sees to the rest.
process.on('SIGINT', () => {})
