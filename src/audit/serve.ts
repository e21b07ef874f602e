import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { InjectableApp } from './virtual-world.js'

/** What an audit needs of an app of Fastify. */
export interface AuditableApp extends InjectableApp {
  ready(): PromiseLike<unknown>
  routing(request: IncomingMessage, response: ServerResponse): void
}

/** Milliseconds; as Fastify has it, so that connections outlast the idleness between attacks. */
const KEEP_ALIVE = 72_000

/** Serves an app, which may be listening elsewhere or not at all, on a free port of this machine. */
export async function serve(
  app: AuditableApp
): Promise<{ readonly origin: string; readonly close: () => Promise<void> }> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE }, (request, response) =>
    app.routing(request, response)
  )
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}
