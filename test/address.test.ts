import fc from 'fast-check'
import t from 'tap'
import { addressing } from '../src/address.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)
fc.configureGlobal({ seed, numRuns: 500 })

const PEER = '192.0.2.200'
const PEER_PART = 'ip:192.0.2.200'

const networks = addressing(64)
const hosts = addressing(128)

t.test('every spelling of an address has one part', t => {
  const table: readonly (readonly [part: string, ...spellings: string[]])[] = [
    ['ip:203.0.113.9', '203.0.113.9', '203.0.113.9:50001', '203.0.113.9:1', '[203.0.113.9]:80'],
    ['ip:127.0.0.1', '127.0.0.1', '::ffff:127.0.0.1', '::FFFF:7f00:1', '0:0:0:0:0:ffff:7f00:0001'],
    ['ip:10.0.0.5', '[::ffff:10.0.0.5]:443', '::ffff:a00:5%eth0', '0000::ffff:10.0.0.5'],
    ['ip:192.0.2.33', '64:ff9b::192.0.2.33', '64:FF9B::c000:221', '[0064:ff9b:0:0::c000:221]'],
    ['ip:0.0.0.0', '0.0.0.0', '::ffff:0:0', '64:ff9b::'],
    ['ip:2001:db8:1:2::/64', '2001:db8:1:2::1', '2001:DB8:1:2:ffff::3', '2001:0db8:0001:0002::'],
    ['ip:2001:db8::/64', '[2001:db8::1]:443', '[2001:db8::1]:444', '2001:db8::1', '[2001:db8::1]'],
    ['ip:fe80::/64', 'fe80::1', 'fe80::1%eth0', 'fe80::1%eth0.100', '[fe80::1%3]:8080'],
    ['ip:::/64', '::', '::1', '::1.2.3.4', '::102:304'],
    ['ip:64:ff9b:1::/64', '64:ff9b:1::1.2.3.4'],
    ['ip:ffff:ffff:ffff:ffff::/64', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff']
  ]
  for (const [part, ...spellings] of table) {
    for (const spelling of spellings) {
      t.equal(networks(spelling, PEER), part, spelling)
      t.equal(networks(spelling, PEER), part, `${spelling} again, now remembered`)
    }
  }
  t.end()
})

t.test('an address that is written plainly has the part of its other spellings', t => {
  const group = fc.oneof(fc.constant(0), fc.nat(0xffff), fc.nat(0xf))
  const written = fc.array(group, { minLength: 8, maxLength: 8 })
  fc.assert(
    fc.property(written, fc.nat(0xffff), (groups, zone) => {
      const plain = groups.map(each => each.toString(16)).join(':')
      const long = groups.map(each => each.toString(16).padStart(4, '0').toUpperCase()).join(':')
      const part = networks(long, PEER)
      for (const spelling of [plain, `${plain}%${zone}`, `[${plain}]:443`, `${long}%eth0`]) {
        if (networks(spelling, PEER) !== part) throw new Error(`${spelling} is not ${part}`)
      }
    })
  )
  t.end()
})

t.test('the prefix says how many bits tell IPv6 clients apart', t => {
  const address = '2001:db8:ffff:ffff:ffff::1'
  const table: readonly (readonly [prefix: number, part: string])[] = [
    [1, 'ip:::/1'],
    [3, 'ip:2000::/3'],
    [32, 'ip:2001:db8::/32'],
    [33, 'ip:2001:db8:8000::/33'],
    [48, 'ip:2001:db8:ffff::/48'],
    [56, 'ip:2001:db8:ffff:ff00::/56'],
    [64, 'ip:2001:db8:ffff:ffff::/64'],
    [127, 'ip:2001:db8:ffff:ffff:ffff::/127'],
    [128, 'ip:2001:db8:ffff:ffff:ffff::1/128']
  ]
  for (const [prefix, part] of table) {
    t.equal(addressing(prefix)(address, undefined), part)
    t.equal(addressing(prefix)('::ffff:192.0.2.1', undefined), 'ip:192.0.2.1', 'IPv4 has no prefix')
  }
  t.end()
})

t.test('a bare IPv6 address that ends like a port is one address', t => {
  t.equal(hosts('2001:db8::443', PEER), 'ip:2001:db8::443/128')
  t.equal(hosts('1:2:3:4:5:6:7:8080', PEER), 'ip:1:2:3:4:5:6:7:8080/128')
  t.equal(hosts('::1.2.3.4', PEER), 'ip:::102:304/128', 'and not ::ffff:1.2.3.4')
  t.end()
})

const NO_ADDRESSES: readonly string[] = [
  '',
  ' ',
  'unknown',
  'null',
  'undefined',
  '_hidden',
  '__proto__',
  'constructor',
  '[object Object]',
  'localhost',
  'localhost:80',
  '010.0.0.1',
  '1.2.3',
  '1.2.3:80',
  '1.2.3.4.5',
  '1.2.3.256',
  '1.2.3.4 ',
  ' 1.2.3.4',
  '1.2.3.4\n',
  '1.2.3.4, 5.6.7.8',
  '1.2.3.4%eth0',
  '1.2.3.4/24',
  '1.2.3.4:',
  '1.2.3.4:123456',
  '1.2.3.4:http',
  '0x7f.0.0.1',
  '2130706433',
  '１.２.３.４',
  '2001:db8::1/64',
  '2001:db8::1::2',
  '2001:db8::g',
  '1:2:3:4:5:6:7',
  '::ffff:1.2.3.04',
  '[2001:db8::1',
  '2001:db8::1]:80',
  '[2001:db8::1]x',
  '[2001:db8::1]:',
  '[[2001:db8::1]]',
  '[]:80',
  'fe80::1%',
  'fe80::1%\u0000',
  'fe80::1%a%b',
  '1.2.3.4\u0000',
  '\ud800',
  '1'.repeat(7000),
  '1.'.repeat(3500),
  ':'.repeat(7000),
  '['.repeat(7000),
  `[${'1:'.repeat(3500)}`,
  '%a'.repeat(3500),
  `1.2.3.4${' '.repeat(7000)}`
]

t.test('what is no address counts as the peer', t => {
  for (const text of NO_ADDRESSES) {
    const name = JSON.stringify(text.slice(0, 40))
    t.equal(networks(text, PEER), PEER_PART, name)
    t.equal(networks(text, '::ffff:10.0.0.1'), 'ip:10.0.0.1', `${name} with another peer`)
    t.equal(networks(text, undefined), 'ip:none', `${name} on a Unix socket`)
    t.equal(networks(text, text), 'ip:none', `${name} twice`)
  }
  t.equal(networks(undefined, PEER), PEER_PART)
  t.end()
})

t.test('without any address there is one shared part', t => {
  t.equal(networks(undefined, undefined), 'ip:none')
  t.equal(networks('', undefined), 'ip:none')
  t.equal(
    networks('203.0.113.9', undefined),
    'ip:203.0.113.9',
    'a trusted proxy on a Unix socket may know it'
  )
  t.end()
})

t.test('an address is read even if it is too long to be remembered', t => {
  const zone = 'z'.repeat(60)
  t.equal(networks(`fe80::1%${zone}`, PEER), 'ip:fe80::/64')
  t.equal(networks(`[2001:db8::1%${zone}]:443`, PEER), 'ip:2001:db8::/64')
  t.end()
})

t.test('more addresses than are remembered are told apart', t => {
  const count = 10_500
  const address = (n: number): string => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  const parts = new Set<string>()
  for (let n = 0; n < count; n++) parts.add(networks(address(n), PEER))
  t.equal(parts.size, count)
  t.equal(networks(address(0), PEER), 'ip:10.0.0.0', 'a forgotten one is read again')
  t.end()
})

t.test('addressing of one prefix remembers nothing for another', t => {
  t.equal(networks('2001:db8::1', PEER), 'ip:2001:db8::/64')
  t.equal(hosts('2001:db8::1', PEER), 'ip:2001:db8::1/128')
  t.end()
})

const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom(...'0123456789abcdefFx.:%[]/, \u0000\ud800'.split('')) }),
  fc.ipV4Extended(),
  fc.ipV4(),
  fc.ipV6(),
  fc.constantFrom(...NO_ADDRESSES)
)

