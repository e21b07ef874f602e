import type { InjectOptions } from 'fastify'
import { Redis } from 'ioredis'
import { parseList } from 'structured-headers'
import t from 'tap'
import { redisStore } from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { members, start } from '../fixtures/wire.js'
import type { Ending } from '../fixtures/wire.js'
import { stopProcessTime } from '../plugin/kit.js'
import { startRedis } from '../redis/servers.js'

const identify: QuotaOptions['identify'] = { user: ({ headers }) => headers['x-user'] as string }
const policies: QuotaOptions['policies'] = {
  burst: { quota: 9, window: '10s', partition: 'user' },
  global: { quota: 99, window: '1m', partition: 'global' }
}
const as = (user: string): InjectOptions => ({
  url: '/',
  headers: { 'x-user': user }
})

/** The partition keys in `RateLimit` by policy, in hex. */
function keys({ headers }: { readonly headers: object }): Readonly<Record<string, string | undefined>> {
  const limits = parseList((headers as { ratelimit?: string }).ratelimit ?? '')
  return Object.fromEntries(
    limits.map(([name, parameters]) => {
      const key = parameters.get('pk')
      return [name, key === undefined ? undefined : Buffer.from(key as ArrayBuffer).toString('hex')]
    })
  )
}

t.test('no partition key is sent unless it is asked for', async t => {
  for (const partitionKey of [false, undefined] as const) {
    const { app } = await start(t, { policies, identify, partitionKey })
    t.notMatch(String((await app.inject(as('anna'))).headers['ratelimit']), 'pk')
  }
})

t.test('hash: a client sees the same key of a policy on all its responses, and each has its own', async t => {
  const { app } = await start(t, { policies, identify, partitionKey: 'hash' })
  const anna = keys(await app.inject(as('anna')))
  const ben = keys(await app.inject(as('ben')))
  t.match(anna['burst'], /^[0-9a-f]{32}$/)
  t.not(anna['burst'], ben['burst'])
  t.equal(anna['global'], ben['global'], 'who share a quota share its key')
  t.not(anna['burst'], anna['global'])
  for (let i = 0; i < 8; i++) t.strictSame(keys(await app.inject(as('anna'))), anna)
  const refused = await app.inject(as('anna'))
  t.equal(refused.statusCode, 429)
  t.strictSame(keys(refused), { burst: anna['burst'] })
})

t.test('a key is on RateLimit, behind r and t, and nowhere else', async t => {
  const { app } = await start(t, { policies, identify, partitionKey: 'hash', legacy: 'draft-6' })
  const { headers, body } = await app.inject(as('anna@example.com'))
  t.match(
    headers['ratelimit'],
    /^"burst";r=8;t=10;pk=:[A-Za-z0-9+/]{22}==:, "global";r=98;t=60;pk=:[A-Za-z0-9+/]{22}==:$/
  )
  t.strictSame(Object.keys(members(headers['ratelimit'])[0]!), ['name', 'r', 't', 'pk'])
  t.equal(headers['ratelimit-policy'], '"burst";q=9;w=10, "global";q=99;w=60')
  t.notMatch(JSON.stringify({ ...headers, ratelimit: '' }) + body, 'pk')
  t.notMatch(JSON.stringify(headers), /anna|example/)
})

t.test('hash: another process of one memory has other keys', async t => {
  const seen = new Set<unknown>()
  for (let i = 0; i < 2; i++) {
    const { app } = await start(t, { policies, identify, partitionKey: 'hash' })
    seen.add(keys(await app.inject(as('anna')))['burst'])
  }
  t.equal(seen.size, 2)
})

t.test('hash: without units to spend a window, a key is sent all the same', async t => {
  const { app } = await start(t, {
    policies: { slots: { quota: 3, algorithm: 'concurrency' } },
    partitionKey: 'hash'
  })
  t.match((await app.inject('/')).headers['ratelimit'], /^"slots";r=2;pk=:[A-Za-z0-9+/]{22}==:$/)
})

