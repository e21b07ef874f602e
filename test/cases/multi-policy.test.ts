import t from 'tap'
import type { Legacy, PolicyOptions, QuotaOptions } from '../../src/index.js'
import quota from '../../src/index.js'
import Fastify from 'fastify'
import { ask, fieldCase, inBothStores, repeat, statuses } from './kit.js'
import type { Told } from './kit.js'

t.setTimeout(120_000)

const admitted = (answers: readonly Told[]): number => answers.filter(({ status }) => status === 200).length

const violated = ({ body }: Told): unknown =>
  (JSON.parse(body) as Readonly<Record<string, unknown>>)['violated-policies']

/** What an address has left, by policy. */
async function left(
  app: Parameters<typeof ask>[0],
  ...policies: readonly string[]
): Promise<Readonly<Record<string, number>>> {
  const { limits } = await app.quota.peek({ ip: '127.0.0.1' }, policies)
  return Object.fromEntries(limits.map(({ policy, remaining }) => [policy.name, remaining]))
}

fieldCase('C101', 'two windows of one client are two counters, and each counts what is admitted', async t => {
  await inBothStores(t, async (t, serve) => {
    const { app, clock } = await serve({
      minute: { quota: 5, window: '1m' },
      day: { quota: 50, window: '1d' }
    })
    const first = await repeat(app, 6)
    t.strictSame(
      first.map(({ status, limits }) => [status, ...limits.map(({ name, r }) => `${name} ${String(r)}`)]),
      [
        [200, 'minute 4', 'day 49'],
        [200, 'minute 3', 'day 48'],
        [200, 'minute 2', 'day 47'],
        [200, 'minute 1', 'day 46'],
        [200, 'minute 0', 'day 45'],
        [429, 'minute 0']
      ]
    )
    t.strictSame([violated(first[5]!), first[5]!.retryAfter], [['minute'], 60])
    clock.at(60)
    const second = await repeat(app, 6)
    t.strictSame([admitted(second), violated(second[5]!)], [5, ['minute']])
    t.match(second[4]!.limits, [
      { name: 'minute', r: 0 },
      { name: 'day', r: 40 }
    ])
    t.strictSame(await left(app, 'minute', 'day'), { minute: 0, day: 40 })
  })
})

fieldCase('C102', 'what one policy refuses the others do not pay for, in whatever order', async t => {
  const a: PolicyOptions = { quota: 10, window: 60 }
  const b: PolicyOptions = { quota: 2, window: 60 }
  const partitions = { 'of one partition': 'ip', 'of two partitions': 'global' } as const
  const orders: Readonly<Record<string, (b: PolicyOptions) => QuotaOptions['policies']>> = {
    'the wide one first': b => ({ a, b }),
    'the tight one first': b => ({ b, a }),
    'at two stages': b => ({ a: { ...a, hook: 'onRequest' }, b })
  }
  await inBothStores(t, async (t, serve) => {
    for (const [order, policies] of Object.entries(orders)) {
      for (const [where, partition] of Object.entries(partitions)) {
        const { app, clock } = await serve(policies({ ...b, partition }))
        const about = `${order}, ${where}`
        await app.quota.reset({ ip: '127.0.0.1' })
        const one = await repeat(app, 10)
        t.equal(admitted(one), 2, about)
        for (const told of one.slice(2)) t.strictSame(violated(told), ['b'])
        t.strictSame(await left(app, 'a', 'b'), { a: 8, b: 0 }, about)
        clock.now += 60_000
        t.equal(
          admitted(await Promise.all(Array.from({ length: 10 }, () => ask(app)))),
          2,
          `${about}, at once`
        )
        t.strictSame(await left(app, 'a', 'b'), { a: 8, b: 0 }, `${about}, at once`)
      }
    }
  })
})

fieldCase('C104', 'a refusal tells the numbers of who refused, in every form', async t => {
  const forms: readonly (Legacy | false)[] = [
    false,
    { style: 'x-ratelimit', reset: 'delta' },
    { style: 'x-ratelimit', reset: 'epoch' },
    'draft-6',
    'draft-7',
    'llm'
  ]
  await inBothStores(t, async (t, serve) => {
    for (const [i, legacy] of forms.entries()) {
      const { app, clock } = await serve({
        policies: { [`A${i}`]: { quota: 60, window: 60 }, [`B${i}`]: { quota: 2, window: 3600 } },
        legacy,
        ...(legacy === 'draft-7' && { fields: false })
      })
      const [, , third] = await repeat(app, 3)
      const { status, headers, retryAfter } = third!
      t.strictSame([status, violated(third!), retryAfter], [429, [`B${i}`], 3600])
      if (legacy !== 'draft-7') {
        t.strictSame(third!.limits, [{ name: `B${i}`, r: 0, t: 3600 }])
        t.equal(headers['ratelimit-policy'], `"A${i}";q=60;w=60, "B${i}";q=2;w=3600`, 'all are named')
      }
      const reset = Number(headers['x-ratelimit-reset'])
      const told: Readonly<Record<string, unknown>> =
        legacy === false
          ? {}
          : legacy === 'draft-6'
            ? { 'ratelimit-limit': '2', 'ratelimit-remaining': '0', 'ratelimit-reset': '3600' }
            : legacy === 'draft-7'
              ? { ratelimit: 'limit=2, remaining=0, reset=3600' }
              : legacy === 'llm'
                ? {
                    'x-ratelimit-limit-requests': '2',
                    'x-ratelimit-remaining-requests': '0',
                    'x-ratelimit-reset-requests': '1h0m0s'
                  }
                : { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0' }
      t.match(headers, told)
      const base = legacy === false || typeof legacy === 'string' ? undefined : legacy.reset
      if (base === 'delta') t.equal(reset, 3600)
      // The time of a store in Redis is not that of the process.
      if (base === 'epoch')
        t.ok([clock.now, Date.now()].some(now => Math.abs(reset - now / 1000 - 3600) < 30))
      clock.now += 7_200_000
    }
  })
})

fieldCase('C105', 'routes that name one policy share it, wherever they are', async t => {
  await inBothStores(t, async (t, serve) => {
    const { app } = await serve(
      { mails: { quota: 3, window: 60, default: false } },
      {
        routes: app => {
          const config = { quota: ['mails'] } as const
          app.register(async one => void one.get('/send', { config }, async () => 'sent'))
          app.register(async two => void two.get('/resend', { config }, async () => 'sent again'), {
            prefix: '/v1'
          })
        }
      }
    )
    const asked = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? '/send' : '/v1/resend'))
    t.strictSame(await statuses(app, ...asked), [200, 200, 200, 429, 429, 429, 429, 429])
  })
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(quota, { policies: { mails: { quota: 3, window: 60, default: false } } })
  const declare = (): unknown =>
    app.get('/', { config: { quota: [{ name: 'mails', quota: 4, window: 60 }] } }, async () => 'sent')
  t.throws(declare, { code: 'FST_QUOTA_POLICY', message: /"mails": the name is taken/ })
})
