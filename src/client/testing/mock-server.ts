import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Script } from './script.js'
import type { Answer, AnswerName } from './script.js'

/** A request that came, and how it was answered. */
export interface MockRequest {
  /** Milliseconds since the server was started. */
  readonly at: number
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly answer: AnswerName
  readonly status: number
  /** Milliseconds by which it came before the wait was over that the last refusal had asked for; 0: it obeyed. */
  readonly early: number
}

/** A server that answers by a script. */
export interface MockServer {
  /** Where it listens, on this machine alone: `http://127.0.0.1:…`, without a path. */
  readonly url: string
  /** What came, in the order in which it had come in full. */
  readonly requests: readonly MockRequest[]
  /** Stops listening and ends all connections. */
  close(): Promise<void>
}

/**
 * Starts a server that refuses requests as a script says, one answer after the other, to see how a client backs off. When
 * the script is over all requests are served.
 *
 * @param script answers, by name or in full.
 * @throws {QuotaOptionError} when an answer is not what it has to be.
 */
export async function mockServer(script: readonly (AnswerName | Answer)[]): Promise<MockServer> {
  const answers = new Script(script)
  const requests: MockRequest[] = []
  const started = performance.now()
  let waitUntil = 0
  const answer = (at: number): { readonly sent: ReturnType<Script['next']>; readonly early: number } => {
    const early = Math.max(0, waitUntil - at)
    const sent = answers.next(at)
    if (sent.status !== 200) waitUntil = at + sent.wait
    return { sent, early }
  }
  const server = createServer((request, response) => {
    const at = performance.now() - started
    const { sent, early } = answer(at)
    const { method = '', url = '', headers } = request
    const record = { at, method, url, headers, answer: sent.answer, status: sent.status, early }
    void text(request).then(
      body => {
        requests.push({ ...record, body })
        response.writeHead(sent.status, sent.fields).end(sent.body)
      },
      () => response.destroy()
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}
