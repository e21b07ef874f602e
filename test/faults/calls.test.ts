import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import type { Decision, FailureMode, Source } from '../../src/index.js'
import { startRedis } from '../redis/servers.js'
import type { RedisServer } from '../redis/servers.js'
import { eventually, needsRedis, redisDecides, serveRedis } from './kit.js'
import type { Policies } from './kit.js'

t.setTimeout(120_000)

const QUOTA = 1000

/** What becomes of a server. */
const outages = {
  'is down': (redis: RedisServer): unknown => redis.kill(),
  hangs: (redis: RedisServer): unknown => redis.pause()
} as const

/** Who decides then, and whether that is for or against somebody who has spent nothing. */
const modes: Readonly<Record<FailureMode, readonly [source: Source, outcome: 'allowed' | 'refused']>> = {
  open: ['open', 'allowed'],
  closed: ['closed', 'refused'],
  local: ['local', 'allowed']
}

const policies: Policies = {
  daily: { quota: QUOTA, window: '1d', partition: 'global' },
  tokens: { quota: QUOTA, window: '1d', unit: 'tokens', partition: 'global', cost: 10, default: false },
  places: { quota: 10, algorithm: 'concurrency', partition: 'global', default: false }
}

type Act = (request: FastifyRequest) => unknown

interface Rig {
  readonly redis: RedisServer
  readonly app: FastifyInstance
  /** Sends a request whose handler does this, and gives its status and body. */
  readonly act: (
    act: Act
  ) => Promise<{ readonly status: number; readonly body: string; readonly wait: unknown }>
  /** Errors that have reached the error handler, or that Fastify has noticed. */
  readonly errors: readonly unknown[]
}

async function rig(t: Test, mode: FailureMode): Promise<Rig> {
  const redis = await startRedis(t)
  const app = await serveRedis(t, redis.port, policies, { onFailure: mode, deadline: '200ms' })
  const errors: unknown[] = []
  let now: Act = () => {}
  app.addHook('onError', async (_request, _reply, error) => void errors.push(error))
  app.setErrorHandler((error, _request, reply) => {
    errors.push(error)
    return reply.code(500).send()
  })
  app.get('/', { config: { quota: ['daily', 'tokens', 'places'] } }, async request => {
    await now(request)
    return 'served'
  })
  app.get('/by-hand', { config: { quota: false } }, async (_request, reply) => {
    const decision = await app.quota.consume({}, { daily: QUOTA + 1 })
    return decision.outcome === 'refused' ? reply.refuse(decision) : 'served'
  })
  await redisDecides(app, 'daily')
  const act: Rig['act'] = async act => {
    now = act
    const { statusCode, body, headers } = await app.inject('/')
    return { status: statusCode, body, wait: headers['retry-after'] }
  }
  return { redis, app, act, errors }
}

interface Case {
  readonly mode: FailureMode
  readonly source: Source
  readonly outcome: 'allowed' | 'refused'
  readonly begin: (redis: RedisServer) => unknown
}

const remaining = ({ limits }: Decision): readonly number[] => limits.map(({ remaining }) => remaining)

async function fromOutside(t: Test, { mode, source, outcome, begin }: Case): Promise<void> {
  const { redis, app } = await rig(t, mode)
  const isLocal = mode === 'local'
  await begin(redis)
  const consumed = await app.quota.consume({}, { daily: 1, tokens: 5 })
  t.match(consumed, { source, outcome })
  t.equal(consumed.limits.length, isLocal ? 2 : 0)
  t.match(await app.quota.peek({}), { source, outcome })
  const reserved = await app.quota.reserve({}, 'tokens', 20)
  t.match(reserved, { source, outcome })
  await reserved.settle(7)
  if (isLocal) {
    const again = reserved.settle(7)
    await t.rejects(again, { code: 'FST_QUOTA_SETTLED' }, "a mistake of the caller's is one as ever")
  }
  const place = await app.quota.reserve({}, 'places', 1)
  t.match(place, { source, outcome })
  await place.release()
  const left = await app.quota.peek({}, ['tokens', 'places'])
  t.strictSame(remaining(left), isLocal ? [QUOTA - 5 - 7, 10] : [], 'what is counted here is counted')
  await app.quota.reset({}, ['daily', 'tokens'])
  t.strictSame(remaining(await app.quota.peek({}, ['tokens'])), isLocal ? [QUOTA] : [])
}

async function inHandler(t: Test, { mode, source, outcome, begin }: Case): Promise<void> {
  const { redis, act, errors } = await rig(t, mode)
  // A loaded machine may miss the deadline of the first.
  const served = await eventually('a request that Redis admits', async () => {
    let admitted = false
    const answer = await act(async request => {
      if (request.quota.source !== 'redis') return
      admitted = true
      await begin(redis)
      await request.quota.spend('daily', 3)
      const reserved = await request.quota.reserve('daily', 2)
      t.match(reserved, { source, outcome })
      await reserved.release()
      await request.quota.settle('tokens', 25)
      await request.quota.release('places')
    })
    return admitted && answer
  })
  t.match(served, { status: 200, body: 'served' })
  t.strictSame(errors, [])
}

async function atTheHook(t: Test, { mode, source, outcome, begin }: Case): Promise<void> {
  const { redis, app, act, errors } = await rig(t, mode)
  await begin(redis)
  const decided = await act(async request => {
    t.match(request.quota, { source, outcome })
    await request.quota.spend('daily', 3)
    await request.quota.settle('tokens', 2)
  })
  t.match(
    decided,
    outcome === 'allowed' ? { status: 200, wait: undefined } : { status: 503, wait: /^[1-9]$/ }
  )
  const decision = await app.quota.consume({}, { daily: QUOTA + 1 })
  t.equal(decision.outcome, mode === 'open' ? 'allowed' : 'refused')
  t.strictSame(errors, [])
}

/** A decision made in an outage is refused as any other one is; its route has no quota itself. */
async function byHand(t: Test, { mode, begin }: Case): Promise<void> {
  const { redis, app, errors } = await rig(t, mode)
  await begin(redis)
  const { statusCode, headers, body } = await app.inject('/by-hand')
  t.equal(statusCode, { open: 200, closed: 503, local: 429 }[mode])
  if (mode !== 'open') t.equal(JSON.parse(body).status, statusCode)
  t.match(headers['retry-after'], mode === 'closed' ? /^[1-9]$/ : undefined)
  t.equal(headers['ratelimit'], mode === 'local' ? '"daily";r=1000;t=86400' : undefined)
  t.strictSame(errors, [])
}

for (const [outage, begin] of Object.entries(outages)) {
  for (const mode of Object.keys(modes) as FailureMode[]) {
    const [source, outcome] = modes[mode]
    const found = { mode, source, outcome, begin }
    const test = (what: string, work: (t: Test, found: Case) => Promise<void>): unknown =>
      t.test(`${mode}, Redis ${outage}: ${what}`, needsRedis, t => work(t, found))
    test('what code asks of app.quota is answered', fromOutside)
    test('a request that was admitted before is corrected and served', inHandler)
    test('a request is decided as that says, and does not become an error', atTheHook)
    test('a decision is refused by hand', byHand)
  }
}
