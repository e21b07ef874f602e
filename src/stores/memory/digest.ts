/**
 * A digest of strings under a secret, 64 bits in two halves: HalfSipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast
 * short-input PRF", and its variant for 32 bits), two UTF-16 code units to a word. Who does not know the secret can find no
 * two strings with the same digest but by trying, nor fill one place of a table.
 */
export class Digest {
  /** The halves of the last digest, as signed integers of 32 bits. */
  low = 0
  high = 0
  readonly #key0: number
  readonly #key1: number

  /** `secret`: two integers of 32 bits. */
  constructor([key0, key1]: readonly [number, number]) {
    this.#key0 = key0
    this.#key1 = key1
  }

  /** Digests a string into {@link low} and {@link high}. */
  of(text: string): void {
    const { length } = text
    const pairs = length >> 1
    const odd = (length & 1) === 1 ? text.charCodeAt(length - 1) : 0
    let v0 = this.#key0
    let v1 = this.#key1 ^ 0xee
    let v2 = this.#key0 ^ 0x6c796765
    let v3 = this.#key1 ^ 0x74656462
    // A round for each word, the last of which ends with the length in bytes; then six that take none.
    for (let i = 0; i <= pairs + 6; i++) {
      let word = 0
      if (i < pairs) word = text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 16)
      else if (i === pairs) word = (length << 25) | odd
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
      if (i === pairs) v2 ^= 0xee
      if (i !== pairs + 3) continue
      this.low = v1 ^ v3
      v1 ^= 0xdd
    }
    this.high = v1 ^ v3
  }
}
