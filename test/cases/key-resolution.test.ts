import { createServer, request as send } from 'node:http'
import { BlockList, isIPv6 } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { inspect } from 'node:util'
import t from 'tap'
import { allOf, firstOf, memoryStore } from '../../src/index.js'
import type { MemoryStore, QuotaOptions } from '../../src/index.js'
import { fromFastifyRateLimit } from '../../src/migrate.js'
import { members } from '../fixtures/wire.js'
import { watchWarnings } from '../plugin/kit.js'
import { ask, fieldCase, inBothStores, redis, serve, statuses } from './kit.js'
import type { Asked } from './kit.js'

t.setTimeout(120_000)

const PROXY = '10.0.0.1'
const trusting = { fastify: { trustProxy: '10.0.0.0/8' } }

/** A request that a peer sends for others. */
const forwarded = (chain: string, from: string = PROXY): Asked => ({
  from,
  headers: { 'x-forwarded-for': chain }
})

/** The partitions that a store is asked about. */
function watchPartitions(store: MemoryStore): ReadonlySet<string> {
  const partitions = new Set<string>()
  const consume = store.consume.bind(store)
  store.consume = charges => {
    for (const { partition } of charges) partitions.add(partition)
    return consume(charges)
  }
  return partitions
}

fieldCase('C01', 'only what a trusted proxy has appended to a chain tells clients apart', async t => {
  const { heard } = watchWarnings(t)
  const store = memoryStore()
  const partitions = watchPartitions(store)
  const { app } = await serve(t, { policies: { any: '2/1m' }, store }, trusting)
  const chains = [1, 2, 3, 4].map(n => `6.6.6.${n}, 203.0.113.9`)
  t.strictSame(await statuses(app, ...chains.map(chain => forwarded(chain))), [200, 200, 429, 429])
  t.strictSame([...partitions], ['ip:203.0.113.9'])
  const untrusted = chains.map(chain => forwarded(chain, '198.51.100.20'))
  t.strictSame(await statuses(app, ...untrusted), [200, 200, 429, 429])
  t.strictSame([...partitions], ['ip:203.0.113.9', 'ip:198.51.100.20'])
  const other = { ...forwarded('6.6.6.6, 203.0.113.9'), headers: { forwarded: 'for=7.7.7.7' } }
  t.strictSame(await statuses(app, other), [200], 'another field of that kind is not read')
  t.ok(partitions.has('ip:10.0.0.1'))
  t.strictSame(await heard(), [], 'who trusts addresses is warned of nothing')
})

fieldCase('C02', 'a hop count that trusts nobody is told once, with what to write instead', async t => {
  for (const trustProxy of [1, 2]) {
    const { heard } = watchWarnings(t)
    const { app } = await serve(t, { any: '1/1m' }, { fastify: { trustProxy: trustProxy as never } })
    const clients = ['203.0.113.1', '203.0.113.9', '203.0.113.10'].map(client => forwarded(client))
    t.strictSame(await statuses(app, ...clients), [200, 429, 429], 'the framework says they are one')
    const warnings = await heard()
    t.strictSame(
      warnings.map(({ code }) => code),
      ['FST_QUOTA_FORWARDED']
    )
    t.match(warnings[0]!.message, "set trustProxy to the proxy's addresses, such as '10.0.0.0/8'")
  }
})

fieldCase('C03', 'exempt are the addresses meant, however they are written, and no others', async t => {
  const list = ['127.0.0.1', '10.0.0.5']
  const addresses = new BlockList()
  for (const address of list) addresses.addAddress(address)
  const ways: Readonly<Record<string, QuotaOptions>> = {
    'by a function': {
      policies: {
        any: { quota: 1, window: '1m', exempt: ({ ip }) => addresses.check(ip, familyOf(ip)) }
      }
    },
    'by a list': fromFastifyRateLimit({ max: 1, timeWindow: '1 minute', allowList: list })
  }
  for (const [way, options] of Object.entries(ways)) {
    await t.test(way, async t => {
      const { app } = await serve(t, options, { fastify: { trustProxy: '192.0.2.0/24' } })
      for (const from of ['::ffff:127.0.0.1', '::FFFF:7f00:1', '::ffff:10.0.0.5', '127.0.0.1']) {
        t.strictSame(await statuses(app, { from }, { from }, { from }), [200, 200, 200], from)
      }
      for (const from of ['fe80::1', 'fd00::5', '::ffff:10.0.0.6']) {
        t.strictSame(await statuses(app, { from }, { from }), [200, 429], from)
      }
      const liar = forwarded('127.0.0.1', '198.51.100.20')
      t.strictSame(await statuses(app, liar, liar), [200, 429], 'an address that nobody vouches for')
      const known = forwarded('127.0.0.1', '192.0.2.1')
      t.strictSame(await statuses(app, known, known), [200, 200], 'one that a trusted proxy vouches for')
    })
  }
})