t.test('no string makes it throw, and the result is an address or ip:none', t => {
  fc.assert(
    fc.property(
      fc.option(hostile, { nil: undefined }),
      fc.option(hostile, { nil: undefined }),
      (address, peer) => /^ip:(?:[0-9a-f.:/]+|none)$/.test(networks(address, peer))
    ),
    { numRuns: 5000 }
  )
  t.end()
})

const group = fc.nat(0xffff)
const half = fc.tuple(group, group, group, group)
const outside = half.filter(([a, b]) => a !== 0 && !(a === 0x64 && b === 0xff9b))
const text = (groups: readonly number[]): string => groups.map(part => part.toString(16)).join(':')

t.test('the addresses of one /64 share one part, and those of two do not', t => {
  fc.assert(
    fc.property(outside, outside, half, half, (network, other, host, neighbour) => {
      const part = networks(text([...network, ...host]), PEER)
      const same = networks(text([...network, ...neighbour]), PEER) === part
      const elsewhere = networks(text([...other, ...host]), PEER) === part
      return same && elsewhere === (text(network) === text(other))
    })
  )
  t.end()
})

t.test('one bit of the prefix makes another part, and one bit after it does not', t => {
  fc.assert(
    fc.property(
      outside,
      half,
      fc.integer({ min: 17, max: 128 }),
      fc.integer({ min: 16, max: 127 }),
      (a, b, prefix, bit) => {
        const groups = [...a, ...b]
        const flipped = groups.map((part, index) =>
          index === bit >> 4 ? part ^ (0x8000 >> (bit & 15)) : part
        )
        fc.pre(text(flipped.slice(0, 2)) !== '64:ff9b')
        const address = addressing(prefix)
        return (address(text(groups), PEER) !== address(text(flipped), PEER)) === bit < prefix
      }
    )
  )
  t.end()
})

