import { createHmac } from 'node:crypto'
import { FifoMap } from 'toad-cache'

/** Keys that are remembered: to make one takes longer than to decide. */
const REMEMBERED = 20_000
const LONGEST_REMEMBERED = 256

/** Characters of base64url that are kept of a digest: 132 bits. */
const LENGTH = 22

/**
 * The names under which partitions are stored outside of this process. They say nothing about who is counted: a digest under
 * the operator's secret, in a fixed alphabet, whatever an identity contains.
 */
export class Keys {
  readonly #secret: string | Uint8Array
  readonly #before: string
  readonly #after: string
  readonly #known = new FifoMap<string>(REMEMBERED)

  /** `oneSlot`: all keys have one hash tag; else each has its own, so a cluster spreads them. */
  constructor(secret: string | Uint8Array, prefix: string, oneSlot: boolean) {
    this.#secret = secret
    this.#before = oneSlot ? `${prefix}:{${prefix}}:` : `${prefix}:{`
    this.#after = oneSlot ? '' : '}'
  }

  of(partition: string): string {
    const known = this.#known.get(partition)
    if (known !== undefined) return known
    const key = `${this.#before}${this.#digest(partition)}${this.#after}`
    if (partition.length <= LONGEST_REMEMBERED) this.#known.set(partition, key)
    return key
  }

  /** A digest for clients, which is no part of a key. */
  label(text: string): Uint8Array {
    return createHmac('sha256', this.#secret)
      .update('fastify-quota/label\0')
      .update(text, 'utf16le')
      .digest()
      .subarray(0, 16)
  }

  /** As UTF-16: two strings that differ in a lone surrogate are two partitions. */
  #digest(partition: string): string {
    return createHmac('sha256', this.#secret)
      .update('fastify-quota/key\0')
      .update(partition, 'utf16le')
      .digest('base64url')
      .slice(0, LENGTH)
  }
}
