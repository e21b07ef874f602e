import fc from 'fast-check'
import t from 'tap'
import { Digest } from '../../../src/stores/memory/digest.js'
import { howToRepeat, runs } from '../../algorithms/kit.js'

t.comment(howToRepeat)

const rotated = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits))

/** HalfSipHash as its authors describe it, byte by byte, for any numbers of rounds: its 64 bits, the earlier half first. */
function halfSipHash(
  bytes: Uint8Array,
  [key0, key1]: readonly [number, number],
  rounds: number,
  last: number
): readonly [number, number] {
  const v: [number, number, number, number] = [key0, key1 ^ 0xee, 0x6c796765 ^ key0, 0x74656462 ^ key1]
  const round = (): void => {
    v[0] = (v[0] + v[1]) | 0
    v[1] = rotated(v[1], 5) ^ v[0]
    v[0] = rotated(v[0], 16)
    v[2] = (v[2] + v[3]) | 0
    v[3] = rotated(v[3], 8) ^ v[2]
    v[0] = (v[0] + v[3]) | 0
    v[3] = rotated(v[3], 7) ^ v[0]
    v[2] = (v[2] + v[1]) | 0
    v[1] = rotated(v[1], 13) ^ v[2]
    v[2] = rotated(v[2], 16)
  }
  const times = (count: number): void => {
    for (let i = 0; i < count; i++) round()
  }
  const padded = Buffer.alloc(bytes.length - (bytes.length % 4) + 4)
  padded.set(bytes)
  padded[padded.length - 1] = bytes.length & 0xff
  for (let at = 0; at < padded.length; at += 4) {
    const word = padded.readInt32LE(at)
    v[3] ^= word
    times(rounds)
    v[0] ^= word
  }
  v[2] ^= 0xee
  times(last)
  const low = v[1] ^ v[3]
  v[1] ^= 0xdd
  times(last)
  return [low, v[1] ^ v[3]]
}

const KEY = [0x03020100, 0x07060504] as const

t.test(
  'the description that digests are compared with gives the published figures of HalfSipHash-2-4',
  async t => {
    const published = ['218d1f59b9b83cc8', 'be552412f8387315', '064f39ef7c50eb57', 'ce0f1a45f7060679']
    for (const [length, wanted] of published.entries()) {
      const [low, high] = halfSipHash(
        Uint8Array.from({ length }, (_, i) => i),
        KEY,
        2,
        4
      )
      const bytes = Buffer.alloc(8)
      bytes.writeInt32LE(low, 0)
      bytes.writeInt32LE(high, 4)
      t.equal(bytes.toString('hex'), wanted)
    }
  }
)

t.test('a digest is HalfSipHash-1-3 of the code units of a string, lone surrogates and all', async t => {
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
  const units = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 300 })
  fc.assert(
    fc.property(fc.tuple(int32, int32), units, (key, units) => {
      const text = String.fromCharCode(...units)
      const digest = new Digest(key)
      digest.of(text)
      const [low, high] = halfSipHash(Buffer.from(text, 'utf16le'), key, 1, 3)
      return digest.low === low && digest.high === high
    }),
    { numRuns: runs }
  )
  const digest = new Digest(KEY)
  digest.of('\ud800')
  const one = digest.low
  digest.of('\ud801')
  t.not(digest.low, one)
})
