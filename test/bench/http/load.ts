import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** Connections at the same time, each with one request outstanding. */
const CONNECTIONS = 32

/** Keys are walked through by this step: all of them, and none soon after its neighbour. A prime. */
const STEP = 7919

const KEY = '00000000'
const HEAD_END = '\r\n\r\n'
const LENGTH = '\r\ncontent-length: '

/** Whom requests come from. */
export interface Traffic {
  readonly port: number
  readonly host: string
  /** Different values of the header `x-key`. */
  readonly keys: number
  /** Whether it looks for answers all the time. To wake somebody up takes the server's CPU, the more of it the slower it is. */
  readonly awake: boolean
}

/** Sends requests with keys by turns over connections that stay open, and reads as little of the answers as it may. */
export class Load {
  readonly #lines: readonly Line[]
  readonly #keys: number
  readonly #awake: boolean
  #sent = 0
  #left = 0

  private constructor(lines: readonly Line[], { keys, awake }: Traffic) {
    this.#lines = lines
    this.#keys = keys
    this.#awake = awake
  }

  static async open(traffic: Traffic): Promise<Load> {
    const lines = Array.from({ length: CONNECTIONS }, () => Line.open(traffic.port, traffic.host))
    return new Load(await Promise.all(lines), traffic)
  }

  /**
   * Sends so many requests, and resolves to the milliseconds they took.
   * @param status that all answers have to have, if not any will do
   */
  async send(count: number, status?: number): Promise<number> {
    const start = performance.now()
    this.#left = count
    let done = false
    const look = (): void => {
      if (!done) setImmediate(look)
    }
    if (this.#awake) look()
    try {
      await Promise.all(this.#lines.map(line => line.run(() => this.#next(), status)))
    } finally {
      done = true
    }
    return performance.now() - start
  }

  close(): void {
    for (const line of this.#lines) line.close()
  }

  /** The key of the next request; below 0: there is none. */
  #next(): number {
    if (this.#left === 0) return -1
    this.#left--
    return (this.#sent++ * STEP) % this.#keys
  }
}

/** One connection. */
class Line {
  readonly #socket: Socket
  /** Written over for each request, for the one before has been answered by then. */
  readonly #request: Buffer = Buffer.from(`GET / HTTP/1.1\r\nhost: bench\r\nx-key: ${KEY}${HEAD_END}`)
  readonly #keyEnd: number = this.#request.indexOf(HEAD_END)
  #partial = ''
  #next: () => number = () => -1
  #status = ''
  #done: () => void = () => {}
  #failed: (error: Error) => void = () => {}

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', error => this.#failed(error))
    socket.on('close', () => this.#failed(new Error('the server has closed a connection')))
  }

  static async open(port: number, host: string): Promise<Line> {
    const socket = connect({ port, host, noDelay: true })
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return new Line(socket)
  }

  /** Sends one request after the other, until there is no next one. */
  run(next: () => number, status: number | undefined): Promise<void> {
    this.#next = next
    this.#status = status === undefined ? 'HTTP/1.1 ' : `HTTP/1.1 ${status} `
    return new Promise((resolve, reject) => {
      this.#done = resolve
      this.#failed = reject
      this.#send()
    })
  }

  close(): void {
    this.#failed = () => {}
    this.#socket.destroy()
  }

  #send(): void {
    const key = this.#next()
    if (key < 0) return this.#done()
    this.#write(key)
    this.#socket.write(this.#request)
  }

  #write(key: number): void {
    let rest = key
    for (let digit = 1; digit <= KEY.length; digit++) {
      this.#request[this.#keyEnd - digit] = 48 + (rest % 10)
      rest = Math.floor(rest / 10)
    }
  }

  #read(text: string): void {
    const answer = this.#partial + text
    this.#partial = isWhole(answer) ? '' : answer
    if (this.#partial !== '') return
    if (answer.startsWith(this.#status)) return this.#send()
    this.#failed(new Error(`expected ${this.#status.trim()}, got ${answer.split('\r\n', 1)[0]}`))
  }
}

/** All answers of the servers have a length. */
function isWhole(answer: string): boolean {
  const head = answer.indexOf(HEAD_END)
  if (head < 0) return false
  const length = answer.indexOf(LENGTH)
  return answer.length >= head + HEAD_END.length + parseInt(answer.slice(length + LENGTH.length, head), 10)
}
