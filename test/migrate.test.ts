import rateLimit from '@fastify/rate-limit'
import { Redis } from 'ioredis'
import t from 'tap'
import quota from '../src/index.js'
import { fromFastifyRateLimit } from '../src/migrate.js'
import type { FastifyRateLimitOptions, MigrationOptions } from '../src/migrate.js'
import { bare, watchWarnings } from './plugin/kit.js'
import { startRedis } from './redis/servers.js'

const secret = 'a secret of thirty-two bytes or more'

const server = await startRedis(t)

const client = (): Redis => new Redis({ lazyConnect: true })

t.test('options are those that somebody would have written by hand', async t => {
  const { policies, identify, legacy, problem, ...others } = fromFastifyRateLimit({
    max: 100,
    timeWindow: '1 minute'
  })
  t.strictSame(policies, {
    default: { quota: 100, window: 60, algorithm: 'fixed-window', hook: 'preParsing' }
  })
  t.strictSame(Object.keys(identify!), ['rate-limit-key'])
  t.strictSame(legacy, { style: 'x-ratelimit', reset: 'delta' })
  t.equal(problem, false)
  t.strictSame(Object.keys(others), ['onRefused'])
})

t.test('each option has its place', async t => {
  const { policies, ipv6Prefix, legacy } = fromFastifyRateLimit(
    {
      global: false,
      hook: 'preHandler',
      ipv6Subnet: 48,
      enableDraftSpec: true,
      skipOnError: true,
      keyGenerator: () => 'key',
      allowList: ['key'],
      max: () => 3
    },
    { algorithm: 'sliding-window' }
  )
  t.match(policies, {
    default: {
      quota: Function,
      algorithm: 'sliding-window',
      hook: 'preHandler',
      partition: 'rate-limit-key',
      exempt: Function,
      onStoreFailure: 'open',
      default: false
    }
  })
  t.equal(ipv6Prefix, 48)
  t.equal(legacy, 'draft-6')
})

t.test('options may be changed, and routes are read all the same', async t => {
  const { app } = bare(t)
  await app.register(quota, { ...fromFastifyRateLimit({ max: 5 }), fields: false })
  app.get('/', { config: { rateLimit: { max: 1 } } }, async () => 'served')
  const { headers } = await app.inject('/')
  t.equal(headers['x-ratelimit-limit'], '1')
  t.notHas(headers, { ratelimit: String })
})

const WRONG: Readonly<
  Record<string, readonly [options: FastifyRateLimitOptions, more: MigrationOptions, message: string]>
> = {
  'global is text': [{ global: 'no' as never }, {}, 'global must be true or false, got "no"'],
  'enableDraftSpec is text': [
    { enableDraftSpec: 'yes' as never },
    {},
    'enableDraftSpec must be true or false, got "yes"'
  ],
  'the second parameter is none': [
    {},
    'redis' as never,
    'its second parameter must be an object, got "redis"'
  ],
  'the second parameter has something else': [
    {},
    { secret } as never,
    'unknown option "secret" with the value "a secret of thirty-two bytes or more"; expected redis, algorithm'
  ],
  'there is no such algorithm here': [
    {},
    { algorithm: 'token-bucket' as never },
    'algorithm must be "fixed-window" or "sliding-window", got "token-bucket"'
  ],
  'there is no client': [
    {},
    { redis: { secret } },
    'redis has options but no client, got an object with "secret" without one'
  ],
  'there is no secret': [
    { redis: client() },
    {},
    'redis needs a secret of 32 bytes or more, the same in all processes, under which clients are named there: write ' +
      'fromFastifyRateLimit(options, { redis: { secret } }), got undefined'
  ]
}

for (const [name, [options, more, message]] of Object.entries(WRONG)) {
  t.test(`options are refused if ${name}`, async t => {
    t.throws(() => fromFastifyRateLimit(options, more), {
      code: 'FST_QUOTA_OPTION',
      message: `fromFastifyRateLimit: ${message}`
    })
  })
}

t.test('options of redisStore are its own business', async t => {
  t.throws(() => fromFastifyRateLimit({ redis: client() }, { redis: { secret, deadlin: '1s' } as object }), {
    message: 'redisStore: unknown option "deadlin" with the value "1s"; did you mean "deadline"?'
  })
  t.throws(() => fromFastifyRateLimit({ redis: 'localhost' as never }, { redis: { secret } }), {
    code: 'FST_QUOTA_OPTION',
    message: /^redisStore: /
  })
})

/** A connected client. */
function connected(): Redis {
  const redis = new Redis({ port: server.port })
  t.teardown(() => redis.disconnect())
  return redis
}

t.test('where theirs counted in Redis, so does this, under the prefix it had', async t => {
  const { heard } = watchWarnings(t)
  const redis = connected()
  const options: FastifyRateLimitOptions = { max: 2, timeWindow: '1 hour', redis, nameSpace: 'limits-' }
  const apps = [bare(t), bare(t)] as const
  await apps[0].app.register(rateLimit, options as object)
  for (const { app } of apps.slice(1)) {
    await app.register(quota, fromFastifyRateLimit(options, { redis: { secret, deadline: '5s' } }))
  }
  for (const { app, statuses } of apps) {
    app.get('/', async () => 'served')
    app.get('/own', { config: { rateLimit: { max: 1 } } }, async () => 'served')
    t.strictSame(await statuses('/', '/', '/', '/own', '/own'), [200, 200, 429, 200, 429])
  }
  const keys = await redis.keys('*')
  t.equal(keys.filter(key => /^limits-:\{[\w-]{22}\}$/.test(key)).length, 1, String(keys))
  t.match(await heard(), [
    {
      code: 'FST_QUOTA_NOT_CARRIED',
      message: /^fromFastifyRateLimit: redis \(of the plugin\) is not carried over as it is/
    }
  ])
})

t.test('a nameSpace that is no prefix is listed, unless there is a prefix', async t => {
  const { heard } = watchWarnings(t)
  const options = { redis: connected(), nameSpace: 'limits of ours:' }
  for (const more of [{ secret }, { secret, prefix: 'limits' }]) {
    const { app } = bare(t)
    await app.register(quota, fromFastifyRateLimit(options, { redis: more }))
    await app.ready()
  }
  const listed = (await heard()).filter(({ code }) => code === 'FST_QUOTA_NOT_CARRIED')
  t.strictSame(
    listed.map(({ message }) => message.split(' ')[1]),
    ['redis', 'nameSpace', 'redis']
  )
})

t.test('skipOnError says what happens while Redis does not answer, for a route or for all', async t => {
  const dead = await startRedis(t)
  const redis = new Redis({ port: dead.port, lazyConnect: true })
  await dead.stop()
  for (const skipOnError of [true, false]) {
    const { app, statuses } = bare(t)
    await app.register(quota, fromFastifyRateLimit({ max: 1, skipOnError, redis }, { redis: { secret } }))
    app.get('/', async () => 'served')
    app.get('/other', { config: { rateLimit: { skipOnError: !skipOnError } } }, async () => 'served')
    t.strictSame(await statuses('/', '/other'), skipOnError ? [200, 503] : [503, 200])
  }
})
