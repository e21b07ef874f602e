import assert from 'node:assert/strict'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import quota, { allOf, firstOf, redisStore } from '../../src/index.js'
import type { QuotaOptions, Store } from '../../src/index.js'
import { compilePartition, identityPart, routePart } from '../../src/partition.js'
import { Keys } from '../../src/stores/redis/keys.js'
import { howToRepeat, runs } from '../algorithms/kit.js'
import { hasRedis, startRedis } from '../redis/servers.js'
import { PATIENT, SECRET, clientOf } from '../stores/redis/kit.js'
import { Costs, sized, text } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 20 * runs)

/** Who somebody says to be: a user, a tenant. */
type Pair = readonly [user: string, tenant: string]

/** One string cut at two places: two pairs that an unwise key would take for one. */
const cutTwice = fc
  .tuple(text, text, fc.nat(), fc.nat())
  .map(([one, other, first, second]): readonly Pair[] => {
    const whole = `x${one}:${other}y`
    return [first, second].map(at => cut(whole, 1 + (at % (whole.length - 1))))
  })
const cut = (whole: string, at: number): Pair => [whole.slice(0, at), whole.slice(at)]

const written = fc.tuple(text, text).map(([user, tenant]): readonly Pair[] => {
  const length = `user:${user}`.length
  return [
    [user, tenant],
    [`${user}${length}:tenant:${tenant}`, tenant],
    [user, `${tenant}${length}:user:${user}`],
    [tenant, user],
    [`${user}:tenant:${tenant}`, tenant],
    [user, `${tenant}:tenant:${tenant}`]
  ]
})

const pairs = fc
  .tuple(fc.array(fc.tuple(text, text), { maxLength: 4 }), cutTwice, written)
  .map((all): readonly Pair[] => [
    ...new Map(all.flat().map(pair => [JSON.stringify(pair), pair as Pair])).values()
  ])

const NAMES = ['user', 'tenant']
const RULES = [
  allOf('user', 'tenant'),
  allOf('user', 'tenant', 'route'),
  allOf('tenant', firstOf('user', 'ip')),
  firstOf('user', 'tenant', 'ip')
].map(partition => compilePartition(partition, NAMES))

t.test('different people are different partitions, whatever they are called', async t => {
  const costs = new Costs()
  const keys = new Keys(SECRET, 'q1', false)
  let tuples = 0
  fc.assert(
    fc.property(pairs, fc.constantFrom('/', '/x', '/:id'), (pairs, route) => {
      for (const rule of RULES) {
        const found = new Map<string, string>()
        for (const [user, tenant] of pairs) {
          tuples++
          const parts = {
            address: 'ip:203.0.113.9',
            route: routePart('GET', route),
            identities: [identityPart('user', user), identityPart('tenant', tenant)]
          }
          const partition = costs.time(user.length + tenant.length, () => rule.resolve(parts))
          const who = rule.label.startsWith('firstOf')
            ? JSON.stringify(user !== '' ? ['user', user] : tenant === '' ? ['ip'] : ['tenant', tenant])
            : JSON.stringify([user, tenant])
          const key = keys.of(partition)
          assert.equal(found.get(key) ?? who, who, `${rule.label}: ${partition}`)
          found.set(key, who)
        }
      }
    }),
    { numRuns: runs }
  )
  costs.check()
  t.comment(`${tuples} partitions`)
})

// --- In stores ----------------------------------------------------------------------------------------------------------

const QUOTA = 1000

async function started(t: Test, store: Store | undefined): Promise<FastifyInstance> {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  const options: QuotaOptions = {
    policies: {
      both: { quota: QUOTA, window: '1d', partition: allOf('user', 'tenant') },
      user: { quota: QUOTA, window: '1d', partition: firstOf('user', 'ip') }
    },
    identify: { user: () => undefined, tenant: () => undefined },
    store
  }
  await app.register(quota, options)
  await app.ready()
  return app
}

/** Each spends as many units as nobody else, and finds itself charged for these. */
async function spend(app: FastifyInstance, pairs: readonly Pair[], round: number): Promise<void> {
  const subjects = pairs.map(([user, tenant]) => ({
    ip: `2001:db8:${round.toString(16)}::1`,
    user,
    tenant: `${round}${tenant}`
  }))
  for (const [i, subject] of subjects.entries()) {
    const { outcome } = await app.quota.consume(subject, { both: i + 1 })
    assert.equal(outcome, 'allowed')
  }
  for (const [i, subject] of subjects.entries()) {
    const { limits, source } = await app.quota.peek(subject, ['both'])
    assert.equal(limits[0]!.remaining, QUOTA - i - 1, `${JSON.stringify(subject)} by ${source}`)
  }
}

async function nobodyIsMerged(t: Test, store: Store | undefined, numRuns: number): Promise<void> {
  const app = await started(t, store)
  let round = 0
  await fc.assert(
    fc.asyncProperty(pairs, async pairs => {
      await spend(app, pairs, ++round % 0xffff)
      await app.quota.reset({ ip: '::1', user: 'x', tenant: 'y' })
    }),
    { numRuns }
  )
  t.comment(`${round} rounds`)
}

/** A partition of a megabyte, beside one that differs in its last character. */
const giants = (): readonly Pair[] =>
  ['a', 'b', '\0', '\ud800'].map(end => ['x'.repeat(1_000_000) + end, 'y'])

t.test('in memory nobody is charged for another one', async t => {
  await nobodyIsMerged(t, undefined, sized(4))
  await spend(await started(t, undefined), giants(), 1)
})

t.test(
  'in Redis nobody is charged for another one',
  { skip: !hasRedis() && 'there is no redis-server' },
  async t => {
    const client = clientOf(t, await startRedis(t))
    await nobodyIsMerged(t, redisStore(client, PATIENT), sized(40))
    await spend(await started(t, redisStore(client, PATIENT)), giants(), 1)
    const keys = await client.keys('*')
    t.ok(keys.length > 0)
    t.strictSame(
      keys.filter(key => !/^q1:\{[\w-]{22}\}(?::probe)?$/.test(key)),
      []
    )
  }
)

t.test('who a request is from is a string, a finite number, a bigint or nobody, or its address', async t => {
  let identity: unknown
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  await app.register(quota, {
    policies: { user: { quota: 1_000_000_000, window: '1d', partition: 'user' } },
    identify: { user: () => identity as string }
  })
  app.get('/', () => 'served')
  const nobody = fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    NaN,
    Infinity,
    {},
    [],
    Symbol('x'),
    true,
    () => 1,
    new Date(0)
  )
  let byAddress = 0
  await fc.assert(
    fc.asyncProperty(nobody, text, async (empty, text) => {
      identity = empty
      const { statusCode } = await app.inject('/')
      assert.equal(statusCode, 200)
      const { limits } = await app.quota.peek({ ip: '127.0.0.1' })
      assert.equal(limits[0]!.remaining, 1_000_000_000 - ++byAddress)
      identity = `x${text}`
      assert.equal((await app.inject('/')).statusCode, 200)
    }),
    { numRuns: sized(8) }
  )
})
