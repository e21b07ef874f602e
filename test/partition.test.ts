import fc from 'fast-check'
import t from 'tap'
import {
  allOf,
  checkIdentityName,
  compilePartition,
  firstOf,
  identityPart,
  routePart
} from '../src/partition.js'
import type { Partition, Parts } from '../src/partition.js'

const seed = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
t.comment(`fast-check seed ${seed}; repeat with FC_SEED=${seed}`)
fc.configureGlobal({ seed, numRuns: 2000 })

const NAMES = ['user', 'api-key', 'tenant'] as const
const REFUSED = { code: 'FST_QUOTA_OPTION' } as const

function request(identities: Readonly<Record<string, string | number>> = {}): Parts {
  return {
    address: 'ip:203.0.113.9',
    route: 'route:GET /items/:id',
    identities: NAMES.map(name => identityPart(name, identities[name]))
  }
}

const BOTH = request({ user: 42, tenant: 'acme' })
const USER = request({ user: 42 })
const TENANT = request({ tenant: 'acme' })
const NOBODY = request()

t.test('a partition counts by what it names', t => {
  const table: readonly (readonly [partition: Partition, request: Parts, part: string])[] = [
    ['ip', BOTH, 'ip:203.0.113.9'],
    ['route', BOTH, 'route:GET /items/:id'],
    ['global', BOTH, 'global'],
    ['user', BOTH, 'user:42'],
    ['tenant', BOTH, 'tenant:acme'],
    [firstOf('tenant', 'user'), BOTH, 'tenant:acme'],
    [firstOf('tenant', 'user'), USER, 'user:42'],
    [firstOf('api-key', 'tenant', 'user'), USER, 'user:42'],
    [firstOf('user', 'route'), NOBODY, 'route:GET /items/:id'],
    [firstOf('user', 'global'), NOBODY, 'global'],
    [firstOf(firstOf('api-key', 'tenant'), 'user'), USER, 'user:42'],
    [allOf('tenant', 'user'), BOTH, '11:tenant:acme7:user:42'],
    [allOf('user', 'tenant'), BOTH, '7:user:4211:tenant:acme'],
    [allOf('user', 'route'), BOTH, '7:user:4220:route:GET /items/:id'],
    [allOf('ip', 'global'), BOTH, '14:ip:203.0.113.96:global'],
    [allOf(firstOf('tenant', 'user'), 'route'), USER, '7:user:4220:route:GET /items/:id'],
    [allOf('global', allOf('tenant', 'user')), BOTH, '6:global23:11:tenant:acme7:user:42'],
    [firstOf(allOf('tenant', 'user'), 'ip'), BOTH, '11:tenant:acme7:user:42']
  ]
  for (const [partition, parts, part] of table) {
    const rule = compilePartition(partition, NAMES)
    t.equal(rule.resolve(parts), part, rule.label)
  }
  t.end()
})

t.test('an empty identity counts by address', t => {
  const table: readonly (readonly [partition: Partition, request: Parts, part: string])[] = [
    ['user', NOBODY, 'ip:203.0.113.9'],
    ['tenant', USER, 'ip:203.0.113.9'],
    [firstOf('user', 'tenant'), NOBODY, 'ip:203.0.113.9'],
    [firstOf('user', 'ip'), NOBODY, 'ip:203.0.113.9'],
    [firstOf(firstOf('user', 'tenant'), 'api-key'), NOBODY, 'ip:203.0.113.9'],
    [allOf('tenant', 'user'), USER, '14:ip:203.0.113.97:user:42'],
    [allOf('tenant', 'user'), TENANT, '11:tenant:acme14:ip:203.0.113.9'],
    [allOf('user', 'route'), NOBODY, '14:ip:203.0.113.920:route:GET /items/:id'],
    [allOf(firstOf('user', 'tenant'), 'global'), NOBODY, '14:ip:203.0.113.96:global'],
    [allOf('user', 'tenant'), NOBODY, 'ip:203.0.113.9'],
    [firstOf(allOf('api-key', 'tenant'), 'user'), USER, 'user:42'],
    [firstOf(allOf('api-key', 'tenant'), 'user'), TENANT, '14:ip:203.0.113.911:tenant:acme'],
    [firstOf(allOf('user', 'route'), 'tenant'), TENANT, '14:ip:203.0.113.920:route:GET /items/:id']
  ]
  for (const [partition, parts, part] of table) {
    const rule = compilePartition(partition, NAMES)
    t.equal(rule.resolve(parts), part, rule.label)
  }
  t.end()
})

