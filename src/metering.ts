import { EventEmitter } from 'node:events'
import { Transform } from 'node:stream'
import type { Readable, TransformCallback } from 'node:stream'
import { isLater } from './later.js'
import type { Later } from './later.js'

/** Bytes counted before they are charged: a charge for each chunk would cost more than it tells. */
const BATCH = 65_536

/** Charges bytes that have arrived; `false`: they are refused. */
export type ChargeBytes = (bytes: number) => Later<boolean>

/** A body before it is metered; one that a hook has decoded tells how many bytes of it were sent. */
export type Source = Readable & { readonly receivedEncodedLength?: number }

/**
 * A body of unknown length on its way to its parser, charged as it arrives. It is neither buffered nor slowed: a batch is
 * charged when it is full, and the rest at the end, before the parser sees it. After a refusal it breaks off without an
 * error, so a parser of Fastify never ends and the handler never runs; what still arrives is thrown away.
 *
 * Who reads the source itself is charged too, and is not cut off.
 */
export class MeteredBody extends Transform {
  /** Bytes as they were sent: what Fastify compares with `Content-Length` and its body limit. */
  receivedEncodedLength = 0
  readonly #source: Source
  readonly #charge: ChargeBytes
  #started = false
  #charged = 0
  #refused = false

  constructor(source: Source, charge: ChargeBytes) {
    super()
    this.#source = source
    this.#charge = charge
    const watch = (event: string | symbol): void => {
      if (event !== 'data' && event !== 'readable') return
      source.off('newListener', watch)
      if (!this.#started) this.#watch()
    }
    source.on('newListener', watch)
  }

  /** A body that nobody reads is left where it is. */
  override _read(size: number): void {
    if (!this.#started) this.#start()
    super._read(size)
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#count(chunk.length, () => done(null, chunk))
  }

  override _flush(done: TransformCallback): void {
    this.#settle(done)
  }

  /** A client that disconnects is charged for the bytes received. */
  override _destroy(error: Error | null, done: TransformCallback): void {
    this.#settle(() => {})
    done(error)
  }

  #start(): void {
    const source = this.#source
    this.#started = true
    source.once('error', error => this.#fail(error))
    source.once('close', () => source.readableEnded || this.destroy())
    source.pipe(this)
  }

  #watch(): void {
    const count = (chunk: Buffer): void => this.#count(chunk.length, () => {})
    const settle = (): void => this.#settle(() => {})
    // Not by the source's own method, which would set it flowing.
    EventEmitter.prototype.on.call(this.#source, 'data', count)
    this.#source.once('end', settle).once('close', settle)
  }

  /** As with a request's own body, nobody has to listen for its errors. */
  #fail(error: Error): void {
    this.#source.unpipe(this) // which listens, too
    this.destroy(this.listenerCount('error') > 0 ? error : undefined)
  }

  #count(bytes: number, next: () => void): void {
    this.receivedEncodedLength += bytes
    if (this.#received() - this.#charged < BATCH) next()
    else this.#settle(next)
  }

  /** Charges what was not charged yet, then goes on, unless it is refused. */
  #settle(next: () => void): void {
    const bytes = this.#refused ? 0 : this.#received() - this.#charged
    this.#charged += bytes
    const go = (allowed: boolean): void => (allowed ? next() : this.#refuse())
    // A parser would take an error without a status for the client's.
    const fail = (error: unknown): void => this.#fail(Object.assign(error as Error, { statusCode: 500 }))
    try {
      const allowed = bytes === 0 || this.#charge(bytes)
      if (isLater(allowed)) allowed.then(go, fail)
      else go(allowed)
    } catch (error) {
      fail(error)
    }
  }

  #received(): number {
    this.receivedEncodedLength = this.#source.receivedEncodedLength ?? this.receivedEncodedLength
    return this.receivedEncodedLength
  }

  #refuse(): void {
    this.#refused = true
    if (this.#started) this.#source.unpipe(this).resume()
    this.destroy()
  }
}
