import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { addressing } from '../../src/address.js'
import quota from '../../src/index.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { Costs, fieldValue, huge, sized, text } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 20 * runs)

const PEER = '192.0.2.200'
const PEER_PART = `ip:${PEER}`
const PART = /^ip:(?:\d+\.\d+\.\d+\.\d+|[\da-f:]+\/\d+)$/

// --- What an address is, written down without a thought of speed -------------------------------------------------------

type Groups = readonly number[]

const bits = (groups: Groups): bigint => groups.reduce((sum, group) => (sum << 16n) | BigInt(group), 0n)

/** Who an address stands for: an IPv4 address within one of IPv6, or the first bits. */
function whose(groups: Groups, prefix: number): string {
  const high = bits(groups) >> 32n
  if (high === 0xffffn || high === 0x64_ff9b_0000_0000_0000_0000n) return `4:${bits(groups) & 0xffff_ffffn}`
  return `6:${bits(groups) >> BigInt(128 - prefix)}`
}

/** The ways in which one address can be written. */
function spellings(groups: Groups): readonly string[] {
  const plain = groups.map(group => group.toString(16))
  const padded = plain.map(group => group.padStart(4, '0').toUpperCase()).join(':')
  const [a = 0, b = 0] = groups.slice(6)
  const dotted = [...plain.slice(0, 6), [a >> 8, a & 255, b >> 8, b & 255].join('.')].join(':')
  const short = plain
    .join(':')
    .replace(/(?:^|:)0(?::0)+(?=:|$)/, '::')
    .replace(/:{3,}/, '::')
  return [plain.join(':'), padded, dotted, isIP(short) === 6 ? short : padded]
}

const dressed = (address: string): readonly string[] => [
  address,
  `[${address}]`,
  `[${address}]:443`,
  `${address}%eth0`
]

const group = fc.oneof(fc.constantFrom(0, 0, 0, 1, 0xffff, 0x64, 0xff9b, 0x2001, 0xdb8), fc.nat(0xffff))
const groups = fc.oneof(
  fc.array(group, { minLength: 8, maxLength: 8 }),
  fc
    .tuple(fc.constantFrom([0, 0, 0, 0, 0, 0xffff], [0x64, 0xff9b, 0, 0, 0, 0]), group, group)
    .map(([first, ...last]) => [...first, ...last])
)
const prefix = fc.oneof(
  fc.constantFrom(1, 16, 48, 56, 64, 64, 65, 127, 128),
  fc.integer({ min: 1, max: 128 })
)

t.test('two addresses have one part if they are one client, however they are written', async t => {
  const costs = new Costs()
  const made = new Map<number, ReturnType<typeof addressing>>()
  const of = (prefix: number): ReturnType<typeof addressing> => {
    const known = made.get(prefix) ?? addressing(prefix)
    made.set(prefix, known)
    return known
  }
  fc.assert(
    fc.property(groups, fc.nat(127), prefix, fc.nat(3), fc.nat(3), (one, bit, prefix, way, dress) => {
      const other = one.map((group, i) => (i === bit >> 4 ? group ^ (1 << (bit & 15)) : group))
      const part = (groups: Groups, way: number, dress: number): string => {
        const written = dressed(spellings(groups)[way]!)[dress]!
        return costs.time(written.length, () => of(prefix)(written, PEER))
      }
      const plain = part(one, 0, 0)
      assert.match(plain, PART)
      assert.notEqual(plain, PEER_PART)
      assert.equal(part(one, way, dress), plain, `${spellings(one)[way]}`)
      assert.equal(
        part(other, way, dress) === plain,
        whose(one, prefix) === whose(other, prefix),
        `bit ${bit}`
      )
    }),
    { numRuns: runs }
  )
  costs.check()
  t.comment(`${costs.inputs} addresses`)
})

const piece = fc.constantFrom(
  '1',
  '.',
  ':',
  '[',
  ']',
  '%',
  'f',
  '1.',
  '1:',
  '0',
  ' ',
  ',',
  '255.',
  '::',
  '%25',
  '1.1.1.1',
  '::ffff:'
)
const noAddress = fc.oneof(
  text,
  fc.array(piece, { maxLength: 12 }).map(all => all.join('')),
  huge(piece, 65_536)
)