t.test('the address is not asked for unless it is needed', t => {
  const parts: Parts = {
    get address(): string {
      throw new Error('asked')
    },
    route: 'route:404',
    identities: ['user:1', undefined, undefined]
  }
  for (const partition of [
    'user',
    'route',
    'global',
    firstOf('tenant', 'user', 'ip'),
    allOf('user', 'route')
  ]) {
    t.doesNotThrow(() => compilePartition(partition, NAMES).resolve(parts))
  }
  for (const partition of ['ip', 'tenant', allOf('user', 'tenant')]) {
    t.throws(() => compilePartition(partition, NAMES).resolve(parts), { message: 'asked' })
  }
  t.end()
})

t.test('a rule says what it reads', t => {
  const rule = (label: string, identities: readonly number[]): object => ({ label, identities })
  const table: readonly (readonly [partition: Partition, rule: object])[] = [
    ['ip', rule('ip', [])],
    ['global', rule('global', [])],
    ['route', rule('route', [])],
    ['api-key', rule('api-key', [1])],
    [firstOf('user', 'ip'), rule('firstOf(user, ip)', [0])],
    [firstOf('tenant', 'user'), rule('firstOf(tenant, user)', [0, 2])],
    [allOf('ip', 'user'), rule('allOf(ip, user)', [0])],
    [allOf('user', 'route'), rule('allOf(user, route)', [0])],
    [
      allOf(firstOf('tenant', 'ip'), allOf('route', 'ip')),
      rule('allOf(firstOf(tenant, ip), allOf(route, ip))', [2])
    ],
    [firstOf(allOf('user', 'ip'), 'tenant'), rule('firstOf(allOf(user, ip), tenant)', [0, 2])]
  ]
  for (const [partition, expected] of table) {
    const { label, identities } = compilePartition(partition, NAMES)
    t.strictSame({ label, identities }, expected)
  }
  t.end()
})

t.test('combinations cannot be changed after they are made', t => {
  const given: Partition[] = ['user', 'ip']
  const first = firstOf(...given)
  given[0] = 'global'
  t.equal(compilePartition(first, NAMES).label, 'firstOf(user, ip)')
  t.ok(Object.isFrozen(first) && Object.isFrozen(first.of))
  const all = allOf('user', 'ip')
  t.ok(Object.isFrozen(all) && Object.isFrozen(all.of))
  t.ok(Object.isFrozen(compilePartition('ip', NAMES)))
  t.end()
})

const EXPECTED = `'ip', 'global', 'route', a name of identify (user, api-key, tenant), firstOf(…) or allOf(…)`

t.test('an unknown name is refused with what was expected, and with a near one', t => {
  const table: readonly (readonly [partition: Partition, got: string])[] = [
    ['usr', '"usr"; did you mean "user"?'],
    ['apikey', '"apikey"; did you mean "api-key"?'],
    ['api_key', '"api_key"; did you mean "api-key"?'],
    ['IP', '"IP"; did you mean "ip"?'],
    ['routes', '"routes"; did you mean "route"?'],
    ['glob', '"glob"; did you mean "global"?'],
    ['users12', '"users12"'],
    ['account', '"account"'],
    ['session', '"session"'],
    ['__proto__', '"__proto__"'],
    ['constructor', '"constructor"'],
    [firstOf(allOf('route', 'tenent'), 'ip'), '"tenent"; did you mean "tenant"?']
  ]
  for (const [partition, got] of table) {
    const message = `partition takes ${EXPECTED}, got ${got}`
    t.throws(() => compilePartition(partition, NAMES), {
      ...REFUSED,
      message: new RegExp(`^${escaped(message)}$`)
    })
  }
  t.throws(() => compilePartition('user', []), {
    ...REFUSED,
    message: 'a name of identify (which has none), '
  })
  t.throws(
    () => compilePartition('usrr', ['uzrx', 'user']),
    { ...REFUSED, message: 'mean "user"' },
    'the nearest'
  )
  t.end()
})

function escaped(literal: string): string {
  return literal.replace(/[.?()[\]]/g, String.raw`\$&`)
}

