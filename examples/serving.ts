import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * Serves an app on the port in `PORT`, by default 3000, or on a free one if another program has it, while `work` is done.
 * SIGINT and SIGTERM end it: `stop` aborts, and the app is closed.
 */
export async function serving(
  build: () => Promise<FastifyInstance>,
  work: (origin: string, stop: AbortSignal) => Promise<void>
): Promise<void> {
  const stop = new AbortController()
  const stopped = once(stop.signal, 'abort')
  process.once('SIGINT', () => stop.abort())
  process.once('SIGTERM', () => stop.abort())

  /* c8 ignore next: tests choose a port */
  const app = await listening(build, Number(process.env['PORT'] || 3000))
  const { port } = app.server.address() as AddressInfo
  try {
    await Promise.race([stopped, work(`http://127.0.0.1:${port}`, stop.signal)])
  } finally {
    await app.close()
  }
}

async function listening(build: () => Promise<FastifyInstance>, port: number): Promise<FastifyInstance> {
  const app = await build()
  try {
    await app.listen({ port, host: '127.0.0.1' })
    return app
  } catch (error) {
    await app.close()
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    console.log(`Port ${port} is taken: another one will do.`)
    return listening(build, 0)
  }
}