fieldCase('C04', 'the port and the brackets of a forwarded address belong to nobody', async t => {
  const { app } = await serve(t, { any: '1/1m' }, trusting)
  const sent = (...chains: readonly string[]): Promise<readonly number[]> =>
    statuses(app, ...chains.map(chain => forwarded(chain)))
  t.strictSame(await sent('203.0.113.9:50001', '203.0.113.9:50002'), [200, 429])
  t.strictSame(await sent('[2001:db8::1]:443', '[2001:db8::1]:444', '2001:db8::1'), [200, 429, 429])
  t.strictSame(await sent('2001:db8:0:1::1:443', '[2001:db8:0:1::1:443]'), [200, 429], 'that is no port')
})

fieldCase('C05', 'a network of IPv6 is one client, as long as its prefix is configured', async t => {
  const within = ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:2:ffff::3']
  const asked = [...within, '2001:db8:1:3::1'].map(from => ({ from }))
  const { app } = await serve(t, { any: '2/1m' })
  t.strictSame(await statuses(app, ...asked), [200, 200, 429, 200])
  const narrow = await serve(t, { policies: { any: '2/1m' }, ipv6Prefix: 128 })
  t.strictSame(await statuses(narrow.app, ...asked), [200, 200, 200, 200])
  const wide = await serve(t, { policies: { any: '2/1m' }, ipv6Prefix: 56 })
  t.strictSame(await statuses(wide.app, ...asked), [200, 200, 429, 429])
  for (const ipv6Prefix of [0, 129, -1, 63.5, NaN, '64' as never]) {
    await t.rejects(serve(t, { policies: { any: '2/1m' }, ipv6Prefix }), {
      code: 'FST_QUOTA_OPTION',
      message: /ipv6Prefix/
    })
  }
})

fieldCase('C06', 'clients of IPv4 stay apart on a socket of both families, in either spelling', async t => {
  const { app } = await serve(t, { any: '1/1m' })
  const asked = ['::ffff:192.0.2.1', '::ffff:198.51.100.7', '192.0.2.1', '::ffff:192.0.2.1']
  t.strictSame(await statuses(app, ...asked.map(from => ({ from }))), [200, 200, 429, 429])
})

fieldCase('C09', 'all who have no address have one quota together, and that is told', async t => {
  const { heard } = watchWarnings(t)
  const path = join(tmpdir(), `fastify-quota-${process.pid}.sock`)
  const store = memoryStore()
  const partitions = watchPartitions(store)
  const { app } = await serve(t, { policies: { any: '2/1m' }, store, partitionKey: 'hash' })
  await app.listen({ path })
  const answers: { status: number; headers: object; keys: readonly unknown[] }[] = []
  for (let i = 0; i < 5; i++) {
    const answer = await new Promise<(typeof answers)[number]>((resolve, reject) => {
      send({ socketPath: path, agent: false }, response => {
        const { statusCode, headers } = response
        const keys = members(headers['ratelimit']).map(({ pk }) => pk)
        text(response).then(() => resolve({ status: statusCode!, headers, keys }), reject)
      })
        .on('error', reject)
        .end()
    })
    answers.push(answer)
  }
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 429, 429, 429]
  )
  const [{ keys } = { keys: [] }] = answers
  t.ok(keys[0] instanceof ArrayBuffer || keys[0] instanceof Uint8Array)
  for (const answer of answers) {
    t.strictSame(answer.keys, keys)
    t.notMatch(JSON.stringify(answer.headers), /undefined/)
  }
  t.strictSame([...partitions], ['ip:none'])
  t.strictSame(
    (await heard()).map(({ code }) => code),
    ['FST_QUOTA_NO_ADDRESS']
  )
})

