import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { build as bootReport, unlimited } from '../examples/boot-report.js'
import { build as degrade } from '../examples/degrade.js'
import { build as refusalLog } from '../examples/refusal-log.js'

interface Line {
  readonly level: number
  readonly msg: string
  readonly reqId?: string
  readonly warnings?: readonly { readonly code: string; readonly message: string }[]
  readonly refusal?: object
}

/** A logger whose lines are kept. */
function logger(): { readonly lines: Line[]; readonly stream: { write(text: string): void } } {
  const lines: Line[] = []
  return { lines, stream: { write: text => void lines.push(JSON.parse(text) as Line) } }
}

/** The app, closed when the test ends. */
async function opened(t: Test, app: Promise<FastifyInstance>): Promise<FastifyInstance> {
  const instance = await app
  t.teardown(() => instance.close())
  return instance
}

t.test('boot-report: the log says what is limited and what to write, and code finds what is not', async t => {
  const { lines, stream } = logger()
  t.capture(process, 'emitWarning')
  const app = await opened(t, bootReport({ stream }))
  await app.ready()
  t.match(lines, [
    {
      level: 30,
      msg: 'fastify-quota: 3 routes with quota, 2 policies, counted in memory',
      warnings: [
        {
          code: 'FST_QUOTA_LONG_WINDOW',
          message: /"daily".* on GET \/reports:.* add a policy of the same unit/
        },
        {
          code: 'FST_QUOTA_UNLIMITED',
          message: /GET \/items.*: name one in config\.quota, or write quota: false/
        }
      ]
    }
  ])
  t.strictSame(unlimited(app), ['GET /health', 'HEAD /health', 'GET /items', 'HEAD /items'])
})

t.test('refusal-log: a line for the first refusal of each policy, and none for the next', async t => {
  const { lines, stream } = logger()
  const app = await opened(t, refusalLog({ stream }))
  for (let i = 0; i < 9; i++) await app.inject('/')
  for (let i = 0; i < 3; i++) await app.inject('/rows')
  const refusals = lines.filter(({ refusal }) => refusal !== undefined)
  t.match(refusals, [
    {
      level: 30,
      msg: 'fastify-quota: refused by policy "default"',
      reqId: 'req-4',
      refusal: { policy: 'default', unit: 'requests', quota: 3, asked: 1, remaining: 0, leftOut: 0 }
    },
    {
      msg: 'fastify-quota: refused by policy "rows"',
      reqId: 'req-b',
      refusal: { policy: 'rows', unit: 'rows', quota: 100, asked: 60, remaining: 40, leftOut: 0 }
    }
  ])
  t.equal(refusals.length, 2)
})

t.test('degrade: who asks much gets less for it, and is refused only later', async t => {
  const app = await opened(t, degrade())
  const answers: unknown[] = []
  for (let i = 0; i < 6; i++) {
    const { statusCode, payload, headers } = await app.inject('/search')
    t.equal(headers['ratelimit-policy'], '"default";q=5;w=60', 'nobody is told of the other one')
    answers.push(statusCode === 200 ? (JSON.parse(payload) as { complete: boolean }).complete : statusCode)
  }
  t.strictSame(answers, [true, true, false, false, false, 429])
})
