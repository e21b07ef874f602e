import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import t from 'tap'
import { Registry, Scope } from '../src/registry.js'
import { RouteTable } from '../src/route-table.js'
import { createWarnings } from '../src/warnings.js'
import { watchWarnings } from './plugin/kit.js'

const instance = {} as FastifyInstance

function makeTable(): RouteTable {
  const scope = new Scope(new Registry())
  scope.add({ any: '9/1m', other: { quota: 9, window: '1m', default: false } })
  return new RouteTable(() => scope, createWarnings())
}

/** A route as `onRoute` sees it. */
const route = (url: string, config?: object, method: RouteOptions['method'] = 'GET'): RouteOptions =>
  ({ url, method, config }) as RouteOptions

/** A request of a route; Fastify keeps a `config` for each. */
function requestOf(
  { url, method, config }: Partial<RouteOptions>,
  is404: boolean = false,
  log: { readonly error: (...line: unknown[]) => void } = { error: () => {} }
): FastifyRequest {
  const routeOptions = { url, method, config: { ...config } }
  return { server: instance, is404, routeOptions, log } as unknown as FastifyRequest
}

const names = (table: RouteTable, request: FastifyRequest): readonly string[] | undefined =>
  table.planOf(request)?.policies.map(({ name }) => name)

t.test('a declared route has its plan once all are compiled', async t => {
  const table = makeTable()
  const [plain, own, none] = [
    route('/'),
    route('/own', { quota: ['other'] }),
    route('/none', { quota: false })
  ]
  for (const options of [plain, own, none]) table.declare(instance, options)
  t.equal(table.complete, false)
  table.compile()
  t.equal(table.complete, true)
  t.strictSame(names(table, requestOf(plain)), ['any'])
  t.strictSame(names(table, requestOf(own)), ['other'])
  t.equal(table.planOf(requestOf(none)), undefined)
  t.strictSame(
    table.reports().map(({ route, policies }) => [route, policies.length]),
    [
      ['GET /', 1],
      ['GET /own', 1],
      ['GET /none', 0]
    ]
  )
})

t.test('a route that is decided in several stages is warned of as it is compiled', async t => {
  const { heard } = watchWarnings(t)
  const scope = new Scope(new Registry())
  scope.add({ any: '9/1m', late: { quota: 9, window: '1m', hook: 'preHandler' } })
  const table = new RouteTable(() => scope, createWarnings())
  table.declare(instance, route('/staged'))
  table.declare(instance, route('/once', { quota: { hook: 'preHandler' } }))
  table.compile()
  t.match(await heard(), [
    { code: 'FST_QUOTA_STAGES', message: /^GET \/staged .*\(preParsing, preHandler\)/ }
  ])
})

t.test('a long window without a shorter one beside it is warned of, once for all routes', async t => {
  const cases: readonly (readonly [policies: object, long: string | undefined])[] = [
    [{ hourly: '9/1h' }, 'hourly'],
    [{ bucket: { quota: 60, window: '1m', algorithm: 'token-bucket', burst: 3600 } }, 'bucket'],
    [{ plan: { quota: () => 9, window: '1d' } }, 'plan'],
    [{ hourly: '9/1h', daily: '9/1d' }, 'hourly'],
    [{ daily: '9/1d', tokens: { quota: 9, window: '1m', unit: 'tokens' } }, 'daily'],
    [{ daily: '9/1d', internal: { quota: 9, window: '1m', advertise: false } }, 'daily'],
    [{ daily: '9/1d', trial: { quota: 9, window: '1m', mode: 'shadow' } }, 'daily'],
    [{ daily: '9/1d', slots: { quota: 9, algorithm: 'concurrency' } }, 'daily'],
    [{ minutes: '9/59m' }, undefined],
    [{ burst: '9/10s', daily: '9/1d' }, undefined],
    [{ internal: { quota: 9, window: '1d', advertise: false } }, undefined],
    [{ trial: { quota: 9, window: '1d', mode: 'shadow' } }, undefined],
    [{ slots: { quota: 9, algorithm: 'concurrency' } }, undefined]
  ]
  for (const [policies, long] of cases) {
    const emitted = t.capture(process, 'emitWarning')
    const scope = new Scope(new Registry())
    scope.add(policies)
    const table = new RouteTable(() => scope, createWarnings())
    for (const url of ['/none', '/a', '/b']) {
      table.declare(instance, route(url, url === '/none' ? { quota: false } : undefined))
    }
    table.compile()
    emitted.restore()
    const warned = emitted().map(({ args: [message, , code] }) => `${String(code)} ${message}`)
    t.equal(warned.length, long === undefined ? 0 : 1, JSON.stringify(policies))
    if (long !== undefined) t.match(warned[0], `FST_QUOTA_LONG_WINDOW policy "${long}" `)
    if (long !== undefined) t.match(warned[0], ' on GET /a:')
  }
})