t.test('what is no partition is refused by its type', t => {
  const table: readonly (readonly [value: unknown, got: string])[] = [
    [undefined, 'undefined'],
    [null, 'null'],
    [42, 'a number'],
    [NaN, 'a number that is not finite'],
    [true, 'a boolean'],
    [Symbol('x'), 'a symbol'],
    [['user'], 'an array'],
    [{ firstOf: ['user', 'ip'] }, 'an object'],
    [() => 'user', 'a function; functions of the request belong in identify, under a name']
  ]
  for (const [value, got] of table) {
    t.throws(() => compilePartition(value, NAMES), {
      ...REFUSED,
      message: `partition takes ${EXPECTED}, got ${got}`
    })
    const member = value as Partition
    t.throws(() => firstOf('user', member), { ...REFUSED, message: `firstOf takes 'ip', ` }, got)
    t.throws(() => allOf(member, 'user'), { ...REFUSED, message: `got ${got}` }, got)
  }
  t.end()
})

t.test('a partition that is never empty comes last in firstOf', t => {
  for (const name of ['ip', 'global', 'route']) {
    const message = `firstOf never gets past "${name}", which is never empty: write it last`
    t.throws(() => firstOf(name, 'user'), { ...REFUSED, message })
    t.throws(() => firstOf('user', name, 'tenant'), { ...REFUSED, message })
    t.equal(compilePartition(firstOf('user', name), NAMES).label, `firstOf(user, ${name})`)
    t.equal(compilePartition(allOf(name, 'user'), NAMES).label, `allOf(${name}, user)`, 'allOf has no order')
  }
  t.throws(() => firstOf('user', 'ip', 'global'), { ...REFUSED, message: 'never gets past "ip"' })
  t.end()
})

t.test('a combination has each partition once', t => {
  const both = allOf('user', 'tenant')
  const table: readonly (readonly [combine: () => unknown, message: string])[] = [
    [() => allOf('user', 'ip', 'user'), 'allOf takes each partition once, got user twice'],
    [() => firstOf('user', 'user'), 'firstOf takes each partition once, got user twice'],
    [() => firstOf('ip', 'ip'), 'firstOf takes each partition once, got ip twice'],
    [() => firstOf(both, both), 'firstOf takes each partition once, got allOf(user, tenant) twice']
  ]
  for (const [combine, message] of table) t.throws(combine, { ...REFUSED, message })
  t.end()
})

t.test('a combination of fewer than two is refused', t => {
  t.throws(() => firstOf(), { ...REFUSED, message: 'firstOf takes two partitions or more, got 0' })
  t.throws(() => firstOf('user'), { ...REFUSED, message: 'firstOf takes two partitions or more, got 1' })
  t.throws(() => allOf('user'), { ...REFUSED, message: 'allOf takes two partitions or more, got 1' })
  t.end()
})

t.test('an identity is a string, a finite number or a bigint, or it is empty', t => {
  const table: readonly (readonly [value: unknown, part: string | undefined])[] = [
    [undefined, undefined],
    [null, undefined],
    ['', undefined],
    ['42', 'user:42'],
    [42, 'user:42'],
    [0, 'user:0'],
    [-0, 'user:0'],
    [1.5, 'user:1.5'],
    [2n ** 64n, 'user:18446744073709551616'],
    [' ', 'user: '],
    ['null', 'user:null'],
    ['a:b', 'user:a:b'],
    ['__proto__', 'user:__proto__'],
    ['\u0000\n{*}😀\ud800', 'user:\u0000\n{*}😀\ud800']
  ]
  for (const [value, part] of table) t.equal(identityPart('user', value), part)
  t.end()
})

t.test('any other identity is an error that names its type and not its value', t => {
  const table: readonly (readonly [value: unknown, got: string])[] = [
    [NaN, 'a number that is not finite'],
    [Infinity, 'a number that is not finite'],
    [-Infinity, 'a number that is not finite'],
    [false, 'a boolean'],
    [{ id: 'secret' }, 'an object'],
    [Object.create(null), 'an object'],
    [['secret'], 'an array'],
    [Symbol('secret'), 'a symbol'],
    [() => 'secret', 'a function']
  ]
  for (const [value, got] of table) {
    t.throws(
      () => identityPart('user', value),
      new TypeError(`identify.user must return a string, a finite number, a bigint or nothing, got ${got}`)
    )
  }
  t.end()
})

