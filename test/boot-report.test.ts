import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota, { memoryStore } from '../src/index.js'
import type { QuotaOptions } from '../src/index.js'
import { fromFastifyRateLimit } from '../src/migrate.js'
import type { Advice } from '../src/warnings.js'
import { LaterStore } from './plugin/kit.js'

interface Line {
  readonly level: number
  readonly msg: string
  readonly warnings: readonly Advice[]
}

/** What an app has logged when it is ready. */
async function booted(
  t: Test,
  options: QuotaOptions,
  routes: (app: FastifyInstance) => void = () => {},
  early: (app: FastifyInstance) => void = () => {}
): Promise<readonly Line[]> {
  const lines: Line[] = []
  const stream = { write: (text: string) => void lines.push(JSON.parse(text) as Line) }
  const app = Fastify({
    logger: { level: 'info', stream },
    exposeHeadRoutes: false
  }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  t.capture(process, 'emitWarning')
  early(app)
  await app.register(quota, options)
  routes(app)
  await app.ready()
  return lines
}

const handler = async (): Promise<string> => ''

t.test(
  'a line says how many routes and policies there are, where they are counted, and what is told',
  async t => {
    const one = await booted(t, { policies: { any: '9/1m' } }, app => app.get('/', handler))
    t.match(one, [
      {
        level: 30,
        routes: 1,
        policies: 1,
        store: 'memory',
        fields: ['draft-11'],
        warnings: [],
        msg: 'fastify-quota: 1 route with quota, 1 policy, counted in memory'
      }
    ])
    const legacy = { style: 'x-ratelimit', reset: 'delta' } as const
    const policies = { any: '9/1m', other: { quota: 9, window: '1m', default: false } } as const
    const two = await booted(t, { policies, legacy, store: memoryStore() }, app => {
      app.get('/', handler)
      app.get('/free', { config: { quota: false } }, handler)
      app.get('/other', { config: { quota: ['other'] } }, handler)
    })
    t.match(two, [
      {
        fields: ['draft-11', 'x-ratelimit'],
        warnings: [],
        msg: 'fastify-quota: 2 routes with quota, 2 policies, counted in memory'
      }
    ])
    const own = { policies, fields: false, legacy: 'draft-7', store: new LaterStore(Date.now) } as const
    t.match(await booted(t, own), [
      {
        fields: ['draft-7'],
        msg: 'fastify-quota: 0 routes with quota, 2 policies, counted in a store of your own'
      }
    ])
  }
)

t.test('routes that were declared before are told, though not counted', async t => {
  const add = (url: string) => (app: FastifyInstance) => void app.get(url, handler)
  const [line] = await booted(t, { policies: { any: '9/1m' } }, add('/after'), add('/before'))
  t.match(line, {
    routes: 1,
    warnings: [{ code: 'FST_QUOTA_EARLY_ROUTES' }],
    msg: 'fastify-quota: 1 route with quota besides those declared before it, 1 policy, counted in memory'
  })
})

/** The codes of what an app is advised, and what the advice is about. */
const advised = ([line]: readonly Line[]): readonly string[] =>
  line!.warnings.map(({ code, message }) => `${code} ${message.slice(0, 30)}`)

t.test(
  'the line has all advice on options, policies and routes, each with what to write instead',
  async t => {
    const policies = {
      a: { quota: 9, window: '1500ms', default: false },
      b: { quota: 100, window: '1s', algorithm: 'token-bucket', burst: 5, default: false },
      c: { quota: 9, window: '1m', cost: 10, default: false },
      long: { quota: 9, window: '1h', default: false },
      small: { quota: 9, window: '1m', default: false },
      large: { quota: 10, window: '1m', default: false },
      late: { quota: 9, window: '1m', hook: 'preHandler', default: false }
    } as const
    const lines = await booted(t, { policies }, app => {
      app.get('/long', { config: { quota: ['long'] } }, handler)
      app.get('/twice', { config: { quota: ['small', 'large'] } }, handler)
      app.get('/stages', { config: { quota: ['small', 'late'] } }, handler)
      app.get('/dear', { config: { quota: { policies: ['small'], cost: 99 } } }, handler)
      app.get('/free', handler)
    })
    t.equal(lines.length, 1)
    t.strictSame(advised(lines), [
      'FST_QUOTA_SUB_SECOND policy "a": its window of 1500',
      'FST_QUOTA_SMALL_BURST policy "b": it holds no more t',
      'FST_QUOTA_COST policy "c": each request costs',
      'FST_QUOTA_LONG_WINDOW policy "long" has a window of ',
      'FST_QUOTA_STAGES GET /stages is decided in seve',
      'FST_QUOTA_COST GET /dear: each request costs ',
      'FST_QUOTA_REDUNDANT policy "large" never refuses: ',
      'FST_QUOTA_UNLIMITED no policy limits GET /free, fo'
    ])
  }
)

t.test('it has what was not carried over from another limiter', async t => {
  const lines = await booted(t, fromFastifyRateLimit({ ban: 3, exponentialBackoff: true }))
  t.strictSame(advised(lines), [
    'FST_QUOTA_NOT_CARRIED fromFastifyRateLimit: ban (of ',
    'FST_QUOTA_NOT_CARRIED fromFastifyRateLimit: exponent'
  ])
})

t.test('all of it is warned of, too', async t => {
  const emitted = t.capture(process, 'emitWarning')
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies: { long: { quota: 9, window: '1h', default: false } } })
  app.get('/long', { config: { quota: ['long'] } }, handler)
  app.get('/free', handler)
  await app.ready()
  t.strictSame(
    emitted().map(({ args: [, , code] }) => code),
    ['FST_QUOTA_LONG_WINDOW', 'FST_QUOTA_UNLIMITED']
  )
})

t.test('routes without a policy are named, but for those that say so, and the first of many', async t => {
  const policies = { login: { quota: 9, window: '1m', default: false } } as const
  const [some] = await booted(t, { policies }, app => {
    app.get('/a', handler)
    app.post('/b', handler)
    app.get('/health', { config: { quota: false } }, handler)
    app.post('/login', { config: { quota: ['login'] } }, handler)
  })
  t.match(some!.warnings, [
    {
      code: 'FST_QUOTA_UNLIMITED',
      message: 'no policy limits GET /a, POST /b, for none is a default there: name one in config.quota'
    }
  ])
  const [many] = await booted(t, { policies }, app => {
    for (let i = 0; i < 22; i++) app.get(`/${i}`, handler)
  })
  t.match(many!.warnings[0]!.message, 'GET /18, GET /19, and 2 more, for none')
})