t.test('hash: it is of the partition that was counted, whatever is known of the client later', async t => {
  const { app } = await start(
    t,
    {
      identify: { user: request => request.headers['x-authenticated'] as string },
      policies: {
        first: { quota: 9, window: '1m', partition: 'user', hook: 'onRequest' },
        second: { quota: 9, window: '1m', partition: 'user', hook: 'preHandler' }
      },
      partitionKey: 'hash'
    },
    {
      routes: app => {
        app.addHook('preValidation', async request => {
          request.headers['x-authenticated'] = request.headers['x-user']
        })
        app.get('/', async () => 'served')
      }
    }
  )
  const anna = keys(await app.inject(as('anna')))
  const ben = keys(await app.inject(as('ben')))
  t.equal(anna['first'], ben['first'], 'the address that both come from')
  t.not(anna['second'], ben['second'])
})

t.test('hash: a refusal that code has asked for has the key of those it is about', async t => {
  const { app } = await start(
    t,
    {
      identify: { tenant: ({ headers }) => headers['x-tenant'] as string },
      policies: { mails: { quota: 1, window: '1m', partition: 'tenant', default: false } },
      partitionKey: 'hash'
    },
    {
      routes: app => {
        app.get('/own', { config: { quota: ['mails'] } }, async () => 'sent')
        app.get<{ Params: { tenant: string } }>('/of/:tenant', async ({ params }, reply) =>
          reply.refuse(await app.quota.consume({ tenant: params.tenant }, { mails: 2 }))
        )
        app.get('/reserve', async (request, reply) => reply.refuse(await request.quota.reserve('mails', 2)))
        app.get<{ Params: { tenant: string } }>('/job/:tenant', async ({ params }, reply) =>
          reply.refuse(await app.quota.reserve({ tenant: params.tenant }, 'mails', 2))
        )
        app.get('/unknown', async (request, reply) => {
          const decision = await app.quota.consume(request, { mails: 2 })
          return reply.refuse({ ...decision, limits: [...decision.limits] })
        })
      }
    }
  )
  const key = async (url: string, tenant: string): Promise<unknown> =>
    keys(await app.inject({ url, headers: { 'x-tenant': tenant } }))['mails']
  const acme = await key('/own', 'acme')
  t.match(acme, /^[0-9a-f]{32}$/)
  for (const url of ['/of/acme', '/job/acme']) t.equal(await key(url, 'globex'), acme)
  t.equal(await key('/reserve', 'acme'), acme)
  for (const url of ['/of/globex', '/job/globex']) t.not(await key(url, 'acme'), acme)
  t.equal(await key('/unknown', 'acme'), undefined, 'a decision that nobody knows has no key')
})

t.test('hash: the same policy never appears with two keys', async t => {
  const { app } = await start(
    t,
    { policies: { mails: { quota: 9, window: '1m', partition: 'ip' } }, partitionKey: 'hash' },
    {
      routes: app =>
        app.get('/', async (_request, reply) =>
          reply.refuse(await app.quota.consume({ ip: '198.51.100.7' }, { mails: 10 }))
        )
    }
  )
  const { headers } = await app.inject('/')
  t.strictSame(
    members(headers['ratelimit']).map(({ name }) => name),
    ['mails']
  )
})

t.test('hash: a store of ones own without a secret stops the app', async t => {
  const store = { consume() {}, settle() {}, renew() {}, peek() {}, reset() {}, close() {} }
  await t.rejects(start(t, { policies, identify, partitionKey: 'hash', store } as never, { clock: false }), {
    code: 'FST_QUOTA_OPTION',
    message: /partitionKey 'hash' needs a store with the method label$/
  })
})

