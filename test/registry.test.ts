import t from 'tap'
import { Registry, Scope } from '../src/registry.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

const user = (): string => 'me'

t.test('identities are kept in the order they are added, each once', async t => {
  const registry = new Registry()
  const team = (): string => 'us'
  registry.addIdentities({ user, 'api-key': team })
  registry.addIdentities({ user, team })
  t.strictSame(registry.identities, ['user', 'api-key', 'team'])
  t.strictSame(registry.identify, [user, team, team])
})

t.test('names of Object.prototype are identities like any other', async t => {
  const registry = new Registry()
  registry.addIdentities(Object.assign(Object.create(null) as object, { constructor: user, toString: user }))
  t.strictSame(registry.identities, ['constructor', 'toString'])
})

t.test('identities that are written wrongly are refused', async t => {
  const name =
    'fastify-quota: a name in identify must be a letter and up to 63 letters, digits, "_" or "-", got'
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [null, 'fastify-quota: identify must be an object, got null'],
    [user, 'fastify-quota: identify must be an object, got a function'],
    [[user], 'fastify-quota: identify must be an object, got [null]'],
    [new Map(), 'fastify-quota: identify must be a plain object, got an instance of Map'],
    [{ user: 'id' }, 'fastify-quota: identify.user must be a function, got "id"'],
    [{ user: undefined }, 'fastify-quota: identify.user must be a function, got undefined'],
    [{ ip: user }, 'fastify-quota: identify cannot define "ip": it is a partition already'],
    [{ global: user }, 'fastify-quota: identify cannot define "global": it is a partition already'],
    [{ route: user }, 'fastify-quota: identify cannot define "route": it is a partition already'],
    [{ '': user }, `${name} ""`],
    [{ 'a:b': user }, `${name} "a:b"`],
    [JSON.parse('{"__proto__":1}'), `${name} "__proto__"`],
    [
      { known: () => 'you' },
      'fastify-quota: identify.known is taken by another function, and a name is one identity everywhere'
    ]
  ]
  for (const [written, message] of table) {
    const registry = new Registry()
    registry.addIdentities({ known: user })
    t.throws(() => registry.addIdentities(written), { code: 'FST_QUOTA_OPTION', message })
    t.strictSame(registry.identities, ['known'])
  }
})

t.test('a name is one policy everywhere', async t => {
  const registry = new Registry()
  const policy = registry.define('daily', { quota: 10, window: '1d' })
  t.equal(registry.define('daily', { window: '1d', quota: 10 }), policy)
  t.equal(registry.define('daily', '10/1d'), policy)
  t.equal(registry.define('daily', { quota: 10, window: '24h', mode: 'enforce' }), policy)
  t.throws(() => registry.define('daily', { quota: 11, window: '1d' }), {
    code: 'FST_QUOTA_POLICY',
    message:
      'policy "daily": the name is taken by a policy with other options, and a name is one policy everywhere'
  })
  t.equal(registry.policies.get('daily'), policy)
  t.equal(registry.policies.size, 1)
})

t.test('whoever asks is told of every policy, once', async t => {
  const registry = new Registry()
  registry.define('early', '1/1m')
  const told: string[] = []
  registry.onDefine(({ name }) => told.push(name))
  registry.define('late', '2/1m')
  registry.define('late', '2/1m')
  t.throws(() => registry.define('wrong', '2'))
  t.strictSame(told, ['early', 'late'])
})

t.test('a policy that is refused leaves its name free', async t => {
  const registry = new Registry()
  t.throws(() => registry.define('daily', { quota: -1, window: '1d' }), { code: 'FST_QUOTA_POLICY' })
  t.equal(registry.define('daily', '10/1d').quota, 10)
})

t.test('a policy that nobody can count leaves its name free, and is refused again', async t => {
  const registry = new Registry()
  let told = 0
  registry.onDefine(() => {
    told++
    throw new RangeError('no')
  })
  t.throws(() => registry.define('any', '10/1m'), { message: 'no' })
  t.throws(() => registry.define('any', '10/1m'), { message: 'no' })
  t.equal(told, 2)
  t.equal(registry.written.size, 0)
})

t.test('a policy can count by the identities that were added before it', async t => {
  const registry = new Registry()
  t.throws(() => registry.define('daily', { quota: 10, window: '1d', partition: 'user' }), {
    code: 'FST_QUOTA_POLICY',
    message: `policy "daily": partition takes 'ip', 'global', 'route', a name of identify (which has none), firstOf(…) or allOf(…), got "user"`
  })
  registry.addIdentities({ user })
  t.equal(registry.define('daily', { quota: 10, window: '1d', partition: 'user' }).rule.label, 'user')
})

