import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { Connections } from './connections.js'
import type { Answer, Outgoing, World } from './world.js'

export interface RealWorldOptions {
  /** Requests at the same time; more wait for a connection. */
  readonly connections: number
  /** Milliseconds without an answer after which a request has failed. */
  readonly patience: number
  readonly signal: AbortSignal | undefined
}

/** Milliseconds that a burst takes to be counted, before that was seen. */
const PRECISION = 20

/** Characters of a body that are looked at. */
const LONGEST_BODY = 16_384

/** Milliseconds by which timers are late; the rest of the time is spent turning. */
const TIMER_SLIP = 2

/** A longer sleep would overflow a timer. */
const LONGEST_SLEEP = 2 ** 31 - 1

/** Real time, and a server at an origin such as `http://127.0.0.1:3000`. */
export function realWorld(origin: string, { connections, patience, signal }: RealWorldOptions): World {
  const opened = new Connections(origin)
  const pool = new Pool(origin, {
    connections,
    connect: opened.connect,
    headersTimeout: patience,
    bodyTimeout: patience
  })
  const now = (): number => performance.timeOrigin + performance.now()
  return {
    now,
    until: async time => {
      for (let early = time - now(); early > TIMER_SLIP; early = time - now()) {
        await sleep(Math.min(early - TIMER_SLIP, LONGEST_SLEEP), undefined, signal && { signal })
      }
      // Answers are read between bursts even if all of them are late.
      do await nextTurn()
      while (now() < time)
      signal?.throwIfAborted()
    },
    warm: count => {
      const { free, connected } = pool.stats
      return opened.warm(Math.min(count - free, connections - connected))
    },
    send: request => new Promise(resolve => pool.dispatch(wire(request), new Listener(now, resolve))),
    precision: PRECISION,
    // Many servers count whole milliseconds, and two clocks that are being corrected differ by 1 in 2000 at most.
    tolerance: window => 1 + window / 2000,
    close: async () => {
      opened.close()
      await pool.destroy()
    }
  }
}

function wire({ method, path, headers, body }: Outgoing): Dispatcher.DispatchOptions {
  return { method, path, headers: { ...headers }, body: body ?? null }
}

/** Takes the times of a request as near to the wire as they can be had, and the beginning of the body. */
class Listener implements Dispatcher.DispatchHandler {
  readonly #now: () => number
  readonly #resolve: (answer: Answer) => void
  #sent: number
  #arrived = 0
  #status: number | undefined
  #fields: Readonly<Record<string, string>> = {}
  #body = ''

  constructor(now: () => number, resolve: (answer: Answer) => void) {
    this.#now = now
    this.#resolve = resolve
    this.#sent = now()
  }

  /** It has a connection, and is written to it next. */
  onRequestStart(): void {
    this.#sent = this.#now()
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>
  ): void {
    // 103 and the like say nothing of the limiter.
    if (status < 200) return
    this.#arrived = this.#now()
    this.#status = status
    this.#fields = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')])
    )
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#body.length < LONGEST_BODY) this.#body += chunk.toString('utf8')
  }

  onResponseEnd(): void {
    this.#end(undefined)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#status === undefined) this.#arrived = this.#now()
    this.#end(this.#status === undefined ? error.message : undefined)
  }

  #end(failure: string | undefined): void {
    this.#resolve({
      sent: this.#sent,
      arrived: this.#arrived,
      status: this.#status,
      fields: this.#fields,
      body: this.#body.slice(0, LONGEST_BODY),
      failure
    })
  }
}
