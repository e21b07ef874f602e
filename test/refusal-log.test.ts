import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota from '../src/index.js'
import type { QuotaOptions } from '../src/index.js'
import { Clock, stopProcessTime } from './plugin/kit.js'

interface Line {
  readonly level: number
  readonly msg: string
  readonly refusal?: object
}

/** An app, and what it has logged of refusals. */
async function logging(
  t: Test,
  options: Partial<QuotaOptions> = {}
): Promise<{ readonly app: FastifyInstance; readonly lines: readonly Line[]; readonly text: () => string }> {
  const lines: Line[] = []
  const written: string[] = []
  const stream = {
    write: (text: string): void => {
      const line = JSON.parse(text) as Line
      if (line.refusal === undefined) return
      lines.push(line)
      written.push(text)
    }
  }
  const app = Fastify({ logger: { level: 'info', stream } }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  const policies = {
    any: '1/1m',
    rows: { quota: 5, window: '1m', unit: 'rows', cost: 3, default: false }
  } as const
  await app.register(quota, {
    policies,
    clock: new Clock().read,
    identify: { user: () => 'ann' },
    ...options
  })
  app.get('/', async () => '')
  app.get('/rows', { config: { quota: ['rows'] } }, async () => '')
  return { app, lines, text: () => written.join('') }
}

const requests = async (app: FastifyInstance, times: number, url = '/'): Promise<void> => {
  for (let i = 0; i < times; i++) await app.inject({ url, remoteAddress: '192.0.2.7' })
}

t.test('the first refusal of each policy is a line: what was asked, what remained, and nobody', async t => {
  const { app, lines, text } = await logging(t)
  await requests(app, 2)
  await requests(app, 2, '/rows')
  const of = { level: 30, reqId: /^req-/ }
  t.match(lines, [
    { ...of, msg: 'fastify-quota: refused by policy "any"' },
    { ...of, msg: 'fastify-quota: refused by policy "rows"' }
  ])
  t.strictSame(
    lines.map(({ refusal }) => refusal),
    [
      { policy: 'any', unit: 'requests', quota: 1, asked: 1, remaining: 0, retryAfter: 60_000, leftOut: 0 },
      { policy: 'rows', unit: 'rows', quota: 5, asked: 3, remaining: 2, retryAfter: 60_000, leftOut: 0 }
    ]
  )
  t.notMatch(text(), '192.0.2.7')
})

t.test('then there is a line a minute, which counts those that have none', async t => {
  const clock = stopProcessTime(t)
  const { app, lines } = await logging(t)
  await requests(app, 10)
  t.equal(lines.length, 1)
  clock.pass(59_999)
  await requests(app, 1)
  t.equal(lines.length, 1)
  clock.pass(1)
  await requests(app, 3)
  t.match(lines[1], { refusal: { policy: 'any', leftOut: 9 } })
  clock.pass(60_000)
  await requests(app, 1)
  t.match(lines[2], { refusal: { leftOut: 2 } })
  t.equal(lines.length, 3)
})

t.test('how often is the operator to say, and whether at all', async t => {
  const clock = stopProcessTime(t)
  const often = await logging(t, { logRefusals: '1s' })
  await requests(often.app, 3)
  clock.pass(1000)
  await requests(often.app, 1)
  t.match(often.lines, [{ refusal: { leftOut: 0 } }, { refusal: { leftOut: 1 } }])
  const never = await logging(t, { logRefusals: false })
  await requests(never.app, 3)
  t.strictSame(never.lines, [])
})

t.test('a refusal that code answers with is logged as one of the hooks', async t => {
  const { app, lines } = await logging(t)
  app.get('/own', { config: { quota: false } }, async (request, reply) => {
    return reply.refuse(await app.quota.consume(request, { any: 2 }))
  })
  await requests(app, 1, '/own')
  t.match(lines, [{ refusal: { policy: 'any', asked: 2, remaining: 1, retryAfter: -1 } }])
})