fieldCase(
  'C10',
  'an identity that is nothing counts by address, and one that is nonsense is reported',
  async t => {
    const asked = ['192.0.2.1', '192.0.2.2'].map(from => ({ from }))
    const byAddress = ['ip:192.0.2.1', 'ip:192.0.2.2']
    const identifiedBy = async (identity: unknown): Promise<readonly unknown[]> => {
      const store = memoryStore()
      const partitions = watchPartitions(store)
      const { app, log } = await serve(t, {
        identify: { user: () => identity as never },
        policies: { any: { quota: 1, window: '1m', partition: 'user' } },
        store
      })
      const codes = await statuses(app, ...asked, asked[0]!)
      return [codes, [...partitions], log.map(({ option }) => option)]
    }
    for (const nothing of [undefined, null, '', Promise.resolve(undefined), Promise.resolve(null)]) {
      t.strictSame(await identifiedBy(nothing), [[200, 200, 429], byAddress, []], inspect(nothing))
    }
    for (const nonsense of [NaN, Infinity, {}, [], Symbol('user'), false, true, () => 'user']) {
      const reported = [[200, 200, 429], byAddress, ['identify.user']]
      t.strictSame(await identifiedBy(nonsense), reported, inspect(nonsense))
    }
    for (const [legal, partition] of [
      [0, 'user:0'],
      [7n, 'user:7'],
      ['0', 'user:0'],
      ['null', 'user:null']
    ] as const) {
      t.strictSame(await identifiedBy(legal), [[200, 429, 429], [partition], []], String(legal))
    }
  }
)

fieldCase('C11', 'made-up credentials count by address before, and by nobody after, authentication', t =>
  inBothStores(t, async (t, serve) => {
    const users = new WeakMap<object, string>()
    const { app } = await serve(
      {
        identify: { user: request => users.get(request) },
        policies: {
          attempts: { quota: 5, window: '1m', hook: 'onRequest' },
          calls: { quota: 3, window: '1m', partition: 'user' }
        }
      },
      {
        routes: app => {
          app.addHook('onRequest', async (request, reply) => {
            if (request.headers.authorization !== 'Bearer valid') return reply.code(401).send({})
            users.set(request, 'alice')
          })
          app.get('/', async () => 'served')
        }
      }
    )
    const calls = async (from: string, tokens: readonly string[]): Promise<readonly unknown[]> => {
      const told: unknown[] = []
      for (const token of tokens) {
        const { status, body } = await ask(app, { from, headers: { authorization: `Bearer ${token}` } })
        told.push(status === 429 ? [429, JSON.parse(body)['violated-policies']] : status)
      }
      return told
    }
    const invented = Array.from({ length: 8 }, (_, n) => `invented${n}`)
    const refused = [429, ['attempts']]
    t.strictSame(await calls('192.0.2.1', invented), [401, 401, 401, 401, 401, refused, refused, refused])
    for (const name of [...invented.map(user => ({ user })), { user: 'alice' }]) {
      t.equal((await app.quota.peek(name, ['calls'])).limits[0]!.remaining, 3, 'nothing was counted')
    }
    const valid = Array.from({ length: 4 }, () => 'valid')
    t.strictSame(await calls('192.0.2.2', valid), [200, 200, 200, [429, ['calls']]])
  })
)

fieldCase('C13', 'a route is its pattern, in whatever way its path is spelt', t =>
  inBothStores(t, async (t, serve) => {
    const spelt: string[] = []
    const { app } = await serve(
      { any: { quota: 2, window: '1m', partition: 'route' } },
      {
        fastify: {
          routerOptions: { caseSensitive: false, ignoreDuplicateSlashes: true, ignoreTrailingSlash: true }
        },
        routes: app => {
          app.get('/thing/:id', async request => {
            spelt.push(request.raw.url!)
            return request.routeOptions.url
          })
        }
      }
    )
    const spellings = [
      '/thing/1',
      '//thing//1',
      '/THING/1',
      '/th%69ng/1',
      '/thing/1/',
      '/thing/1?x=1',
      '/thing/1;a=b',
      'http://other/thing/1'
    ]
    t.strictSame(await statuses(app, ...spellings), [200, 200, 429, 429, 429, 429, 429, 429])
    t.strictSame(await statuses(app, '/./thing/1', '/x/../thing/1', '/./thing/2'), [404, 404, 429])
    for (const url of spellings) {
      await app.quota.reset({ route: 'GET /thing/:id' })
      t.strictSame(
        (await ask(app, url)).limits.map(({ r }) => r),
        [1]
      )
    }
    t.strictSame(
      spelt,
      ['/thing/1', '//thing//1', ...spellings],
      'each of them reaches the handler and is counted there'
    )
  })
)

