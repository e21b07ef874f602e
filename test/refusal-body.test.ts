import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Decision, QuotaOptions } from '../src/index.js'
import { start } from './fixtures/wire.js'
import type { Ending } from './fixtures/wire.js'

const DRAFT = JSON.stringify({
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
  title: 'Quota Exceeded',
  status: 429,
  detail: 'Quota "burst" allows 1 request per 10 seconds and is used up. Try again in 10 seconds.',
  'violated-policies': ['burst']
})

interface Told {
  readonly status: number
  readonly type: unknown
  readonly body: string
  /** What was logged. */
  readonly lines: readonly Readonly<Record<string, unknown>>[]
}

/** The third answer of a server whose quota is one request. */
async function refusal(t: Ending, problem: unknown, status: 429 | 503 = 429): Promise<Told> {
  const lines: Record<string, unknown>[] = []
  const options = { policies: { burst: { quota: 1, window: 10, status } }, problem } as QuotaOptions
  const { app } = await start(t, options, {
    server: { logger: { level: 'warn', stream: { write: line => void lines.push(JSON.parse(line)) } } }
  })
  await app.inject('/')
  await app.inject('/')
  const { statusCode, headers, body } = await app.inject('/')
  if (headers['content-length'] !== String(Buffer.byteLength(body))) throw new Error('wrong length')
  return { status: statusCode, type: headers['content-type'], body, lines }
}

const PROBLEM_JSON = 'application/problem+json; charset=utf-8'

t.test('left out, the body is a problem of the draft', async t => {
  t.strictSame(await refusal(t, undefined), { status: 429, type: PROBLEM_JSON, body: DRAFT, lines: [] })
})

t.test('false makes it the body that Fastify gives an error of that status', async t => {
  const { app } = await start(
    t,
    { policies: { burst: '9/10s' } },
    {
      routes: app =>
        app.get<{ Params: { status: number } }>('/:status', async ({ params }) => {
          throw Object.assign(new Error(JSON.parse(DRAFT).detail), { statusCode: params.status })
        })
    }
  )
  for (const status of [429, 503] as const) {
    const { headers, body } = await app.inject(`/${status}`)
    t.strictSame(await refusal(t, false, status), { status, type: headers['content-type'], body, lines: [] })
  }
})

t.test('a function makes it, from the decision and the request', async t => {
  const calls: unknown[] = []
  const problem = (decision: Decision, request: FastifyRequest): object => {
    calls.push([decision.outcome, decision.limits === request.quota.limits, request.url])
    return { title: 'Zu viele – später', names: decision.limits.map(({ policy }) => policy.name) }
  }
  t.strictSame(await refusal(t, problem), {
    status: 429,
    type: PROBLEM_JSON,
    body: '{"title":"Zu viele – später","names":["burst"]}',
    lines: []
  })
  t.strictSame(calls, [
    ['refused', true, '/'],
    ['refused', true, '/']
  ])
})

t.test('it may state the status of the response, and no other', async t => {
  t.equal((await refusal(t, () => ({ status: 503 }), 503)).body, '{"status":503}')
  for (const [status, shown] of [
    [200, '200'],
    [503, '503'],
    ['429', '"429"'],
    [null, 'null'],
    [Number.NaN, 'null']
  ] as const) {
    const { body, lines } = await refusal(t, () => ({ status }))
    t.equal(body, DRAFT)
    t.match(lines, [
      { err: { message: `problem must return the status of the response, 429, got ${shown}` } }
    ])
  }
})

t.test('the status that counts is the one in the text that is sent', async t => {
  class Body {
    readonly status = 500
    readonly #sent: object
    constructor(sent: object) {
      this.#sent = sent
    }
    toJSON(): object {
      return this.#sent
    }
  }
  for (const [sent, text] of [
    [{ title: 'Slow down' }, '{"title":"Slow down"}'],
    [{ status: 429 }, '{"status":429}'],
    [{ status: undefined }, '{}'],
    [Object.create({ status: 500 }), '{}']
  ] as const) {
    const { body, lines } = await refusal(t, () => new Body(sent))
    t.equal(body, text)
    t.strictSame(lines, [])
  }
  const { body, lines } = await refusal(t, () => ({ status: 429, toJSON: () => ({ status: 200 }) }))
  t.equal(body, DRAFT)
  t.match(lines, [{ err: { message: 'problem must return the status of the response, 429, got 200' } }])
})

t.test('a function that fails leaves the body of the draft and one line in the log', async t => {
  const circular: Record<string, unknown> = {}
  circular['itself'] = circular
  const cases: readonly (readonly [problem: () => unknown, why: RegExp])[] = [
    [
      () => {
        throw new Error('broken')
      },
      /broken/
    ],
    [
      () => {
        throw 'broken' // oxlint-disable-line typescript/only-throw-error -- an operator's function may
      },
      /broken/
    ],
    [async () => ({ title: 'late' }), /must return an object, got a promise/],
    [async () => Promise.reject(new Error('rejected')), /must return an object, got a promise/],
    [() => undefined, /must return an object, got undefined/],
    [() => null, /must return an object, got null/],
    [() => 'Too many', /must return an object, got "Too many"/],
    [() => '{"title":"text"}', /must return an object, got "{/],
    [() => 429, /must return an object, got 429/],
    [() => ['a'], /must return an object, got \["a"\]/],
    [() => new Date(0), /must return an object, got /],
    [() => () => ({}), /must return an object, got a function/],
    [() => ({ toJSON: () => undefined }), /must return an object, got /],
    [() => ({ count: 1n }), /BigInt/],
    [() => circular, /circular/]
  ]
  for (const [problem, why] of cases) {
    const { lines, ...told } = await refusal(t, problem)
    t.strictSame(told, { status: 429, type: PROBLEM_JSON, body: DRAFT }, String(problem))
    t.equal(lines.length, 1, 'at most one in a minute')
    const { level, option, msg, err } = lines[0] ?? {}
    t.strictSame(
      [level, option, msg],
      [50, 'problem', "fastify-quota: problem failed, so the body is the draft's"]
    )
    t.match(typeof err === 'object' ? (err as Error).message : err, why)
  }
})

t.test('a refusal tells of its own wait, whatever was told to others before', async t => {
  const { app, clock } = await start(t, {
    policies: { burst: { quota: 1, window: '59m' }, other: { quota: 9, window: '1m' } }
  })
  await app.inject('/')
  for (const waits of [1100, 5]) {
    for (let i = 0; i < waits; i++) {
      clock.now += 1000
      const { statusCode, headers, body } = await app.inject('/')
      const wait = Number(headers['retry-after'])
      const told = wait < 120 ? `${wait} seconds` : `${Math.ceil(wait / 60)} minutes`
      if (statusCode !== 429 || !body.includes(`Try again in ${told}.`)) {
        t.fail(`${statusCode}, ${wait}: ${body}`)
      }
    }
  }
  const { headers, body } = await app.inject('/')
  t.equal(headers['content-length'], String(Buffer.byteLength(body)))
})
