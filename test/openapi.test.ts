import swagger from '@fastify/swagger'
import type { SwaggerTransform } from '@fastify/swagger'
import { Validator } from '@seriousme/openapi-schema-validator'
import Fastify from 'fastify'
import type { FastifyInstance, RouteOptions } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../src/index.js'
import type { OpenApiTransform, QuotaOptions } from '../src/index.js'

const policies = {
  burst: '20/10s',
  tokens: { quota: 1000, window: '1m', unit: 'tokens', default: false },
  hidden: { quota: 5, window: '1m', default: false, advertise: false },
  trial: { quota: 5, window: '1m', default: false, mode: 'shadow' },
  plan: { quota: () => 5, window: '1m', default: false },
  places: { quota: 5, algorithm: 'concurrency', default: false },
  bucket: { quota: 100, window: '1m', algorithm: 'token-bucket', burst: 5, default: false }
} as const

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

interface Operation {
  readonly 'x-ratelimit-policies'?: readonly unknown[]
  readonly responses: Readonly<Record<string, Answer>>
}

interface Answer {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly description: string }>>
  readonly content?: Readonly<Record<string, { readonly schema: { readonly required?: readonly string[] } }>>
}

interface Documented {
  readonly app: FastifyInstance
  readonly operation: (path: string, method?: string) => Operation
}

/** An app that documents itself, valid by a validator of OpenAPI. */
async function documented(
  t: Test,
  options: Partial<QuotaOptions> = {},
  routes: (app: FastifyInstance) => void = () => {},
  own?: OpenApiTransform
): Promise<Documented> {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies, ...options })
  await app.register(swagger, {
    openapi: { info: { title: 'test', version: '1' } },
    transform: app.quota.openapi(own)
  })
  app.get('/', async () => 'served')
  routes(app)
  await app.ready()
  const document = app.swagger() as unknown as Document
  const { valid, errors } = await new Validator().validate(
    structuredClone(document) as unknown as Record<string, unknown>
  )
  t.ok(valid, JSON.stringify(errors))
  return { app, operation: (path, method = 'get') => document.paths[path]![method]! }
}

const FIELDS = ['RateLimit-Policy', 'RateLimit']
const REFUSAL = [...FIELDS, 'Retry-After']
const headers = (answer: Answer | undefined): readonly string[] => Object.keys(answer?.headers ?? {})

t.test('a route tells its refusals, its fields and its policies', async t => {
  const { operation } = await documented(t)
  const { responses, 'x-ratelimit-policies': told } = operation('/')
  t.strictSame(told, [{ name: 'burst', quota: 20, window: 10, unit: 'requests', partition: 'ip' }])
  t.strictSame(Object.keys(responses).toSorted(), ['200', '429', '503'])
  t.strictSame(headers(responses['200']), FIELDS)
  t.equal(responses['200']!.content, undefined, 'what nobody described stays so')
  for (const status of ['429', '503']) {
    t.strictSame(headers(responses[status]), REFUSAL, status)
    t.strictSame(Object.keys(responses[status]!.content!), ['application/problem+json'])
    t.strictSame(responses[status]!.content!['application/problem+json']!.schema.required, [
      'type',
      'title',
      'status'
    ])
  }
  t.match(responses['200']!.headers!['RateLimit']!.description, /A positive `r` is no promise/)
})

t.test('what a route describes itself is kept, and gets the fields', async t => {
  const { operation } = await documented(t, {}, app => {
    app.addSchema({ $id: 'item', type: 'object', properties: { name: { type: 'string' } } })
    const response = {
      200: { type: 'object', properties: { id: { type: 'integer' } }, headers: { ETag: { type: 'string' } } },
      '4xx': { $ref: 'item#' },
      302: { type: 'null', description: 'elsewhere' },
      '3xx': { type: 'null', description: 'elsewhere too' },
      304: { type: 'null', description: 'as before' },
      429: { type: 'object', description: 'mine', properties: { wait: { type: 'integer' } } }
    }
    app.get('/items', { schema: { summary: 'items', response } }, async () => ({ id: 1 }))
  })
  const { responses } = operation('/items')
  t.match(operation('/items'), { summary: 'items' })
  t.strictSame(headers(responses['200']), [...FIELDS, 'ETag'])
  t.strictSame(headers(responses['4XX']), FIELDS)
  t.strictSame(headers(responses['302']), [], 'a redirect carries none')
  t.strictSame(headers(responses['3XX']), [], 'nor do any')
  t.strictSame(headers(responses['304']), FIELDS, 'which leads nowhere else')
  t.equal(responses['429']!.description, 'mine')
  t.strictSame(headers(responses['429']), REFUSAL)
  t.strictSame(Object.keys(responses['429']!.content!), ['application/json'])
})

t.test('a header that a route describes itself is not told twice, however it is written', async t => {
  const { operation } = await documented(t, {}, app => {
    const response = {
      429: { type: 'null', headers: { 'retry-after': { type: 'integer', description: 'mine' } } }
    }
    app.get('/items', { schema: { response } }, async () => 'served')
  })
  const answer = operation('/items').responses['429']!
  t.strictSame(headers(answer), [...FIELDS, 'retry-after'])
  t.equal(answer.headers!['retry-after']!.description, 'mine')
})

t.test('the document changes nothing about a response', async t => {
  const { app } = await documented(t, {}, app => {
    const response = { 200: { type: 'object', properties: { id: { type: 'integer' } } } }
    app.get('/items', { schema: { response } }, async () => ({ id: 1, secret: 'left out by the schema' }))
  })
  t.strictSame((await app.inject('/items')).json(), { id: 1 })
  const refused = await app.quota.consume({ ip: '127.0.0.1' }, { burst: 19 }).then(() => app.inject('/items'))
  t.equal(refused.statusCode, 429)
  t.match(refused.json(), { title: 'Quota Exceeded', 'violated-policies': ['burst'] })
})