t.test('a registration names at least one policy', async t => {
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [{}, 'fastify-quota: policies must name at least one policy, got {}'],
    [[], 'fastify-quota: policies must be an object, got []'],
    [null, 'fastify-quota: policies must be an object, got null'],
    ['100/1m', 'fastify-quota: policies must be an object, got "100/1m"'],
    [new Map([['daily', '10/1d']]), 'fastify-quota: policies must be a plain object, got an instance of Map']
  ]
  for (const [written, message] of table) {
    t.throws(() => new Scope(new Registry()).add(written), { code: 'FST_QUOTA_OPTION', message })
  }
})

t.test('names of Object.prototype are policies like any other, and none until they are defined', async t => {
  const scope = new Scope(new Registry())
  scope.add(Object.assign(Object.create(null) as object, { toString: '10/1m' }))
  t.equal(scope.find(refuse, 'toString').quota, 10)
  t.throws(
    () => scope.find(refuse, 'constructor'),
    new RangeError('no policy is named "constructor"; expected "toString"')
  )
  t.throws(() => scope.add(JSON.parse('{"__proto__":"10/1m"}')), {
    code: 'FST_QUOTA_POLICY',
    message:
      'policy "__proto__": a name must start with a letter, then have up to 63 of A-Z a-z 0-9 . _ -, got "_"'
  })
})

t.test('default policies are those that say nothing else, outer registrations first, each once', async t => {
  const registry = new Registry()
  const outer = new Scope(registry)
  outer.add({ burst: '20/10s', login: { quota: 5, window: '1m', default: false }, daily: '10/1d' })
  const inner = new Scope(registry, () => outer)
  inner.add({ hourly: '10/1h', daily: '10/1d' })
  inner.place('placed', '1/1m')
  const names = (scope: Scope): readonly string[] => scope.defaults().map(({ name }) => name)
  t.strictSame(names(outer), ['burst', 'daily'])
  t.strictSame(names(inner), ['burst', 'daily', 'hourly'])
})

t.test('a scope finds its own policies and those around it, not those inside or beside it', async t => {
  const registry = new Registry()
  const outer = new Scope(registry)
  outer.add({ outer: '1/1m' })
  const inner = new Scope(registry, () => outer)
  inner.add({ inner: '2/1m' })
  inner.place('placed', '3/1m')
  t.equal(inner.find(refuse, 'outer').quota, 1)
  t.equal(inner.find(refuse, 'inner').quota, 2)
  t.equal(inner.find(refuse, 'placed').quota, 3)
  t.throws(
    () => outer.find(refuse, 'inner'),
    new RangeError('policy "inner" is defined elsewhere: define it in a registration around this route')
  )
})

t.test('an unknown policy gets a suggestion, or some that are known', async t => {
  const registry = new Registry()
  const outer = new Scope(registry)
  outer.add({ daily: '1/1d', b1: '1/1m' })
  const inner = new Scope(registry, () => outer)
  inner.add({ hourly: '2/1h' })
  const table: readonly (readonly [scope: Scope, name: string, message: string])[] = [
    [inner, 'dayly', 'no policy is named "dayly"; did you mean "daily"?'],
    [inner, 'Hourly', 'no policy is named "Hourly"; did you mean "hourly"?'],
    [outer, 'hourli', 'no policy is named "hourli"; expected "daily", "b1"'],
    [inner, '', 'no policy is named ""; expected "hourly", "daily", "b1"'],
    [inner, '__proto__', 'no policy is named "__proto__"; expected "hourly", "daily", "b1"'],
    [inner, 'x\r\ny', 'no policy is named "x\\r\\ny"; expected "hourly", "daily", "b1"']
  ]
  for (const [scope, name, message] of table)
    t.throws(() => scope.find(refuse, name), new RangeError(message))
  outer.add({ b2: '1/1m', b3: '1/1m', b4: '1/1m' })
  t.throws(
    () => outer.find(refuse, 'nightly'),
    new RangeError('no policy is named "nightly"; expected "daily", "b1", "b2", "b3", "b4"')
  )
  outer.add({ b5: '1/1m' })
  t.throws(
    () => outer.find(refuse, 'nightly'),
    new RangeError('no policy is named "nightly"; expected "daily", "b1", "b2", "b3", "b4", …')
  )
})
