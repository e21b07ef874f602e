import t from 'tap'
import { fromFastifyRateLimit } from '../../src/migrate.js'
import quota from '../../src/index.js'
import { bare, ready } from '../plugin/kit.js'
import { CommonTime, as, opened } from './kit.js'

t.test('calls that are not here any more say what to write instead', async t => {
  const app = (await opened(t, 'ours', new CommonTime(t), {})) as unknown as Record<string, () => void>
  t.throws(() => app['rateLimit']!(), {
    code: 'FST_QUOTA_OPTION',
    message: /^app\.rateLimit\(\) is not carried over: name policies in config\.quota/
  })
  t.throws(() => app['createRateLimit']!(), {
    code: 'FST_QUOTA_OPTION',
    message: /^app\.createRateLimit\(\) is not carried over: write app\.quota\.consume/
  })
})

t.test('calls that somebody else still has are left alone', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    before: app => void app.decorate('rateLimit', () => 'somebody else’s' as never)
  })
  t.equal(app.rateLimit(), 'somebody else’s')
})

t.test('what a function does wrong that is told is logged', async t => {
  const { app, errors } = bare(t)
  const silent = async (): Promise<never> => Promise.reject(new Error('nobody listens'))
  await app.register(quota, fromFastifyRateLimit({ max: 1 }))
  app.get(
    '/told',
    { config: { rateLimit: { onExceeding: silent, onExceeded: silent } } },
    async () => 'served'
  )
  await app.inject('/told')
  await app.inject('/told')
  await new Promise(resolve => setImmediate(resolve))
  t.strictSame(
    errors.map(({ option }) => option),
    ['onExceeding', 'onRefused']
  )
})

t.test('a route keeps the hooks it has of its own', async t => {
  const told: string[] = []
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { max: 2, onExceeding: () => void told.push('served') },
    after: app => {
      const hook = async (): Promise<void> => void told.push('own')
      app.get('/one', { preParsing: hook }, async () => 'served')
      app.get('/two', { preParsing: [hook, hook] }, async () => 'served')
    }
  })
  await app.inject('/one')
  await app.inject('/two')
  t.strictSame(told, ['own', 'served', 'own', 'own', 'served'])
})

t.test('options may be used for several apps', async t => {
  const moved = fromFastifyRateLimit({ max: 1, keyGenerator: request => String(request.headers['x-user']) })
  for (let i = 0; i < 2; i++) {
    const { app, statuses } = bare(t)
    await app.register(quota, moved)
    app.get('/', { config: { rateLimit: { max: 1 } } }, async () => 'served')
    t.strictSame(await statuses(as('1'), as('1'), as('2')), [200, 429, 200])
  }
})

t.test('windows that slide admit no more than the limit around an edge', async t => {
  const admitted = async (algorithm?: 'sliding-window'): Promise<number> => {
    const { app, clock, statuses } = bare(t)
    const moved = fromFastifyRateLimit(
      { max: 2, timeWindow: 10_000 },
      algorithm === undefined ? {} : { algorithm }
    )
    await app.register(quota, { ...moved, clock: clock.read })
    app.get('/', async () => 'served')
    app.get('/own', { config: { rateLimit: { max: 1 } } }, async () => 'served')
    const first = await statuses('/')
    clock.pass(9999)
    const before = await statuses('/', '/own')
    clock.pass(1)
    return [...first, ...before, ...(await statuses('/', '/', '/own'))].filter(status => status === 200)
      .length
  }
  t.equal(await admitted(), 5)
  t.equal(await admitted('sliding-window'), 4)
})

t.test('a second registration further in is told what belongs to the first one', async t => {
  const { app } = bare(t)
  await app.register(quota, fromFastifyRateLimit())
  app.register(async child => {
    await child.register(quota, fromFastifyRateLimit({ max: 1 }))
  })
  await t.rejects(ready(app), {
    code: 'FST_QUOTA_OPTION',
    message: /legacy belongs to the first registration/
  })
})