t.test('Redis: whoever has the secret has the same keys, and none is part of a name in Redis', async t => {
  const server = await startRedis(t)
  const opened = async (secret: string): ReturnType<typeof start> => {
    const client = new Redis(server.port, '127.0.0.1')
    t.teardown(() => client.disconnect())
    const store = redisStore(client, { onFailure: 'closed', secret, deadline: '2s' })
    return start(t, { policies, identify, partitionKey: 'hash', store }, { clock: false })
  }
  const secret = 'a secret of thirty-two characters'
  const seen: string[] = []
  for (const other of [secret, secret, `${secret}.`]) {
    const { app } = await opened(other)
    const { burst, global } = keys(await app.inject(as('anna')))
    t.match(burst, /^[0-9a-f]{32}$/)
    seen.push(`${burst} ${global}`)
  }
  t.equal(seen[0], seen[1])
  t.not(seen[0], seen[2])
  const client = new Redis(server.port, '127.0.0.1')
  t.teardown(() => client.disconnect())
  const names = (await client.keys('*')).join(' ')
  t.match(names, /^q1:/)
  for (const key of seen.join(' ').split(' ')) {
    const bytes = Buffer.from(key, 'hex')
    for (const form of ['hex', 'base64', 'base64url'] as const) {
      t.notOk(names.includes(bytes.toString(form).slice(0, 10)))
    }
  }
})

t.test('a function labels each policy of a request as it likes: text, bytes or nothing', async t => {
  const labels: Readonly<Record<string, string | Uint8Array | undefined>> = {
    burst: 'Müller',
    global: new Uint8Array([1, 2, 255]),
    none: undefined
  }
  const { app } = await start(t, {
    identify,
    policies: { ...policies, none: '9/1m' },
    partitionKey: ({ headers }, policy) => (headers['x-user'] === 'anna' ? labels[policy] : undefined)
  })
  t.strictSame(keys(await app.inject(as('anna'))), {
    burst: Buffer.from('Müller').toString('hex'),
    global: '0102ff',
    none: undefined
  })
  t.strictSame(keys(await app.inject(as('ben'))), { burst: undefined, global: undefined, none: undefined })
})

/** What a server whose labels are wrong answers and logs. */
async function failing(
  t: Ending,
  partitionKey: unknown
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const lines: Record<string, unknown>[] = []
  const { app } = await start(t, { policies, identify, partitionKey } as never, {
    server: { logger: { level: 'error', stream: { write: line => void lines.push(JSON.parse(line)) } } }
  })
  for (let i = 0; i < 3; i++) {
    const { statusCode, headers } = await app.inject(as('anna'))
    if (statusCode !== 200 || /pk/.test(String(headers['ratelimit'])))
      throw new Error('a wrong label was sent')
  }
  return lines
}

t.test(
  'a function that fails or labels wrongly is logged once a minute, and the rest of the fields is sent',
  async t => {
    stopProcessTime(t)
    const wrong: readonly (readonly [partitionKey: unknown, message: RegExp])[] = [
      [
        () => {
          throw new Error('broken')
        },
        /^broken$/
      ],
      [() => 42, /got a value of type number$/],
      [async () => 'acme', /got a promise$/],
      [() => 'x'.repeat(129), /at most 128 bytes, got 129$/]
    ]
    for (const [partitionKey, message] of wrong) {
      const lines = await failing(t, partitionKey)
      t.equal(lines.length, 1)
      t.match(lines[0], { option: 'partitionKey', err: { message } })
      t.equal(lines[0]!['msg'], 'fastify-quota: partitionKey failed, so no pk is sent')
    }
  }
)

t.test('a function is asked of a refusal that code has asked for, with the request', async t => {
  const { app } = await start(
    t,
    {
      policies: { mails: { quota: 1, window: '1m', default: false } },
      partitionKey: (request, policy) => `${policy} for ${String(request.headers['x-user'])}`
    },
    {
      routes: app =>
        app.get('/', async (request, reply) => reply.refuse(await app.quota.consume(request, { mails: 2 })))
    }
  )
  t.equal(keys(await app.inject(as('anna')))['mails'], Buffer.from('mails for anna').toString('hex'))
})

t.test('fields: false asks for no label', async t => {
  const partitionKey = t.captureFn(() => 'acme')
  const { app } = await start(t, { policies, identify, fields: false, legacy: 'draft-7', partitionKey })
  t.equal((await app.inject(as('anna'))).headers['ratelimit'], 'limit=9, remaining=8, reset=10')
  t.strictSame(partitionKey.calls, [])
})