t.test('units, plans and places are told as they are, internal and shadow policies not at all', async t => {
  const { operation } = await documented(t, {}, app => {
    const names = ['tokens', 'hidden', 'trial', 'plan', 'places'] as const
    app.post('/chat', { config: { quota: [...names] } }, async () => 'done')
    app.get('/bucket', { config: { quota: ['bucket'] } }, async () => 'done')
    app.post('/inside', { config: { quota: ['hidden'] } }, async () => 'done')
    app.post('/trial', { config: { quota: ['trial'] } }, async () => 'done')
    app.get('/free', { config: { quota: false } }, async () => 'done')
  })
  t.strictSame(operation('/chat', 'post')['x-ratelimit-policies'], [
    { name: 'tokens', quota: 1000, window: 60, unit: 'tokens', partition: 'ip' },
    { name: 'plan', quota: 'by request', window: 60, unit: 'requests', partition: 'ip' },
    { name: 'places', quota: 5, unit: 'concurrent-requests', partition: 'ip' }
  ])
  t.strictSame(
    operation('/bucket')['x-ratelimit-policies'],
    [{ name: 'bucket', quota: 5, window: 3, unit: 'requests', partition: 'ip' }],
    'as in RateLimit-Policy'
  )
  const inside = operation('/inside', 'post')
  t.strictSame(inside['x-ratelimit-policies'], [])
  t.strictSame(headers(inside.responses['200']), [])
  t.strictSame(headers(inside.responses['429']), ['Retry-After'])
  for (const [path, method] of [
    ['/trial', 'post'],
    ['/free', 'get']
  ] as const) {
    t.strictSame(Object.keys(operation(path, method).responses), ['200'], path)
    t.equal(operation(path, method)['x-ratelimit-policies'], undefined, path)
  }
})

t.test('the body of a refusal is documented as it is sent', async t => {
  const content = async (problem: QuotaOptions['problem']): Promise<unknown> => {
    const { operation } = await documented(t, { problem })
    return operation('/').responses['429']!.content
  }
  t.match(await content(false), {
    'application/json': { schema: { required: ['statusCode', 'error', 'message'] } }
  })
  t.match(await content(() => ({ why: 'quota' })), {
    'application/problem+json': { schema: { type: 'object' } }
  })
})

t.test('without the fields only the wait is told', async t => {
  const { operation } = await documented(t, { fields: false })
  t.strictSame(headers(operation('/').responses['200']), [])
  t.strictSame(headers(operation('/').responses['429']), ['Retry-After'])
})

t.test('Swagger 2.0 is told the same in its own terms', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies })
  await app.register(swagger, {
    swagger: { info: { title: 'test', version: '1' } },
    transform: app.quota.openapi()
  })
  app.get('/', async () => 'served')
  await app.ready()
  const document = app.swagger() as unknown as Document
  const { valid, errors } = await new Validator().validate(
    structuredClone(document) as unknown as Record<string, unknown>
  )
  t.ok(valid, JSON.stringify(errors))
  const { responses } = document.paths['/']!['get']!
  for (const status of ['429', '503']) {
    t.strictSame(headers(responses[status]), REFUSAL, status)
    t.match(responses[status], { schema: { required: ['type', 'title', 'status'] } })
  }
})

t.test("the application's own transform comes first", async t => {
  const own: OpenApiTransform = ({ schema, url }) => ({
    schema: { ...schema, response: { 201: { type: 'null', description: 'made' } } },
    url: `/v1${url}`
  })
  const { operation } = await documented(t, {}, () => {}, own)
  t.strictSame(Object.keys(operation('/v1/').responses).toSorted(), ['201', '429', '503'])
})

t.test('a transform for the document of the library, as of a schema library, is one too', async t => {
  const seen: unknown[] = []
  const own: SwaggerTransform = ({ schema, url, ...document }) => {
    seen.push(...Object.keys(document))
    return { schema: { ...schema, summary: 'theirs' }, url }
  }
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies })
  const transform: SwaggerTransform = app.quota.openapi(own)
  await app.register(swagger, { openapi: { info: { title: 'test', version: '1' } }, transform })
  app.get('/', async () => 'served')
  await app.ready()
  t.match((app.swagger() as unknown as Document).paths['/']!['get'], {
    summary: 'theirs',
    responses: { 429: {} }
  })
  t.ok(seen.includes('openapiObject'))
})

t.test('a transform that is no function is refused where it is given', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies })
  t.throws(() => app.quota.openapi({ openapi: {} } as unknown as OpenApiTransform), {
    code: 'FST_QUOTA_OPTION',
    message: 'app.quota: transform of openapi must be a function, got {"openapi":{}}'
  })
})

t.test('what a schema library made is not taken apart', async t => {
  class Library {
    readonly type = 'null'
    readonly description = 'theirs'
  }
  const theirs = new Library()
  const own: OpenApiTransform = ({ schema, url }) => ({
    schema: { ...schema, response: { 200: theirs, 204: 'theirs' } },
    url
  })
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies })
  const transform = app.quota.openapi(own)
  const routes: RouteOptions[] = []
  app.addHook('onRoute', route => void routes.push(route))
  app.get('/', async () => 'served')
  await app.ready()
  const [route] = routes
  const { schema } = transform({ schema: {}, url: '/', route: route! })
  t.match(schema.response, { 204: 'theirs', 429: { headers: {} } })
  t.equal((schema.response as Record<string, unknown>)['200'], theirs)
})