t.test('a route is its method and pattern, GET and HEAD are one, and so is all that matches none', t => {
  t.equal(routePart('GET', '/items/:id'), 'route:GET /items/:id')
  t.equal(routePart('HEAD', '/items/:id'), 'route:GET /items/:id')
  t.equal(routePart('POST', '/items/:id'), 'route:POST /items/:id')
  t.equal(routePart('GET', ''), 'route:GET ')
  t.equal(routePart('GET', undefined), 'route:404')
  t.equal(routePart('DELETE', undefined), 'route:404')
  t.end()
})

t.test('the name of an identity is a word, and not one that is taken', t => {
  for (const name of ['user', 'api-key', 'a', 'A_1', 'IP', 'ipx', 'routes', 'x'.repeat(64)]) {
    t.doesNotThrow(() => checkIdentityName(name), name)
  }
  for (const name of ['ip', 'global', 'route']) {
    t.throws(() => checkIdentityName(name), {
      ...REFUSED,
      message: `fastify-quota: identify cannot define "${name}": it is a partition already`
    })
  }
  for (const name of ['', '1', '-a', '_a', 'a b', 'a:b', 'a.b', 'é', 'user\n', '__proto__', 'x'.repeat(65)]) {
    t.throws(() => checkIdentityName(name), {
      ...REFUSED,
      message: `fastify-quota: a name in identify must be a letter and up to 63 letters, digits, "_" or "-", got ${JSON.stringify(name)}`
    })
  }
  t.end()
})

const value = fc.oneof(
  fc.constant(undefined),
  fc.string({
    unit: fc.constantFrom('\u0000', '\n', '{', '}', '*', ' ', ':', '1', '2', 'a', '😀', '\ud800', '\udc00')
  }),
  fc.string({ unit: 'binary', maxLength: 4 }),
  fc.constantFrom('tenant:1', '7:user:42', '6:global', 'ip:203.0.113.9', '1:a1:b')
)

/** Shapes that tell all three identities apart, and nothing else. */
const SHAPES: readonly Partition[] = [
  allOf('user', 'api-key', 'tenant'),
  allOf('tenant', 'api-key', 'user'),
  allOf('user', allOf('api-key', 'tenant')),
  allOf(allOf('user', 'api-key'), 'tenant'),
  allOf('user', 'api-key', 'tenant', 'global')
]

function three([user, key, tenant]: readonly (string | undefined)[]): Parts {
  return {
    ...NOBODY,
    identities: [identityPart('user', user), identityPart('api-key', key), identityPart('tenant', tenant)]
  }
}

t.test('allOf tells all tuples apart', t => {
  const tuple = fc.tuple(value, value, value)
  fc.assert(
    fc.property(fc.constantFrom(...SHAPES), tuple, tuple, (shape, one, two) => {
      const rule = compilePartition(shape, NAMES)
      const [a, b] = [three(one), three(two)]
      const same = a.identities.every((part, index) => part === b.identities[index])
      return (rule.resolve(a) === rule.resolve(b)) === same
    })
  )
  t.end()
})

t.test('tuples of different shapes and single parts are told apart', t => {
  const full = fc.array(value.filter(Boolean), { minLength: 3, maxLength: 3 })
  const singles: readonly Partition[] = ['ip', 'global', 'route', 'user', 'api-key', 'tenant']
  const rules = [...SHAPES, ...singles].map(partition => compilePartition(partition, NAMES))
  fc.assert(
    fc.property(full, full, (one, two) => {
      const here = rules.map(rule => rule.resolve(three(one)))
      const there = rules.map(rule => rule.resolve(three(two)))
      return here.every((part, index) => there.every((other, at) => index === at || part !== other))
    })
  )
  t.end()
})

t.test('parts moved over a boundary are told apart', t => {
  const words = fc.array(fc.constantFrom('a', ':', '1', '2:', ','), { minLength: 2, maxLength: 8 })
  const rule = compilePartition(allOf('user', 'tenant'), NAMES)
  fc.assert(
    fc.property(words, words => {
      const cuts = words
        .slice(1)
        .map((_, at) => [words.slice(0, at + 1).join(''), words.slice(at + 1).join('')])
      const parts = cuts.map(([user, tenant]) => rule.resolve(three([user, undefined, tenant])))
      return new Set(parts).size === parts.length
    })
  )
  t.end()
})
