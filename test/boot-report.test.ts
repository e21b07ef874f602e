import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota, { memoryStore } from '../src/index.js'
import type { QuotaOptions } from '../src/index.js'
import { LaterStore } from './plugin/kit.js'

interface Line {
  readonly level: number
  readonly msg: string
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
    const one = await booted(t, { policies: { daily: '9/1d' } }, app => app.get('/', handler))
    t.match(one, [
      {
        level: 30,
        routes: 1,
        policies: 1,
        store: 'memory',
        fields: ['draft-11'],
        warnings: ['FST_QUOTA_LONG_WINDOW'],
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
    warnings: ['FST_QUOTA_EARLY_ROUTES'],
    msg: 'fastify-quota: 1 route with quota besides those declared before it, 1 policy, counted in memory'
  })
})

t.test('another line names the routes that no policy limits, but for those that say so', async t => {
  const policies = { login: { quota: 9, window: '1m', default: false } } as const
  const some = await booted(t, { policies }, app => {
    app.get('/a', handler)
    app.post('/b', handler)
    app.get('/health', { config: { quota: false } }, handler)
    app.post('/login', { config: { quota: ['login'] } }, handler)
  })
  t.match(some[1], {
    level: 40,
    msg:
      'fastify-quota: no policy limits GET /a, POST /b, for none is a default there: name one in config.quota, or write ' +
      'quota: false'
  })
  const many = await booted(t, { policies }, app => {
    for (let i = 0; i < 22; i++) app.get(`/${i}`, handler)
  })
  t.match(many[1]?.msg, 'GET /18, GET /19, and 2 more, for none')
})