t.test('what is no address counts as that of the socket, at no cost', async t => {
  const networks = addressing(64)
  const costs = new Costs()
  fc.assert(
    fc.property(noAddress, noAddress, (address, peer) => {
      const part = costs.time(address.length, () => networks(address, PEER))
      if (part !== PEER_PART) assert.ok(isAddress(address), `${address.slice(0, 100)} became ${part}`)
      const either = costs.time(address.length + peer.length, () => networks(address, peer))
      assert.ok(either === 'ip:none' || PART.test(either), either)
      assert.equal(networks(undefined, PEER), PEER_PART)
    }),
    { numRuns: runs }
  )
  costs.check()
  t.comment(`${costs.inputs} texts`)
})

/** Whether there is an address in a text, and around it nothing but brackets, a port and a zone. */
function isAddress(text: string): boolean {
  const bare =
    /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? (/^[\d.]+:\d+$/.test(text) ? text.split(':')[0]! : text)
  return isIP(bare.split('%', 1)[0]!) !== 0
}

// --- Forwarding ---------------------------------------------------------------------------------------------------------

const QUOTA = 1_000_000_000

async function started(
  t: Test,
  trustProxy: NonNullable<FastifyServerOptions['trustProxy']>
): Promise<FastifyInstance> {
  const app = Fastify({ trustProxy }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, { policies: { default: { quota: QUOTA, window: '1d' } } })
  app.get('/', request => request.ip)
  return app
}

async function used(app: FastifyInstance, ip: string): Promise<number> {
  const { limits } = await app.quota.peek({ ip })
  return QUOTA - limits[0]!.remaining
}

const link = fc.oneof(
  fieldValue,
  piece,
  fc.constantFrom('127.0.0.1', '203.0.113.7', 'unknown', '_hidden', '"[::1]"')
)
const chain = fc.array(link, { maxLength: 6 }).map(links => links.join(', '))

const FORWARDED = [
  'x-forwarded-for',
  'forwarded',
  'x-real-ip',
  'client-ip',
  'true-client-ip',
  'x-client-ip'
] as const

t.test('without trustProxy no forwarded header makes a difference', async t => {
  const app = await started(t, false)
  let sent = 0
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...FORWARDED), chain, async (name, chain) => {
      const { statusCode } = await app.inject({ url: '/', headers: { [name]: chain } })
      assert.equal(statusCode, 200)
      assert.equal(await used(app, '127.0.0.1'), ++sent)
    }),
    { numRuns: sized(4) }
  )
  t.comment(`${sent} requests`)
})

t.test('what a client writes before the address that a trusted proxy adds makes no difference', async t => {
  const app = await started(t, '127.0.0.1')
  let sent = 0
  await fc.assert(
    fc.asyncProperty(chain, fc.nat(3), async (chain, proxies) => {
      const added = ['203.0.113.9', ...Array.from({ length: proxies }, () => '127.0.0.1')]
      const headers = { 'x-forwarded-for': [chain, ...added].join(', '), forwarded: chain }
      const { statusCode } = await app.inject({ url: '/', headers })
      assert.equal(statusCode, 200)
      assert.equal(await used(app, '203.0.113.9'), ++sent)
    }),
    { numRuns: sized(4) }
  )
  t.comment(`${sent} requests`)
})

t.test('where everybody is believed, whatever they write is some address', async t => {
  const app = await started(t, true)
  const costs = new Costs()
  await fc.assert(
    fc.asyncProperty(chain, async chain => {
      const { statusCode, headers } = await app.inject({ url: '/', headers: { 'x-forwarded-for': chain } })
      assert.equal(statusCode, 200)
      assert.match(String(headers['ratelimit']), /^"default";r=\d+;t=\d+$/)
      costs.time(chain.length, () => addressing(64)(chain, PEER))
    }),
    { numRuns: sized(4) }
  )
  costs.check()
})