fieldCase('C15', 'a quota belongs to the route that runs, not to the method on the wire', async t => {
  const overriding = (header: string | undefined): NonNullable<Parameters<typeof serve>[2]> => ({
    fastify: {
      serverFactory: handler =>
        createServer((request, response) => {
          const method = header === undefined ? undefined : request.headers[header]
          if (typeof method === 'string') request.method = method
          handler(request, response)
        })
    },
    routes: app => {
      app.get('/login', { config: { quota: false } }, async () => 'a form')
      app.post('/login', { config: { quota: ['login'] } }, async () => 'a token')
    }
  })
  const policies = { login: { quota: 2, window: '1m', default: false } } as const
  const asked = { url: '/login', headers: { 'x-http-method-override': 'POST' } }
  const rewriting = await serve(t, policies, overriding('x-http-method-override'))
  t.strictSame(await statuses(rewriting.app, asked, asked, asked, asked), [200, 200, 429, 429])
  t.equal((await ask(rewriting.app, '/login')).body, 'a form')
  const plain = await serve(t, policies, overriding(undefined))
  t.strictSame(await statuses(plain.app, asked, asked, asked, asked), [200, 200, 200, 200])
  const post = { ...asked, method: 'POST', headers: { 'x-http-method-override': 'GET' } }
  t.strictSame(await statuses(plain.app, post, post, post), [200, 200, 429])
})

fieldCase('C17', 'what an identity contains makes it nobody else', t =>
  inBothStores(t, async (t, serve) => {
    const named = (request: { readonly headers: object }, name: string): string =>
      JSON.parse(`"${String((request.headers as Record<string, string>)[name])}"`) as string
    const { app } = await serve({
      identify: {
        tenant: request => named(request, 'x-tenant'),
        user: request => named(request, 'x-user')
      },
      policies: {
        pair: { quota: 1, window: '1m', partition: allOf('tenant', 'user') },
        x: { quota: 1, window: '1m', partition: 'user', default: false },
        'x.y': { quota: 1, window: '1m', partition: firstOf('user', 'ip'), default: false }
      }
    })
    const as = (tenant: string, user: string): Asked => ({
      headers: { 'x-tenant': escaped(tenant), 'x-user': escaped(user) }
    })
    const parts = [
      'a',
      'a:b',
      'b:c',
      'c',
      ':',
      '1:a',
      '\0',
      '\n',
      '{',
      '}',

      '*',
      ' ',
      'a ',
      '👩‍💻',
      '\ud800',
      '\udbff'
    ]
    const pairs = parts.flatMap(tenant => parts.map(user => as(tenant, user)))
    t.strictSame(new Set(await statuses(app, ...pairs)), new Set([200]), 'each is somebody')
    t.strictSame(new Set(await statuses(app, ...pairs)), new Set([429]), 'and the same the next time')
    const counts: unknown[] = []
    for (const [policy, user] of [
      ['x', 'y:z'],
      ['x.y', 'z'],
      ['x', 'z'],
      ['x.y', 'y:z'],
      ['x', 'ip:127.0.0.1'],
      ['x.y', 'ip:127.0.0.1']
    ] as const) {
      counts.push((await app.quota.consume({ user }, { [policy]: 1 })).outcome)
    }
    t.strictSame(
      counts,
      Array.from(counts, () => 'allowed')
    )
    const { outcome } = await app.quota.consume({ ip: '127.0.0.1' }, { 'x.y': 1 })
    t.equal(outcome, 'allowed', 'a user who is called like an address is not that address')
    await t.rejects(serve({ 'x:y': '1/1m' }), { code: 'FST_QUOTA_POLICY', message: /x:y.*":"/ })
    const used = await (await redis()).command('INFO', 'commandstats')
    t.notMatch(used, /cmdstat_(keys|scan|hscan):/, 'no pattern is ever matched against keys')
  })
)

/** A text that a header can carry. */
const escaped = (text: string): string =>
  JSON.stringify(text)
    .slice(1, -1)
    .replace(/[^!-~]/g, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

const familyOf = (ip: string): 'ipv4' | 'ipv6' => (isIPv6(ip) ? 'ipv6' : 'ipv4')
