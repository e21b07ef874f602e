import t from 'tap'
import { fromFastifyRateLimit } from '../../src/migrate.js'
import quota from '../../src/index.js'
import { bare, ready } from '../plugin/kit.js'
import { CommonTime, lineOf, opened } from './kit.js'

t.test('the first route with rateLimit is deprecated, once for an app', async t => {
  const heard: string[] = []
  const listen = ({ message, name }: Error): void => void heard.push(`${name}: ${message}`)
  process.on('warning', listen)
  t.teardown(() => process.off('warning', listen))
  for (const route of ['/a', '/b']) {
    await opened(t, 'ours', new CommonTime(t), {
      routes: { '/': null as never, [route]: false, '/c': { max: 1 } }
    })
  }
  await new Promise(resolve => setImmediate(resolve))
  const text = (route: string): string =>
    `DeprecationWarning: config.rateLimit is read as long as you move, on GET ${route} first: write config.quota instead`
  t.strictSame(heard, [text('/a'), text('/b')])
})

t.test('each route is told with the policy that its rateLimit has become', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    routes: {
      '/health': false,
      '/login': { max: 5, timeWindow: '15 minutes' },
      '/send': { groupId: 'otp' },
      '/again': { groupId: 'otp' }
    }
  })
  await app.ready()
  const { routes } = app.quota.routes()
  const policies = (route: string): unknown =>
    routes
      .find(report => report.route === route)
      ?.policies.map(({ name, quota, window }) => [name, quota, window])
  t.strictSame(policies('GET /'), [['default', 1000, 60_000]])
  t.strictSame(policies('GET /health'), [])
  t.strictSame(policies('GET /login'), [['GET-login', 5, 900_000]])
  t.strictSame(policies('HEAD /login'), policies('GET /login'))
  t.strictSame(policies('GET /send'), [['group-otp', 1000, 60_000]])
  t.strictSame(policies('GET /again'), policies('GET /send'))
})

const WRONG = {
  'with a quota beside it': [
    { config: { rateLimit: { max: 1 }, quota: false } },
    'there is a quota beside it: expected one of the two, got both'
  ],
  'that is true': [{ config: { rateLimit: true } }, 'it must be false or an object, got true'],
  'with a wrong option': [
    { config: { rateLimit: { max: 'many' } } },
    'max must be a number of 0 or more, or a function of the request, got "many"'
  ],
  'with an option of the plugin': [
    { config: { rateLimit: { nameSpace: 'x' } } },
    'unknown option "nameSpace" with the value "x"; expected '
  ],
  'with other fields than the plugin': [
    { config: { rateLimit: { enableDraftSpec: true } } },
    'enableDraftSpec belongs to the plugin, got true'
  ],
  'in a group with other options': [
    { config: { rateLimit: { groupId: 'otp', max: 4 } } },
    'the routes of a group share one counter, so those of "otp" need the same options, got other ones than before'
  ]
} as const

for (const [name, [options, message]] of Object.entries(WRONG)) {
  t.test(`a rateLimit is refused ${name}`, async t => {
    const { app } = bare(t)
    await app.register(quota, fromFastifyRateLimit())
    app.get('/first', { config: { rateLimit: { groupId: 'otp', max: 3 } } }, async () => 'served')
    try {
      app.get('/wrong', options as object, async () => 'served')
      t.fail('it was accepted')
    } catch (error) {
      t.match(error, { code: 'FST_QUOTA_ROUTE' })
      t.ok(
        (error as Error).message.startsWith(`route GET /wrong: rateLimit: ${message}`),
        (error as Error).message
      )
    }
  })
}

t.test('a HEAD with other options than its GET, and a path with a constraint, count apart', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    fastify: { exposeHeadRoutes: false },
    after: app => {
      const config = (max: number): object => ({ rateLimit: { max } })
      app.route({ method: 'GET', url: '/x', config: config(1), handler: async () => 'served' })
      app.route({ method: 'HEAD', url: '/x', config: config(2), handler: async () => 'served' })
      const constraints = { host: 'example.org' }
      app.route({ method: 'GET', url: '/x', config: config(3), constraints, handler: async () => 'served' })
    }
  })
  const answers = [
    await app.inject('/x'),
    await app.inject({ method: 'HEAD', url: '/x' }),
    await app.inject({ url: '/x', headers: { host: 'example.org' } })
  ]
  t.strictSame(answers.map(lineOf), [
    '200 limit=1 remaining=0 reset=60',
    '200 limit=2 remaining=1 reset=60',
    '200 limit=3 remaining=2 reset=60'
  ])
})

t.test('routes with a quota of their own go together with others', async t => {
  const { app, statuses } = bare(t)
  await app.register(quota, fromFastifyRateLimit({ max: 1 }))
  app.get('/old', { config: { rateLimit: { max: 2 } } }, async () => 'served')
  app.get('/new', { config: { quota: [{ name: 'new', quota: 1, window: '1m' }] } }, async () => 'served')
  await ready(app)
  t.strictSame(await statuses('/old', '/new', '/new', '/old', '/old'), [200, 200, 429, 200, 429])
})
