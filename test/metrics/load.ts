import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'

/** Milliseconds between two looks at what is due. */
const TICK = 10

/** Of what is seldom asked: so many of the others come for one of it. */
const SELDOM = 30

/** Who asks: mostly somebody new, now and then the office, which is exempt, and one who asks for too much. */
const clientOf = (n: number): string =>
  n % SELDOM === 0 ? 'office' : n % SELDOM === SELDOM / 2 ? 'greedy' : `new ${n}`

/** Requests of all kinds to one app, so many of each in a second, whether they are answered or not. */
export class Load {
  /** Requests a second of each kind. */
  rate: number
  /** How many times as many come of what may be too much. */
  pressure = 1
  readonly #pool: Pool
  readonly #ask: (n: number, pressure: number) => void
  readonly #stop = new AbortController()
  readonly #running: Promise<void>

  private constructor(port: number, rate: number, ask: (load: Load, n: number) => void) {
    this.#pool = new Pool(`http://127.0.0.1:${port}`, { connections: 256 })
    this.rate = rate
    this.#ask = n => ask(this, n)
    this.#running = this.#run()
  }

  /** Requests to all routes. */
  static ofAll(port: number, rate: number): Load {
    return new Load(port, rate, (load, n) => {
      for (let i = 0; i < load.pressure; i++) {
        load.#send('/', clientOf(n * load.pressure + i))
        load.#send('/stream')
      }
      load.#send('/rows')
      load.#send('/bulk')
      if (n % SELDOM === 0) for (const path of ['/hold', '/forgive']) load.#send(path)
    })
  }

  /** Requests of more clients than there is room for: most come once, some spend all they have. */
  static ofCrowd(port: number): Load {
    return new Load(port, 0, (load, n) => {
      for (let i = 0; i < (n % 4 === 0 ? 5 : 1); i++) load.#send('/', `one of a crowd ${n}`)
    })
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
    await this.#pool.destroy()
  }

  async #run(): Promise<void> {
    let due = 0
    let sent = 0
    for (let last = performance.now(); !this.#stop.signal.aborted; await sleep(TICK)) {
      const now = performance.now()
      due += ((now - last) * this.rate) / 1000
      last = now
      while (sent < due) this.#ask(sent++, this.pressure)
    }
  }

  /** What becomes of it is what the app counts. */
  #send(path: string, client: string = 'somebody'): void {
    this.#pool
      .request({ method: 'GET', path, headers: { 'x-client': client } })
      .then(({ body }) => body.dump())
      .catch(() => {})
  }
}