t.test('the config that an application hands over is left as it is', async t => {
  const config = Object.freeze({ quota: ['other'], mine: true })
  const [one, two] = [route('/one', config), route('/two', config)]
  const table = makeTable()
  for (const options of [one, two]) table.declare(instance, options)
  t.match(one.config, config)
  t.not(one.config, two.config)
  t.strictSame(Object.getOwnPropertySymbols(config), [])
})

t.test('a route of several methods is one route', async t => {
  const table = makeTable()
  table.declare(instance, route('/', undefined, ['GET', 'POST']))
  t.strictSame(
    table.reports().map(({ route }) => route),
    ['GET, POST /']
  )
})

t.test('a route that was not declared is planned once, at its first request', async t => {
  const { heard } = watchWarnings(t)
  const table = makeTable()
  table.compile()
  const request = requestOf(route('/early', { quota: ['other'] }))
  t.strictSame(names(table, request), ['other'])
  t.equal(table.planOf(request), table.planOf(request))
  t.equal(table.complete, false)
  t.strictSame(
    table.reports().map(({ route }) => route),
    ['GET /early']
  )
  t.match(await heard(), [{ code: 'FST_QUOTA_EARLY_ROUTES', message: /GET \/early/ }])
})

t.test('what matches no route is planned too, and is no reason to call the table incomplete', async t => {
  const { heard } = watchWarnings(t)
  const table = makeTable()
  table.compile()
  t.strictSame(names(table, requestOf({}, true)), ['any'])
  t.equal(table.complete, true)
  t.strictSame(table.reports(), [])
  t.strictSame(await heard(), [])
})

t.test('a route that cannot be planned throws the same error at every request', async t => {
  const table = makeTable()
  table.compile()
  const request = requestOf(route('/early', { quota: ['nobody'] }))
  const errors = [1, 2].map(() => {
    try {
      return table.planOf(request)
    } catch (error) {
      return error
    }
  })
  t.match(errors[0], { code: 'FST_QUOTA_ROUTE', message: /route GET \/early.*"nobody"/ })
  t.equal(errors[0], errors[1])
  t.strictSame(table.reports(), [])
})

t.test('a route that named a policy too early works once another early route has defined it', async t => {
  watchWarnings(t)
  const table = makeTable()
  table.compile()
  const lines: unknown[] = []
  const log = { error: (...line: unknown[]) => void lines.push(line) }
  const named = requestOf(route('/named', { quota: ['placed'] }), false, log)
  const other = requestOf(
    route('/other', { quota: [{ name: 'unlike', quota: 1, window: '1m' }] }),
    false,
    log
  )
  const placing = requestOf(
    route('/placing', { quota: [{ name: 'placed', quota: 1, window: '1m' }] }),
    false,
    log
  )
  t.throws(() => table.planOf(named), { code: 'FST_QUOTA_ROUTE', message: /no policy is named "placed"/ })
  t.strictSame(names(table, other), ['unlike'])
  t.throws(() => table.planOf(named), { code: 'FST_QUOTA_ROUTE', message: /no policy is named "placed"/ })
  t.strictSame(names(table, placing), ['placed'])
  t.strictSame(names(table, named), ['placed'])
  t.equal(table.planOf(named), table.planOf(named))
  t.strictSame(
    table.reports().map(({ route }) => route),
    ['GET /other', 'GET /placing', 'GET /named']
  )
  t.match(lines, [
    [{ err: { code: 'FST_QUOTA_ROUTE' } }, 'fastify-quota: a route is refused, for its quota cannot be read']
  ])
})

t.test('what has failed is not read again until there are more policies', async t => {
  watchWarnings(t)
  const table = makeTable()
  table.compile()
  let reads = 0
  const config = {
    get quota() {
      reads++
      return ['nobody']
    }
  }
  const request = requestOf(route('/early'))
  Object.assign(request.routeOptions, { config })
  for (let i = 0; i < 3; i++) t.throws(() => table.planOf(request), { code: 'FST_QUOTA_ROUTE' })
  t.equal(reads, 1)
  table.planOf(requestOf(route('/more', { quota: [{ name: 'more', quota: 1, window: '1m' }] })))
  for (let i = 0; i < 3; i++) t.throws(() => table.planOf(request), { code: 'FST_QUOTA_ROUTE' })
  t.equal(reads, 2)
})

t.test('whoever asks for a plan has what is due done before', async t => {
  const table = makeTable()
  const declared = route('/')
  table.declare(instance, declared)
  table.compile()
  let done = 0
  table.due = () => done++
  t.match(table.planIn(declared.config), { policies: [{ name: 'any' }] })
  t.strictSame(names(table, requestOf(declared)), ['any'])
  t.equal(table.reports().length, 1)
  t.equal(done, 3)
})