/** One IPv6 address, spelled as the numbers say. */
function spell(
  groups: readonly number[],
  [upper, padded, dotted, from, length, wrap]: readonly number[]
): string {
  const words = groups.map(part => part.toString(16).padStart(padded ? 4 : 1, '0'))
  const [high = 0, low = 0] = groups.slice(6)
  if (dotted) words.splice(6, 2, `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`)
  const start = from ?? 0
  const zeros = groups.slice(start, start + (length ?? 0))
  const end = start + zeros.length
  const shortens = zeros.length > 0 && zeros.every(part => part === 0) && (!dotted || end <= 6)
  const short = shortens
    ? `${words.slice(0, start).join(':')}::${words.slice(end).join(':')}`
    : words.join(':')
  const cased = upper ? short.toUpperCase() : short
  return [cased, `${cased}%eth0`, `[${cased}]`, `[${cased}]:443`, `[${cased}%2]:50001`][wrap ?? 0] ?? cased
}

const sparse = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: group })
const eight = fc.oneof(
  fc.array(sparse, { minLength: 8, maxLength: 8 }),
  fc.tuple(group, group).map(low => [0, 0, 0, 0, 0, 0xffff, ...low]),
  fc.tuple(group, group).map(low => [0x64, 0xff9b, 0, 0, 0, 0, ...low])
)
const spelling = fc.tuple(fc.nat(1), fc.nat(1), fc.nat(1), fc.nat(7), fc.nat(8), fc.nat(4))

t.test('every spelling of any IPv6 address gives one part, and another address another', t => {
  fc.assert(
    fc.property(eight, eight, spelling, spelling, (groups, others, one, two) => {
      const part = hosts(spell(groups, one), undefined)
      const same = part === hosts(spell(groups, two), undefined)
      const canonical = new URL(`http://[${text(groups)}]/`).hostname.slice(1, -1)
      const named = part === `ip:${canonical}/128` || isEmbedded(groups, part)
      const differs = hosts(spell(others, one), undefined) !== part
      return part !== 'ip:none' && same && named && (differs || sameAddress(groups, others))
    }),
    { numRuns: 5000 }
  )
  t.end()
})

function embedded(groups: readonly number[]): string | undefined {
  const prefix = text(groups.slice(0, 6))
  if (prefix !== '0:0:0:0:0:ffff' && prefix !== '64:ff9b:0:0:0:0') return undefined
  return groups
    .slice(6)
    .flatMap(part => [part >> 8, part & 255])
    .join('.')
}

function isEmbedded(groups: readonly number[], part: string): boolean {
  return part === `ip:${embedded(groups)}`
}

function sameAddress(a: readonly number[], b: readonly number[]): boolean {
  return (embedded(a) ?? text(a)) === (embedded(b) ?? text(b))
}
